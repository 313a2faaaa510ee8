"""A process that makes rows of packages: `python -m catalogs.sync.process SPOOL PLAN TICKETS SIZE`.

The first three are numbers of open files. The plan begins with what each file of the spool is
called, in SIZE bytes; behind it are packages to read, each an Asked. Takes a ticket,
the offset and the length of one of them, from the pipe that all processes read; writes its packs
and its rows to standard output, a length of four bytes before each, and takes the next ticket. Ends
by itself when there is none, or when nobody reads any more.
"""

import gc
import os
import struct
import sys

import msgspec

from catalogs.storage.packs import Pack
from catalogs.sync.package_rows import Maker
from catalogs.sync.row_types import Asked, Files, PackageRows

LENGTH_BYTES = 4
TICKET = struct.Struct("=QQ")  # divides a page: a pipe never cuts one in two


def main() -> None:
    gc.disable()  # rows hold no cycles; looking for some costs a tenth of the time
    spool, plan, tickets, size = map(int, sys.argv[1:])
    maker = Maker(spool, msgspec.msgpack.decode(os.pread(plan, size, 0), type=Files))
    try:
        while ticket := os.read(tickets, TICKET.size):
            offset, length = TICKET.unpack(ticket)
            asked = msgspec.msgpack.decode(os.pread(plan, length, offset), type=Asked)
            _tell(maker.make(asked, _tell))
    except BrokenPipeError:
        os._exit(0)  # the one who asked has gone


def _tell(made: Pack | PackageRows) -> None:
    answer = msgspec.msgpack.encode(made)
    out = sys.stdout.buffer
    out.write(len(answer).to_bytes(LENGTH_BYTES, "big"))
    out.write(answer)
    out.flush()


if __name__ == "__main__":
    main()
