"""References to images: registry, repository, tag, digest.

As in distribution/reference, the part before the first slash is a registry if it contains a dot or
a colon or is "localhost"; else the registry is Docker Hub.
"""

import re
from dataclasses import dataclass

from catalogs.sources.base import SourceError

DOCKER_HUB = "docker.io"
_HOST = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})|\[[0-9a-fA-F:.]{2,45}\])(?::[0-9]{1,5})?"
)
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


@dataclass(frozen=True, slots=True)
class ImageReference:
    """`registry` is "host" or "host:port"; `digest` has precedence over `tag`."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.registry}/{self.repository}{tag}{digest}"

    @property
    def host(self) -> str:
        """The host of the registry's API."""
        return "registry-1.docker.io" if self.registry == DOCKER_HUB else self.registry

    @property
    def wanted(self) -> str:
        """The digest or tag to request."""
        return self.digest or self.tag


def parse_reference(text: str) -> ImageReference:
    """The parts of an image reference; without tag and digest the tag is "latest".

    Raises SourceError that says which part is wrong.
    """
    text = text.strip()
    if "://" in text:
        scheme = text.partition("://")[0]
        raise _bad(text, f"begins with {scheme}://", f"Leave {scheme}:// out.")
    name, at, digest = text.partition("@")
    if at and not DIGEST.fullmatch(digest):
        raise _bad(text, "has no valid digest after its @", "A digest is sha256: and 64 digits.")
    name, colon, tag = _split_tag(name)
    if colon and not _TAG.fullmatch(tag):
        raise _bad(text, f'has the tag "{tag[:140]}", which is none', _TAG_HINT)
    first, slash, rest = name.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first or first[:1] == "["):
        registry, repository = first, rest
    else:
        registry, repository = DOCKER_HUB, name if slash else f"library/{name}"
    if registry == "index.docker.io":
        registry = DOCKER_HUB
    if not _HOST.fullmatch(registry):
        raise _bad(text, f'names the registry "{registry[:100]}", which is no host', _SHAPE)
    if not _REPOSITORY.fullmatch(repository) or len(repository) > 255:
        why = "holds capital letters" if repository != repository.lower() else "is no repository"
        raise _bad(text, f'names "{repository[:100]}", which {why}', _SHAPE)
    return ImageReference(registry, repository, tag or ("" if digest else "latest"), digest)


_SHAPE = "Write it as registry.example/team/catalog:tag, in small letters, or with @sha256:…"
_TAG_HINT = "A tag has letters, digits, _, . and -, at most 128 of them."


def _split_tag(name: str) -> tuple[str, str, str]:
    """A colon after the last slash begins a tag; one before it, a port."""
    if ":" not in name.rpartition("/")[2]:
        return name, "", ""
    before, colon, tag = name.rpartition(":")
    return before, colon, tag


def _bad(text: str, why: str, hint: str) -> SourceError:
    return SourceError(
        f'"{text[:300]}" can\'t name an image: it {why}.', code="bad-reference", hint=hint
    )
