"""A process that builds rows of packages, started by `catalogs.sync.pool`:
`python -m catalogs.sync.pool_process SPOOL JOBS TICKETS SIZE`.

The first three are numbers of open files. The file of jobs has the names of the spool's files in
its first SIZE bytes, then a PackageJob for each package. The process reads a ticket (offset and
length of a job) from the pipe that all processes share, writes the packs and the rows of the
package to standard output, each after its length in four bytes, and reads the next ticket. It ends
when the pipe of tickets is closed, or when its output is no longer read.
"""

import gc
import os
import struct
import sys

import msgspec

from catalogs.storage.packs import Pack
from catalogs.sync.package_rows import Files, PackageJob, PackageRows, RowBuilder

LENGTH_BYTES = 4
TICKET = struct.Struct("=QQ")  # divides a page: a pipe never splits a ticket


def main() -> None:
    gc.disable()  # rows hold no cycles; searching for them costs a tenth of the time
    spool, jobs, tickets, size = map(int, sys.argv[1:])
    builder = RowBuilder(spool, msgspec.msgpack.decode(os.pread(jobs, size, 0), type=Files))
    try:
        while ticket := os.read(tickets, TICKET.size):
            offset, length = TICKET.unpack(ticket)
            job = msgspec.msgpack.decode(os.pread(jobs, length, offset), type=PackageJob)
            _send(builder.build(job, _send))
    except BrokenPipeError:
        os._exit(0)  # the owner has gone


def _send(result: Pack | PackageRows) -> None:
    data = msgspec.msgpack.encode(result)
    out = sys.stdout.buffer
    out.write(len(data).to_bytes(LENGTH_BYTES, "big"))
    out.write(data)
    out.flush()


if __name__ == "__main__":
    main()
