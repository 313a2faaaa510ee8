"""A bundle's image (registry+v1): the files of its manifests/ and metadata/ folders.

The folders are those that the image's labels name, else the usual ones (operator-registry,
pkg/lib/bundle/generate.go). Only layers that may hold them are pulled: not those that the image's
history says were copied to another folder.
"""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import msgspec

from catalogs.sources.base import Limits, SourceError
from catalogs.sources.oci.layers import Unpacker
from catalogs.sources.oci.manifest import Descriptor, layers_of
from catalogs.sources.oci.source import Image, RegistryAccess, config_of, with_progress
from catalogs.sources.tree import File, Tree

MANIFESTS_LABEL = "operators.operatorframework.io.bundle.manifests.v1"
METADATA_LABEL = "operators.operatorframework.io.bundle.metadata.v1"
_MIB = 1024**2
LIMITS = Limits(
    body=32 * _MIB, files=2_000, layers=64 * _MIB, unpacked=1024 * _MIB, ratio_from=16 * _MIB
)
LARGEST_FILE = 8 * _MIB
# As BuildKit, and as Docker and buildah before it, write a step down.
_COPIED = re.compile(
    r"(?:/bin/sh -c #\(nop\)\s+)?(?:COPY|ADD)\s+(.*?)(?:\s*# buildkit)?", re.DOTALL
)
_TEXT = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class BundleFiles:
    """The files of an image by path below their folder, each folder in order of names.

    `digest` is the one that the reference stands for. `folders` are those inside of manifests/,
    which no installer reads. `passed_over` counts the layers that were not pulled.
    """

    digest: str
    manifests: tuple[tuple[str, bytes], ...]
    metadata: tuple[tuple[str, bytes], ...]
    folders: tuple[str, ...] = ()
    passed_over: int = 0
    requests: int = 0
    bytes_read: int = 0


class _Settings(msgspec.Struct):
    Labels: dict[str, str] | None = None


class _Step(msgspec.Struct):
    created_by: str = ""
    empty_layer: bool = False


class _Config(msgspec.Struct):
    config: _Settings | None = None
    history: list[_Step] | None = None


class BundleSource(Image):
    """A bundle's image by its reference. Raises SourceError for an invalid reference."""

    def __init__(
        self, reference: str, *, access: RegistryAccess | None = None, limits: Limits = LIMITS
    ) -> None:
        super().__init__(reference, access=access, limits=limits)

    def fetch(self) -> BundleFiles:
        """Pulls the layers and reads the two folders. Raises SourceError."""
        with self.client() as client, tempfile.TemporaryFile(prefix="olmweb-") as store:
            manifest, digest = self.manifest(client)
            config = self._config(client.config(config_of(manifest, self.label)))
            labels = (config.config and config.config.Labels) or {}
            names = [
                labels.get(MANIFESTS_LABEL) or "manifests",
                labels.get(METADATA_LABEL) or "metadata",
            ]
            layers = layers_of(manifest, self.label)
            wanted = needed(layers, config.history, names)
            total = sum(layer.size for layer in wanted)
            if total > self._limits.layers:
                raise SourceError(
                    f"{self.label} has layers of {total:,} bytes that may hold its manifests, "
                    f"more than the {self._limits.layers:,} that are pulled.",
                    code="too-large",
                )
            unpacker = Unpacker(self.label, names, self._limits, store)
            done = 0
            for number, layer in enumerate(wanted, 1):
                pulled = client.blob(layer, f"layer {number}")
                unpacker.apply(with_progress(pulled, done, total), number)
                done += layer.size
            tree = self._folder(unpacker, 0)
            folders = sorted({path.partition("/")[0] for path, _ in tree.leaves() if "/" in path})
            return BundleFiles(
                digest,
                self._files(tree, store),
                self._files(self._folder(unpacker, 1, required=False), store),
                tuple(folders),
                len(layers) - len(wanted),
                client.requests,
                client.bytes_read,
            )

    def _config(self, data: bytes) -> _Config:
        try:
            return msgspec.json.decode(data, type=_Config)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise SourceError(
                f"{self.label} has a config that can't be read: {error}.", code="not-an-image"
            ) from error

    def _folder(self, unpacker: Unpacker, number: int, *, required: bool = True) -> Tree:
        try:
            return unpacker.folder(number)
        except SourceError:
            if not required:
                return Tree(self.label)
            raise SourceError(
                f"{self.label} has no folder with manifests: it is no bundle's image.",
                code="no-manifests",
            ) from None

    def _files(self, tree: Tree, store: BinaryIO) -> tuple[tuple[str, bytes], ...]:
        """The texts right in the folder, links inside of it followed. Raises SourceError."""
        files = []
        for path in sorted(path for path, _ in tree.leaves() if "/" not in path):
            if not path.endswith(_TEXT):
                continue
            file = tree.resolve(path)
            if not isinstance(file, File):
                continue
            if file.size > LARGEST_FILE:
                raise SourceError(
                    f"{path[:200]} in {self.label} has {file.size:,} bytes, more than the "
                    f"{LARGEST_FILE:,} that are read.",
                    code="too-large",
                )
            store.seek(file.offset)
            files.append((path, store.read(file.size)))
        return tuple(files)


def needed(
    layers: Sequence[Descriptor], history: Sequence[_Step] | None, folders: Sequence[str]
) -> list[Descriptor]:
    """The layers that may touch one of the folders; all, where the history doesn't fit them."""
    steps = [step for step in history or () if not step.empty_layer]
    if len(steps) != len(layers):
        return list(layers)
    wanted = [_parts(folder) for folder in folders]
    return [
        layer
        for layer, step in zip(layers, steps, strict=True)
        if not _elsewhere(step.created_by, wanted)
    ]


def _elsewhere(created_by: str, folders: Sequence[list[str]]) -> bool:
    """Whether the step copied into a folder that is neither in, nor is, nor is above one of
    these."""
    match = _COPIED.fullmatch(created_by[:10_000])
    target = match[1].split()[-1].strip('"[],') if match and match[1].split() else ""
    if not target.startswith("/") or ".." in target or "$" in target:
        return False
    parts = _parts(target)
    return not any(parts[: len(folder)] == folder[: len(parts)] for folder in folders)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
