"""A process that makes rows of packages: `python -m catalogs.rows.process FILE TICKETS`.

Both are numbers of open files: the spool, and a pipe of numbers of four bytes that all processes
read. Reads a Plan from standard input until its end; then takes a number from the pipe, writes the
packs and the rows of the package that has it to standard output, a length of four bytes before each
of them, and takes the next one. Ends by itself when there is none, or when nobody reads any more.
"""

import gc
import os
import sys

import msgspec

from catalogs.packs import Pack
from catalogs.rows.package import Maker
from catalogs.rows.shapes import PackageRows, Plan

LENGTH_BYTES = 4
TICKET_BYTES = 4


def main() -> None:
    gc.disable()  # rows hold no cycles; looking for some costs a tenth of the time
    plan = _plan()
    if plan is None:
        return  # the owner had nothing to read after all, or is gone
    file, tickets = map(int, sys.argv[1:])
    maker = Maker(file, plan.files)
    try:
        while ticket := os.read(tickets, TICKET_BYTES):
            _tell(maker.make(plan.packages[int.from_bytes(ticket, "big")], _tell))
    except BrokenPipeError:
        os._exit(0)  # the one who asked has gone


def _plan() -> Plan | None:
    asked = sys.stdin.buffer.read()
    return msgspec.msgpack.decode(asked, type=Plan) if asked else None


def _tell(made: Pack | PackageRows) -> None:
    answer = msgspec.msgpack.encode(made)
    out = sys.stdout.buffer
    out.write(len(answer).to_bytes(LENGTH_BYTES, "big"))
    out.write(answer)
    out.flush()


if __name__ == "__main__":
    main()
