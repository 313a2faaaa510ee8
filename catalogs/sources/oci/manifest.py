"""Manifests, indexes and configs of images, OCI's and Docker's, as far as a catalog needs them."""

import hashlib
from typing import TypeVar

import msgspec

from catalogs.sources.base import SourceError
from catalogs.sources.oci.reference import DIGEST

# The folder of a catalog in its image: operator-registry and catalogd read this label.
CONFIGS_LABEL = "operators.operatorframework.io.index.configs.v1"
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
    """What a blob or manifest is: its digest says what its bytes must be."""

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


class _Settings(msgspec.Struct):
    Labels: dict[str, str] | None = None


class _Config(msgspec.Struct):
    config: _Settings | None = None


def digest_of(data: bytes, like: str) -> str:
    """The digest of the bytes by the algorithm of the digest `like`."""
    algorithm = like.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def read_manifest(data: bytes, label: str) -> Manifest:
    """Raises SourceError for what is no manifest of an image, or one of a kind long gone."""
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
    """The manifest for linux/amd64, else the first: a catalog's content is the same in all."""
    images = [descriptor for descriptor in index.manifests or () if not _attestation(descriptor)]
    if not images:
        raise _no_image(label, "is an index without an image")
    for descriptor in images:
        if descriptor.platform and (descriptor.platform.os, descriptor.platform.architecture) == (
            "linux",
            "amd64",
        ):
            return descriptor
    return images[0]


def _attestation(descriptor: Descriptor) -> bool:
    """BuildKit lists what it attests about an image as an image of no platform."""
    return descriptor.platform is not None and descriptor.platform.os == "unknown"


def layers_of(manifest: Manifest, label: str) -> list[Descriptor]:
    """The layers, lowest first. Raises SourceError for one that is no tar of files."""
    for layer in manifest.layers or ():
        if not layer.mediaType.startswith(_LAYER_KINDS) or "encrypted" in layer.mediaType:
            raise _no_image(label, f'has a layer of type "{layer.mediaType[:100]}"')
        if "foreign" in layer.mediaType:
            raise _no_image(label, "has a layer that is kept outside of its registry")
    return manifest.layers or []


def configs_folder(data: bytes, label: str) -> str:
    """The folder that the image's label names. Raises SourceError when it names none."""
    config = _decode(data, _Config, "config", label)
    folder = ((config.config and config.config.Labels) or {}).get(CONFIGS_LABEL)
    if not folder:
        raise SourceError(
            f"{label} is no catalog: its image is missing the required label {CONFIGS_LABEL}.",
            code="no-configs-label",
            hint="opm generate dockerfile writes it. catalogd refuses such an image, too; a bundle "
            "image, or an index image with a database, has no such label.",
        )
    return folder


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
