"""Room for temporary files: counted, limited, given back, and freed with the process."""

import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple

import pytest

from catalogs.sources.base import SourceError
from catalogs.sources.spool import SPACE, spool, temporary_file

MIB = 1024**2
Usage = namedtuple("Usage", "total used free")


def test_a_body_over_the_limit_of_all_files_is_refused_and_its_room_given_back(monkeypatch):
    before = SPACE.used
    monkeypatch.setattr(SPACE, "limit", before + 10 * MIB)
    first = spool([b"x" * 6 * MIB], "the first").body
    assert first is not None
    with first as held:
        assert SPACE.used >= before + 5 * MIB
        with pytest.raises(SourceError, match="OLMWEB_SPOOL_LIMIT") as caught:
            spool([b"x" * MIB] * 6, "the second")
        assert (caught.value.code, held.closed) == ("no-room", False)
    assert SPACE.used == before
    fetched = spool([b"x" * MIB] * 6, "the second")
    assert fetched.body is not None
    fetched.body.close()
    assert SPACE.used == before


def test_the_disk_keeps_a_floor_of_free_space(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1, 1, 100 * MIB))
    with pytest.raises(SourceError, match="only 100 MiB free") as caught:
        spool([b"x" * MIB] * 40, "the catalog")
    assert caught.value.code == "no-room"


def test_writing_over_old_bytes_takes_no_more_room():
    before = SPACE.used
    with temporary_file() as file:
        for _ in range(3):
            file.seek(0)
            file.write(b"x" * MIB)
            file.flush()
        assert SPACE.used == before + MIB
    assert SPACE.used == before


def test_a_killed_process_leaves_no_file(tmp_path):
    code = (
        "import os, signal; from catalogs.sources.spool import temporary_file;"
        "f = temporary_file();"
        "f.write(b'x' * 10**6); f.flush(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], check=False, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    assert run.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
