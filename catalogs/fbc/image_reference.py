"""Whether a text is a reference to a container image, and what opm says when it isn't.

Pure. Mirrors ParseNormalizedNamed of container-libs (image/docker/reference), which opm asks, and
the digests of opencontainers/go-digest.
"""

import re
from functools import lru_cache

_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"((?:{_HOST}/)?{_PART}(?:/{_PART})*)(?::[\w][\w.-]{{0,127}})?"
    r"(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
# What nearly every reference looks like, in one look; longer names are left to the whole rules.
_PLAIN = re.compile(
    r"[a-z0-9]+(?:[.-][a-z0-9]+)*(?::[0-9]+)?(?:/[a-z0-9]+(?:[._-][a-z0-9]+)*)+"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
_DIGEST = re.compile(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+")
_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
LONGEST_NAME = 255
_CACHED = 1000  # longer ones are rare and would fill the cache with what nobody asks again
_HUB = "docker.io"


def image_fault(text: str) -> str:
    """Why `text` is no image reference, in the words of the library; "" when it is one."""
    return _cached(text) if len(text) < _CACHED else _fault(text)


@lru_cache(maxsize=8192)
def _cached(text: str) -> str:
    return _fault(text)


def _fault(text: str) -> str:
    if len(text) < LONGEST_NAME and _PLAIN.fullmatch(text):
        return ""
    if _IDENTIFIER.fullmatch(text):
        return f"invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
    domain, rest = _split(text)
    name = rest.partition(":")[0]
    if name.lower() != name:
        return "invalid reference format: repository name must be lowercase"
    match = _REFERENCE.fullmatch(f"{domain}/{rest}")
    if match is None:
        lower = _REFERENCE.fullmatch(f"{domain}/{rest}".lower())
        return "repository name must be lowercase" if lower else "invalid reference format"
    if len(match[1]) > LONGEST_NAME:
        return f"repository name must not be more than {LONGEST_NAME} characters"
    return _digest_fault(match[2]) if match[2] else ""


def _split(text: str) -> tuple[str, str]:
    """Domain and the rest; what names no domain is Docker Hub's."""
    domain, slash, rest = text.partition("/")
    if not slash or (domain != "localhost" and "." not in domain and ":" not in domain):
        domain, rest = _HUB, text
    if domain == "index.docker.io":
        domain = _HUB
    if domain == _HUB and "/" not in rest:
        rest = f"library/{rest}"
    return domain, rest


def _digest_fault(digest: str) -> str:
    algorithm, _, encoded = digest.partition(":")
    if algorithm not in _LENGTHS:
        valid = _DIGEST.fullmatch(digest)
        return "unsupported digest algorithm" if valid else "invalid checksum digest format"
    if len(encoded) != _LENGTHS[algorithm]:
        return "invalid checksum digest length"
    return "" if encoded == encoded.lower() else "invalid checksum digest format"
