"""Reads catalogs and bundles from images.

A catalog is in the folder that the image's label names, as for operator-registry and catalogd. A
bundle (registry+v1) has the folders that its labels name, else the default ones (operator-registry,
pkg/lib/bundle/generate.go); layers that the image's history copied elsewhere are not pulled.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TypeVar

from catalogs.sources.base import LIMITS, Cut, Fetched, Limits, SourceError, report_progress
from catalogs.sources.oci.auth import credentials_for
from catalogs.sources.oci.client import Pace, RegistryClient
from catalogs.sources.oci.layers import Unpacker
from catalogs.sources.oci.manifest import (
    BuildStep,
    Descriptor,
    ImageConfig,
    Manifest,
    layers_of,
    pick,
    read_config,
    read_manifest,
)
from catalogs.sources.oci.mirrors import NO_RULES, Endpoint, Registries
from catalogs.sources.oci.reference import parse_reference
from catalogs.sources.spool import Spool, temporary_file
from catalogs.sources.tree import File, Tree

CONFIGS_LABEL = "operators.operatorframework.io.index.configs.v1"
MANIFESTS_LABEL = "operators.operatorframework.io.bundle.manifests.v1"
METADATA_LABEL = "operators.operatorframework.io.bundle.metadata.v1"
_MIB = 1024**2
BUNDLE_LIMITS = Limits(
    body=32 * _MIB,
    files=2_000,
    layers=64 * _MIB,
    unpacked=1024 * _MIB,
    ratio_from=16 * _MIB,
    seconds=200,
)
LARGEST_FILE = 8 * _MIB
# A step as written by BuildKit, and by Docker and buildah.
_COPIED = re.compile(
    r"(?:/bin/sh -c #\(nop\)\s+)?(?:COPY|ADD)\s+(.*?)(?:\s*# buildkit)?", re.DOTALL
)
_TEXT = (".yaml", ".yml", ".json")
# Faults of one registry, after which the next is asked; those of the image are the same at all.
_PASSING = frozenset(
    (
        *("unreachable", "not-found", "forbidden", "token-server", "http-status", "rate-limited"),
        *("too-slow", "bad-url", "cut-short", "wrong-digest"),
    )
)
_ABOUT_HTTP = (
    " A registry on this machine, or of plain http, has to be in OLMWEB_INSECURE_REGISTRIES."
)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """Access to registries: `insecure` are "host:port" of those with plain http, which may be on
    this machine; `credentials` is a Docker config file, which need not exist. `named_by_others`: no
    person typed the reference, so a registry that is neither insecure nor in the file must have a
    public address. `registries` has mirrors. `pace` spaces the requests of all images out."""

    insecure: frozenset[str] = frozenset()
    credentials: Path | None = None
    named_by_others: bool = False
    pace: Pace | None = None
    registries: Registries = NO_RULES

    def first_registry(self, image: str) -> str:
        """The registry that is asked first for the image; that of its name for an invalid one."""
        try:
            return self.registries.endpoints(parse_reference(image))[0].reference.registry
        except SourceError:
            return image.partition("/")[0]


class RemoteImage:
    """An image by its reference. Raises SourceError for an invalid reference."""

    default_limits = LIMITS

    def __init__(
        self, reference: str, *, access: RegistryAccess | None = None, limits: Limits | None = None
    ) -> None:
        self._reference = parse_reference(reference)
        self.label = str(self._reference)
        self._access = access or RegistryAccess()
        self._limits = limits or self.default_limits

    def resolve(self) -> str:
        """The digest of the referenced image, by one HEAD; "" if the registry reports none. Raises
        SourceError."""
        if self._reference.digest:
            return self._reference.digest
        return self._from_any(RegistryClient.resolve)

    def _from_any(self, read: Callable[[RegistryClient], _T]) -> _T:
        """The result of `read` with the first registry that has the image. Raises SourceError:
        that of the first registry, with what the others answered."""
        errors: list[SourceError] = []
        spent, began = (0, 0), time.monotonic()
        for endpoint in self._access.registries.endpoints(self._reference):
            try:
                with self._client(endpoint, spent, began) as client:
                    return read(client)
            except SourceError as error:
                spent = (error.requests, error.bytes_read)
                errors.append(error)
                if error.code not in _PASSING:
                    break
        first = errors[0]
        first.message = " ".join(failure.message for failure in errors)
        first.requests, first.bytes_read = spent
        raise first

    @contextmanager
    def _client(
        self, endpoint: Endpoint, spent: tuple[int, int], began: float
    ) -> Iterator[RegistryClient]:
        """A client of one registry, whose costs go on from `spent` (requests, bytes). Errors
        raised in the block get the cost of the attempt."""
        access, reference = self._access, endpoint.reference
        credentials = credentials_for(reference, access.credentials)
        insecure = access.insecure | ({reference.host} if endpoint.insecure else set())
        client = RegistryClient(
            reference,
            credentials,
            frozenset(insecure),
            public_only=access.named_by_others
            and not credentials.complete
            and not endpoint.configured,
            pace=access.pace,
            seconds=max(1.0, self._limits.seconds - (time.monotonic() - began)),
        )
        client.requests, client.bytes_read = spent
        about_http = "" if reference.host in insecure else _ABOUT_HTTP
        try:
            yield client
        except Cut as error:
            raise SourceError(
                f"{reference} can't be read: {error}",
                code=error.code,
                hint=error.hint + about_http,
                requests=client.requests,
                bytes_read=client.bytes_read,
            ) from error
        except SourceError as error:
            error.requests, error.bytes_read = client.requests, client.bytes_read
            if error.code == "bad-url":
                error.hint += about_http
            raise

    def manifest(self, client: RegistryClient) -> tuple[Manifest, ImageConfig, str]:
        """The manifest of one platform, its config, and the digest of the reference."""
        data, digest = client.manifest(self._reference.wanted)
        manifest = read_manifest(data, self.label)
        if manifest.manifests is not None and manifest.config is None:
            data, _ = client.manifest(pick(manifest, self.label).digest)
            manifest = read_manifest(data, self.label)
        if manifest.config is None:
            raise SourceError(
                f"{self.label} is an index of indexes, which names no image.",
                code="not-an-image",
                hint="Give the reference of a catalog's image.",
            )
        return manifest, read_config(client.config(manifest.config), self.label), digest

    def apply(
        self, client: RegistryClient, layers: Sequence[Descriptor], unpacker: Unpacker
    ) -> None:
        """Pulls and applies the layers, and reports the progress."""
        done, total = 0, sum(layer.size for layer in layers)
        for number, layer in enumerate(layers, 1):
            chunks = client.blob(layer, f"layer {number}")
            unpacker.apply(_with_progress(chunks, done, total), number)
            done += layer.size


def _with_progress(chunks: Iterator[bytes], done: int, total: int) -> Iterator[bytes]:
    """The chunks, with their progress reported; `done` bytes came before."""
    for chunk in chunks:
        done += len(chunk)
        yield chunk
        report_progress(done, total)


class ImageSource(RemoteImage):
    """A catalog in an image."""

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """See ContentSource. `Fetched.digest` equals the result of `resolve`. `if_modified_since`
        is ignored: images have no "not modified"."""
        return self._from_any(self._fetch)

    def _fetch(self, client: RegistryClient) -> Fetched:
        with temporary_file() as store:
            manifest, config, digest = self.manifest(client)
            folder = config.labels.get(CONFIGS_LABEL)
            if not folder:
                raise SourceError(
                    f"{self.label} is no catalog: its image is missing the required label "
                    f"{CONFIGS_LABEL}.",
                    code="no-configs-label",
                    hint="opm generate dockerfile writes it. catalogd refuses such an image, too; "
                    "a bundle image, or an index image with a database, has no such label.",
                )
            layers = layers_of(manifest, self.label)
            total = sum(layer.size for layer in layers)
            if total > self._limits.layers:
                raise SourceError(
                    f"{self.label} has layers of {total:,} bytes, more than the "
                    f"{self._limits.layers:,} that are read.",
                    code="too-large",
                    hint="Build the catalog's image on a small base.",
                )
            unpacker = Unpacker(self.label, [folder], self._limits, store)
            self.apply(client, layers, unpacker)
            with Spool(self.label, limits=self._limits) as into:
                unpacker.folder().pour(store, into)
                if not into.size:
                    raise SourceError(
                        f"{self.label} has no file in {folder}, the folder that its label names.",
                        code="empty",
                        hint="Check how the image is built; a catalog has at least one package.",
                    )
                fetched = into.fetched()
            return replace(
                fetched,
                access_method="image",
                digest=digest,
                requests=client.requests,
                bytes_read=client.bytes_read,
            )


@dataclass(frozen=True, slots=True)
class BundleFiles:
    """The files of an image by path below their folder, each folder in order of names.

    `digest` is that of the reference. `folders` are those inside of manifests/, which no installer
    reads. `passed_over` counts the layers that were not pulled.
    """

    digest: str
    manifests: tuple[tuple[str, bytes], ...]
    metadata: tuple[tuple[str, bytes], ...]
    folders: tuple[str, ...] = ()
    passed_over: int = 0
    requests: int = 0
    bytes_read: int = 0


class BundleSource(RemoteImage):
    """A bundle's image by its reference. Raises SourceError for an invalid reference."""

    default_limits = BUNDLE_LIMITS

    def fetch(self) -> BundleFiles:
        """Pulls the layers and reads the two folders. Raises SourceError."""
        return self._from_any(self._fetch)

    def _fetch(self, client: RegistryClient) -> BundleFiles:
        with temporary_file() as store:
            manifest, config, digest = self.manifest(client)
            names = [
                config.labels.get(MANIFESTS_LABEL) or "manifests",
                config.labels.get(METADATA_LABEL) or "metadata",
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
            self.apply(client, wanted, unpacker)
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
        """The texts in the folder itself; follows links inside it. Raises SourceError."""
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
    layers: Sequence[Descriptor], history: Sequence[BuildStep] | None, folders: Sequence[str]
) -> list[Descriptor]:
    """The layers that may touch one of the folders; all if the history does not match them."""
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
    """Whether the step copied into a folder outside of these folders and their parents."""
    match = _COPIED.fullmatch(created_by[:10_000])
    target = match[1].split()[-1].strip('"[],') if match and match[1].split() else ""
    if not target.startswith("/") or ".." in target or "$" in target:
        return False
    parts = _parts(target)
    return not any(parts[: len(folder)] == folder[: len(parts)] for folder in folders)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
