"""A process that makes rows of packages: `python -m catalogs.rows.process FILE`.

FILE is the number of an open file, the spool. Reads a Plan from standard input until its end, then
writes the packs and the rows of each package to standard output, a length of four bytes before each
of them. Ends by itself when nobody reads any more.
"""

import gc
import os
import sys

import msgspec

from catalogs.packs import Pack
from catalogs.rows.package import Maker
from catalogs.rows.shapes import PackageRows, Plan

LENGTH_BYTES = 4


def main() -> None:
    gc.disable()  # rows hold no cycles; looking for some costs a tenth of the time
    asked = sys.stdin.buffer.read()
    if not asked:
        return  # the owner had nothing to read after all, or is gone
    plan = msgspec.msgpack.decode(asked, type=Plan)
    maker = Maker(int(sys.argv[1]), plan.files)
    try:
        for asked in plan.packages:
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
