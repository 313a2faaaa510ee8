"""A process that builds rows of packages, started by `catalogs.sync.pool`:
`python -m catalogs.sync.pool_process SPOOL JOBS TICKETS SIZE MEMORY`.

The first three are numbers of open files. The file of jobs has the names of the spool's files in
its first SIZE bytes, then a PackageJob for each package. The process reads a ticket (offset and
length of a job) from the pipe that all processes share, writes the packs and the rows of the
package to standard output, each after its length in four bytes, and reads the next ticket. It ends
when the pipe of tickets is closed, or when its output is no longer read.

The content is untrusted, so the process has a limit of its own memory: a package that needs more is
reported as OutOfMemory, and the owner goes on. The owner itself only holds positions of blobs and
decoded rows, whose blobs are bounded by `Limits.blob`. The process has a lower priority than its
owner and everything else.
"""

import gc
import os
import resource
import struct
import sys

import msgspec

from catalogs.storage.packs import Pack
from catalogs.sync.package_rows import Files, PackageJob, PackageRows, RowBuilder

LENGTH_BYTES = 4
# Of private memory (RLIMIT_DATA: not of the spool's map, nor of libraries). Reading a catalog of
# 130 MB with 332 packages takes 21 MiB; a YAML blob of the largest size takes most.
MEMORY_LIMIT = 1024**3
NICE = 10  # pages and watches of the same machine go first: a sync may use all cores for minutes
TICKET = struct.Struct("=QQ")  # divides a page: a pipe never splits a ticket


class OutOfMemory(msgspec.Struct, array_like=True, tag=True):
    """A package that can't be read within MEMORY_LIMIT."""

    name: str


def main() -> None:
    spool, jobs, tickets, size, limit = map(int, sys.argv[1:])
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    os.nice(NICE)
    gc.disable()  # rows hold no cycles; searching for them costs a tenth of the time
    builder = RowBuilder(spool, msgspec.msgpack.decode(os.pread(jobs, size, 0), type=Files))
    try:
        while ticket := os.read(tickets, TICKET.size):
            offset, length = TICKET.unpack(ticket)
            job = msgspec.msgpack.decode(os.pread(jobs, length, offset), type=PackageJob)
            try:
                _send(builder.build(job, _send))
            except MemoryError:
                _send(OutOfMemory(job.name))
                return
    except BrokenPipeError:
        os._exit(0)  # the owner has gone


def _send(result: Pack | PackageRows | OutOfMemory) -> None:
    data = msgspec.msgpack.encode(result)
    out = sys.stdout.buffer
    out.write(len(data).to_bytes(LENGTH_BYTES, "big"))
    out.write(data)
    out.flush()


if __name__ == "__main__":
    main()
