"""Manifests, indexes and configs of images, OCI's and Docker's, as far as a catalog needs them."""

import hashlib
from typing import TypeVar

import msgspec

from catalogs.sources.base import SourceError
from catalogs.sources.oci.reference import DIGEST

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
ACCEPT = ", ".join(MANIFESTS + INDEXES)
_LAYER_KINDS = (
    "application/vnd.oci.image.layer.",
    "application/vnd.docker.image.rootfs.diff.",
)
_Type = TypeVar("_Type")


class Platform(msgspec.Struct):
    os: str = ""
    architecture: str = ""


class Descriptor(msgspec.Struct):
    """The digest and the size of a blob or manifest."""

    digest: str
    size: int
    mediaType: str = ""
    platform: Platform | None = None


class Manifest(msgspec.Struct):
    """A manifest (`config`, `layers`) or an index (`manifests`)."""

    schemaVersion: int = 0
    mediaType: str = ""
    config: Descriptor | None = None
    layers: list[Descriptor] | None = None
    manifests: list[Descriptor] | None = None


class ConfigSettings(msgspec.Struct):
    Labels: dict[str, str] | None = None


class BuildStep(msgspec.Struct):
    created_by: str = ""
    empty_layer: bool = False


class ImageConfig(msgspec.Struct):
    config: ConfigSettings | None = None
    history: list[BuildStep] | None = None

    @property
    def labels(self) -> dict[str, str]:
        return (self.config and self.config.Labels) or {}


def digest_of(data: bytes, like: str) -> str:
    """The digest of the bytes by the algorithm of the digest `like`."""
    algorithm = like.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def read_manifest(data: bytes, label: str) -> Manifest:
    """Raises SourceError for anything but an image's manifest, and for one of schema 1."""
    manifest = _decode(data, Manifest, "manifest", label)
    if manifest.schemaVersion == 1:
        raise _no_image(label, "has a manifest of schema 1, which registries gave up in 2017")
    every = [*(manifest.layers or ()), *(manifest.manifests or ())]
    every += [manifest.config] if manifest.config else []
    for descriptor in every:
        if not DIGEST.fullmatch(descriptor.digest) or descriptor.size < 0:
            raise _no_image(label, f'has a manifest with the digest "{descriptor.digest[:100]}"')
    if manifest.manifests is None and manifest.config is None:
        raise _no_image(label, "has a manifest that names neither a config nor other manifests")
    return manifest


def pick(index: Manifest, label: str) -> Descriptor:
    """The manifest for linux/amd64, else the first: the content is the same for all platforms."""
    images = [descriptor for descriptor in index.manifests or () if not _attestation(descriptor)]
    if not images:
        raise _no_image(label, "is an index without an image")
    for descriptor in images:
        if descriptor.platform == Platform("linux", "amd64"):
            return descriptor
    return images[0]


def _attestation(descriptor: Descriptor) -> bool:
    """Whether it is an attestation of BuildKit, which is listed with the platform "unknown"."""
    return descriptor.platform is not None and descriptor.platform.os == "unknown"


def layers_of(manifest: Manifest, label: str) -> list[Descriptor]:
    """The layers, lowest first. Raises SourceError for a layer that is no tar of files."""
    for layer in manifest.layers or ():
        if not layer.mediaType.startswith(_LAYER_KINDS) or "encrypted" in layer.mediaType:
            raise _no_image(label, f'has a layer of type "{layer.mediaType[:100]}"')
        if "foreign" in layer.mediaType:
            raise _no_image(label, "has a layer that is kept outside of its registry")
    return manifest.layers or []


def read_config(data: bytes, label: str) -> ImageConfig:
    """Raises SourceError for an unreadable config."""
    return _decode(data, ImageConfig, "config", label)


def _decode(data: bytes, kind: type[_Type], what: str, label: str) -> _Type:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _no_image(label, f"has a {what} that can't be read: {error}") from error


def _no_image(label: str, why: str) -> SourceError:
    return SourceError(
        f"{label} {why}.",
        code="not-an-image",
        hint="Give the reference of a catalog's image.",
    )
