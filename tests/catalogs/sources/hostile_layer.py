"""Reads one hostile layer or tar in a process of its own, for `test_hostile_archives`:
`python -m tests.catalogs.sources.hostile_layer KIND`. Prints the code of the error, "" without one,
and the growth of the peak of resident memory in MiB.
"""

import io
import resource
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from tarfile import GNUTYPE_LONGLINK, GNUTYPE_LONGNAME, GNUTYPE_SPARSE, XGLTYPE, XHDTYPE, TarInfo

from catalogs.sources.archive import unpacked
from catalogs.sources.base import LIMITS, SourceError
from catalogs.sources.oci.layers import Unpacker
from catalogs.sources.spool import spool

MIB = 1024**2
END = bytes(1024)


def header(name: str, kind: bytes = b"0", size: int = 0, link: str = "") -> bytes:
    member = TarInfo(name)
    member.type, member.size, member.linkname = kind, size, link
    return member.tobuf()


def filler(count: int, byte: bytes = b"x") -> Iterator[bytes]:
    for _ in range(count):
        yield byte * MIB


def long(kind: bytes, *, mib: int = 300) -> Iterator[bytes]:
    yield header("x", kind, mib * MIB)
    yield from filler(mib)
    yield header("configs/a.json") + END


def chain() -> Iterator[bytes]:
    for _ in range(300):
        yield header("x", XHDTYPE, MIB) + b"11 a=xxxxx\n".ljust(MIB, b"\0")
    yield header("configs/a.json") + END


def records() -> Iterator[bytes]:
    for part in range(100):
        data = b"".join(b"25 k%05d%09d=xxxxx\n" % (part, i) for i in range(2000))
        yield header("x", XGLTYPE, len(data)) + data.ljust(-(-len(data) // 512) * 512, b"\0")
    yield header("configs/a.json") + END


def sparse_blocks() -> Iterator[bytes]:
    block = bytearray((b"00000000777\0" * 42).ljust(512, b"\0"))
    block[504] = 1
    first = bytearray(header("configs/a.json", GNUTYPE_SPARSE))
    first[482] = 1
    first[148:156] = b" " * 8
    first[148:156] = b"%06o\0 " % sum(first)
    yield bytes(first)
    for _ in range(100):
        yield bytes(block) * 2048
    block[504] = 0
    yield bytes(block) + END


def sparse_map() -> Iterator[bytes]:
    data = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
    yield header("x", XHDTYPE, len(data)) + data.ljust(512, b"\0")
    yield header("configs/a.json", size=300 * MIB + 512)
    yield b"99999999\n".ljust(512, b"1")
    yield from filler(300, b"1")
    yield END


def links() -> Iterator[bytes]:
    for number in range(300):
        yield header("x", GNUTYPE_LONGLINK, MIB - 1) + b"y" * (MIB - 1) + b"\0"
        yield header(f"configs/{number}", b"2")
    yield END


def folders() -> Iterator[bytes]:
    for number in range(90_000):
        name = f"configs/{number}/" + "a/" * 60
        data = f"{len(name) + 9 + 1} path={name}\n".encode()
        yield header("x", XHDTYPE, len(data)) + data.ljust(512, b"\0") + header("a")
    yield END


def backwards() -> Iterator[bytes]:
    data = b"16 size=-102400\n"
    yield header("x", XHDTYPE, len(data)) + data.ljust(512, b"\0") + header("configs/a") + END


KINDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "pax": lambda: long(XHDTYPE),
    "global": lambda: long(XGLTYPE),
    "longname": lambda: long(GNUTYPE_LONGNAME),
    "longlink": lambda: long(GNUTYPE_LONGLINK),
    "chain": chain,
    "records": records,
    "sparse-blocks": sparse_blocks,
    "sparse-map": sparse_map,
    "links": links,
    "folders": folders,
    "backwards": backwards,
}


def compressed(chunks: Iterator[bytes]) -> list[bytes]:
    packer = zlib.compressobj(1, wbits=31)
    return [*filter(None, map(packer.compress, chunks)), packer.flush()]


def main() -> None:
    way, kind = sys.argv[1:]
    data = compressed(KINDS[kind]())
    before, code = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, ""
    try:
        if way == "layer":
            with tempfile.TemporaryFile() as store:
                Unpacker("the image", ["configs"], LIMITS, store).apply(iter(data), 1)
        else:
            fetched = spool(data, "the file")
            unpacked(fetched, "the file", LIMITS)
    except SourceError as error:
        code = error.code
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(code or "-", (after - before) // 1024)


if __name__ == "__main__":
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, line_buffering=True)
    main()
