"""Catalogs in folders and in tars: what is read, in which order, what is refused with words."""

import gzip
import json
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from catalogs.fbc.split import CutShort, index_spool
from catalogs.sources import spool
from catalogs.sources.base import Limits, SourceError, opened, progress_callback
from catalogs.sources.file import DirectorySource, path_source
from catalogs.sources.tree import content_paths
from tests.worlds.image_registry_fake import link, tar

ONE, TWO, THREE = (b'{"schema":"olm.package","name":"%d"}' % n for n in (1, 2, 3))
YAML = b"---\nschema: olm.package\nname: y\n---\nschema: olm.package\nname: z\n"


def fill(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def read(path: Path, **options) -> tuple[bytes, list[str]]:
    with opened(path_source(path, **options)) as fetched:
        assert fetched.body is not None
        body = fetched.body.read()
        for start, _ in fetched.files:
            assert start == 0 or body[start - 1 : start] == b"\n"
        return body, [name for _, name in fetched.files]


def failure(path: Path, **options) -> SourceError:
    with pytest.raises(SourceError) as caught, opened(path_source(path, **options)):
        pass
    return caught.value


def test_a_folder_is_read_file_by_file_as_opm_walks_it(tmp_path):
    fill(tmp_path, {"b.json": ONE, "a/z.yaml": YAML, "a.txt": TWO, "a/b/c": THREE, ".hidden": ONE})
    body, names = read(tmp_path)
    assert names == [".hidden", "a/b/c", "a/z.yaml", "a.txt", "b.json"]
    assert body == b"\n".join((ONE, THREE, YAML.rstrip(b"\n"), TWO, ONE))


def test_each_file_of_a_folder_is_json_or_yaml_by_itself(tmp_path):
    fill(tmp_path, {"a.json": ONE + TWO, "b.yaml": YAML, "c.json": json.dumps({}).encode()})
    with opened(path_source(tmp_path)) as fetched:
        assert fetched.body is not None
        index = index_spool(fetched.body, files=fetched.files)
    assert list(index.packages) == ["1", "2", "y", "z"]
    assert [problem.offset for problem in index.problems] == [dict_of(fetched.files)["c.json"]]
    assert fetched.access_method == "directory"


def dict_of(files: tuple[tuple[int, str], ...]) -> dict[str, int]:
    return {name: start for start, name in files}


def test_a_file_of_a_folder_that_is_cut_is_named(tmp_path):
    fill(tmp_path, {"a.json": ONE, "sub/b.json": TWO + b"\n" + THREE[:-4], "c.json": ONE})
    with opened(path_source(tmp_path)) as fetched:
        assert fetched.body is not None
        with pytest.raises(CutShort) as caught:
            index_spool(fetched.body, files=fetched.files)
    assert str(caught.value).startswith("sub/b.json ends in the middle of the blob at byte 36")


def test_compressed_files_of_a_folder_are_decoded(tmp_path):
    fill(tmp_path, {"a": gzip.compress(ONE), "b": lzma.compress(TWO)})
    fill(tmp_path, {"c": zstandard.compress(THREE)})
    assert read(tmp_path)[0] == b"\n".join((ONE, TWO, THREE))
    fill(tmp_path, {"b": lzma.compress(TWO)[:-9]})
    assert failure(tmp_path).message.startswith(f"b in {tmp_path} is cut short: the xz data ends")


def test_an_indexignore_leaves_files_out_wherever_it_lies(tmp_path):
    fill(
        tmp_path,
        {
            ".indexignore": b"# notes\n*.md\n/docs/\nold.*\n!old.yaml\n",
            "README.md": b"#",
            "docs/x.json": b"#",
            "a/docs/y.json": ONE,
            "a/old.json": b"#",
            "a/old.yaml": TWO,
            "a/b/.indexignore": b"!keep.md\nout.json\n",
            "a/b/keep.md": THREE,
            "a/b/out.json": b"#",
            "out.json": ONE,
        },
    )
    assert read(tmp_path)[1] == ["a/b/keep.md", "a/docs/y.json", "a/old.yaml", "out.json"]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (b"a*b*c*d*e\n", "has more than 3 wildcards in one name in line 1"),
        (b"\n**/a/**/b/**/c/**/d\n", "has more than 3 wildcards in one name in line 2"),
        (b"x\n" * 40_000, "is larger than 64 KiB"),
    ],
)
def test_an_indexignore_that_would_cost_too_much_is_refused(tmp_path, rules, words):
    error = failure(fill(tmp_path, {"s/.indexignore": rules, "a": ONE}))
    assert (error.code, error.message) == ("indexignore", f"s/.indexignore {words}.")


def test_a_pattern_that_is_none_is_passed_over():
    files = {".indexignore": b"!\n\xff\xfe\nb\n", "a": b"", "b": b""}
    assert list(content_paths(files, files.__getitem__)) == ["a"]


def test_links_are_followed_inside_the_folder_only(tmp_path):
    outside = fill(tmp_path / "outside", {"secret": b"hush"})
    folder = fill(tmp_path / "folder", {"a.json": ONE, "sub/b.json": TWO})
    (folder / "sub/up.json").symlink_to("../a.json")
    (folder / "same").symlink_to("sub")
    assert read(folder)[1] == ["a.json", "sub/b.json", "sub/up.json"]
    for target, words in (
        (outside / "secret", "leads out of the catalog's folder"),
        ("../outside/secret", "leads out of the catalog's folder"),
        ("nowhere", "leads to nothing"),
        ("bad", "leads in a circle"),
    ):
        bad = folder / "bad"
        bad.symlink_to(target)
        error = failure(folder)
        assert (error.code, error.message) == (
            "bad-link",
            f"bad in {folder} is a link that {words}.",
        )
        fill(folder, {".indexignore": b"bad\n"})
        assert "bad" not in read(folder)[1]
        (folder / ".indexignore").unlink()
        bad.unlink()


def test_what_is_no_file_in_a_folder_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert failure(tmp_path).message == (
        f"pipe in {tmp_path} is no file, and can't be content of a catalog."
    )


def test_an_empty_folder_is_refused(tmp_path):
    assert failure(tmp_path).message == f"{tmp_path} is empty."
    fill(tmp_path, {".indexignore": b"*\n", "a": ONE})
    assert failure(tmp_path).code == "empty"


def test_a_folder_of_too_many_files_is_refused(tmp_path):
    fill(tmp_path, {str(number): ONE for number in range(5)})
    error = failure(tmp_path, limits=Limits(files=4))
    assert (error.code, "more than 4 files" in error.message) == ("too-many-files", True)


def test_a_folder_over_the_cap_is_refused(tmp_path):
    fill(tmp_path, {str(number): ONE for number in range(5)})
    assert failure(tmp_path, limits=Limits(body=100)).code == "too-large"


def test_an_unchanged_folder_is_not_read_again(tmp_path):
    fill(tmp_path, {"a": ONE, "s/b": TWO})
    with opened(path_source(tmp_path)) as first:
        stamp = first.last_modified
    assert len(stamp) <= 60
    with opened(path_source(tmp_path), stamp) as second:
        assert (second.body, second.last_modified) == (None, stamp)
    fill(tmp_path, {"s/b": THREE})
    with opened(path_source(tmp_path), stamp) as third:
        assert third.body is not None
        assert third.last_modified != stamp


@pytest.mark.parametrize("change", ["rewritten", "removed", "added"])
def test_a_folder_that_changes_while_it_is_read_is_noticed(tmp_path, change):
    fill(tmp_path, {"a": ONE, "b": TWO})

    def meddle(_read: int, _total: int) -> None:
        if change == "rewritten":
            fill(tmp_path, {"a": THREE + b" "})
        elif change == "removed":
            (tmp_path / "b").unlink(missing_ok=True)
        else:
            fill(tmp_path, {"c": THREE})

    with progress_callback(meddle):
        error = failure(tmp_path)
    assert error.code == "changed-while-reading"
    assert error.message == f"{tmp_path} changed while it was being read."


def test_a_folder_that_is_gone_is_told(tmp_path):
    source = DirectorySource(tmp_path / "gone")
    with pytest.raises(SourceError, match="gone can't be read: No such file or directory"):
        source.fetch()


def test_names_that_no_database_stores_are_shown_with_marks(tmp_path):
    (tmp_path / os.fsdecode(b"\xff.json")).write_bytes(ONE)
    assert read(tmp_path)[1] == ["?.json"]


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar.gz": gzip.compress,
    "tar.xz": lzma.compress,
    "tar.zst": zstandard.compress,
}


@pytest.mark.parametrize("encoding", COMPRESSED)
def test_a_tar_is_a_folder(tmp_path, encoding):
    data = tar(
        ("./b.json", ONE),
        ("./a/z.yaml", YAML),
        ("./.indexignore", b"*.md\n"),
        ("./README.md", b"#"),
        link("./a/link", "../b.json"),
        link("./hard", "./b.json", tarfile.LNKTYPE),
        link("./folder", "a"),
        ("./a/twice", TWO),
        ("./a/twice", THREE),
    )
    path = tmp_path / "catalog"
    path.write_bytes(COMPRESSED[encoding](data))
    body, names = read(path)
    assert names == ["a/link", "a/twice", "a/z.yaml", "b.json", "hard"]
    assert body == b"\n".join((ONE, THREE, YAML.rstrip(b"\n"), ONE, ONE))


@pytest.mark.parametrize(
    ("member", "code", "words"),
    [
        (("../x", ONE), "climbs-out", 'holds the path "../x", which climbs out of it'),
        (("a/../../x", ONE), "climbs-out", "climbs out of it"),
        (("/etc/x", ONE), "climbs-out", 'holds the absolute path "/etc/x"'),
        (link("l", "../x"), "bad-link", "l in PATH is a link that leads out of the catalog's"),
        (link("l", "/etc/passwd"), "bad-link", "leads out of the catalog's folder"),
        (link("l", "l"), "bad-link", "leads in a circle"),
        (link("l", "no"), "bad-link", "leads to nothing"),
        (link("h", "no", tarfile.LNKTYPE), "bad-link", 'h in PATH is a hard link to "no", which'),
        (link("h", "../no", tarfile.LNKTYPE), "climbs-out", "climbs out of it"),
        (link("d", "", tarfile.CHRTYPE), "not-a-file", "d in PATH is a device, which can't be"),
        (link("p", "", tarfile.FIFOTYPE), "not-a-file", "p in PATH is a pipe"),
        (("d/" * 70 + "x", ONE), "path-too-long", "a path that is too long or too deep"),
        (("n" * 300, ONE), "path-too-long", "a path that is too long or too deep"),
    ],
)
def test_a_tar_with_what_no_catalog_holds_is_refused(tmp_path, member, code, words):
    path = tmp_path / "c.tar"
    path.write_bytes(tar(("a.json", ONE), member))
    error = failure(path)
    assert error.code == code
    assert words.replace("PATH", str(path)) in error.message


def test_two_links_that_lead_to_each_other_are_a_circle(tmp_path):
    path = tmp_path / "c.tar"
    path.write_bytes(tar(link("a", "b"), link("b", "a")))
    assert failure(path).message == f"a in {path} is a link that leads in a circle."


def test_a_tar_cut_anywhere_is_refused(tmp_path):
    path = tmp_path / "c.tar"
    data = tar(("a.json", ONE), ("b.json", TWO))
    for kept_bytes in range(512, 4 * 512 + 1, 64):
        path.write_bytes(data[:kept_bytes])
        assert failure(path).code == "cut-short", kept_bytes


def test_a_tar_damaged_in_the_middle_loses_nothing_silently(tmp_path):
    path = tmp_path / "c.tar"
    data = bytearray(tar(("a.json", ONE), ("b.json", TWO)))
    data[1024:1100] = b"\xff" * 76
    path.write_bytes(data)
    assert failure(path).message.startswith(f"{path} is not readable as tar:")


def test_a_tar_of_too_many_members_is_refused(tmp_path):
    path = tmp_path / "c.tar"
    path.write_bytes(tar(*((str(number), ONE) for number in range(5))))
    assert failure(path, limits=Limits(files=4)).code == "too-many-files"


def test_a_full_disk_is_told_in_a_sentence(tmp_path, monkeypatch):
    def write(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool._SpaceFile, "write", write)
    error = failure(fill(tmp_path, {"a": ONE}))
    assert error.code == "no-room"
    assert error.message.endswith(": No space left on device.")


def test_reading_is_told_in_bytes(tmp_path):
    fill(tmp_path, {"a": ONE, "b": TWO})
    reported: list[tuple[int, int]] = []
    with (
        progress_callback(lambda read, total: reported.append((read, total))),
        progress_callback(lambda *_: None),
    ):
        read(tmp_path)
    assert reported == [(35, 70), (70, 70)]
