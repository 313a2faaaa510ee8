"""A catalog in an image: its manifest, its label, the layers that touch the labelled folder."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from catalogs.sources.base import LIMITS, Cut, Fetched, Limits, SourceError, report_progress
from catalogs.sources.oci.auth import credentials_for
from catalogs.sources.oci.client import RegistryClient
from catalogs.sources.oci.layers import Unpacker
from catalogs.sources.oci.manifest import (
    Descriptor,
    Manifest,
    configs_folder,
    layers_of,
    pick,
    read_manifest,
)
from catalogs.sources.oci.reference import parse_reference
from catalogs.sources.spool import Spool


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """Access to registries: `insecure` are "host:port" of those that speak plain http and may be
    on this machine; `credentials` is a Docker config file, which need not exist. With
    `named_by_others` the reference was not typed by a person: a registry that is neither insecure
    nor in the file must have a public address."""

    insecure: frozenset[str] = frozenset()
    credentials: Path | None = None
    named_by_others: bool = False


class Image:
    """An image by its reference. Raises SourceError for an invalid reference."""

    def __init__(
        self, reference: str, *, access: RegistryAccess | None = None, limits: Limits = LIMITS
    ) -> None:
        self._reference = parse_reference(reference)
        self.label = str(self._reference)
        self._access = access or RegistryAccess()
        self._limits = limits

    def resolve(self) -> str:
        """The digest of the image that the reference names now, by one HEAD; "" when the registry
        doesn't say. Raises SourceError."""
        if self._reference.digest:
            return self._reference.digest
        with self.client() as client:
            return client.resolve()

    @contextmanager
    def client(self) -> Iterator[RegistryClient]:
        """A client of its registry. Errors raised in the block get the cost of the attempt."""
        access = self._access
        credentials = credentials_for(self._reference, access.credentials)
        client = RegistryClient(
            self._reference,
            credentials,
            access.insecure,
            public_only=access.named_by_others and not credentials.complete,
        )
        try:
            yield client
        except Cut as error:
            raise SourceError(
                f"{self.label} can't be read: {error}",
                code=error.code,
                hint=error.hint + self._about_http(),
                requests=client.requests,
                bytes_read=client.bytes_read,
            ) from error
        except SourceError as error:
            error.requests, error.bytes_read = client.requests, client.bytes_read
            if error.code == "bad-url":
                error.hint += self._about_http()
            raise

    def _about_http(self) -> str:
        if self._reference.host in self._access.insecure:
            return ""
        return (
            " A registry on this machine, or of plain http, has to be in "
            "OLMWEB_INSECURE_REGISTRIES."
        )

    def manifest(self, client: RegistryClient) -> tuple[Manifest, str]:
        """The manifest of one platform, and the digest that the reference stands for."""
        data, digest = client.manifest(self._reference.wanted)
        manifest = read_manifest(data, self.label)
        if manifest.manifests is not None and manifest.config is None:
            data, _ = client.manifest(pick(manifest, self.label).digest)
            manifest = read_manifest(data, self.label)
        return manifest, digest


class ImageSource(Image):
    """A catalog in an image."""

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """See Source. `Fetched.digest` is what `resolve` gives for the same image; no image is
        "not modified", so `if_modified_since` means nothing here."""
        with self.client() as client, tempfile.TemporaryFile(prefix="olmweb-") as store:
            manifest, digest = self.manifest(client)
            folder = configs_folder(client.config(config_of(manifest, self.label)), self.label)
            unpacker = Unpacker(self.label, [folder], self._limits, store)
            self._layers(client, manifest, unpacker)
            with Spool(self.label, limits=self._limits) as into:
                unpacker.folder().pour(store, into)
                fetched = self._filled(into, folder)
            return replace(
                fetched,
                access_method="image",
                digest=digest,
                requests=client.requests,
                bytes_read=client.bytes_read,
            )

    def _layers(self, client: RegistryClient, manifest: Manifest, unpacker: Unpacker) -> None:
        layers = layers_of(manifest, self.label)
        total = sum(layer.size for layer in layers)
        if total > self._limits.layers:
            raise SourceError(
                f"{self.label} has layers of {total:,} bytes, more than the "
                f"{self._limits.layers:,} that are read.",
                code="too-large",
                hint="Build the catalog's image on a small base.",
            )
        done = 0
        for number, layer in enumerate(layers, 1):
            unpacker.apply(
                with_progress(client.blob(layer, f"layer {number}"), done, total), number
            )
            done += layer.size

    def _filled(self, into: Spool, folder: str) -> Fetched:
        if not into.size:
            raise SourceError(
                f"{self.label} has no file in {folder}, the folder that its label names.",
                code="empty",
                hint="Check how the image is built; a catalog has at least one package.",
            )
        return into.fetched()


def config_of(manifest: Manifest, label: str) -> Descriptor:
    """Where its config is. Raises SourceError."""
    if manifest.config is None:
        raise SourceError(
            f"{label} is an index of indexes, which names no image.",
            code="not-an-image",
            hint="Give the reference of a catalog's image.",
        )
    return manifest.config


def with_progress(chunks: Iterator[bytes], done: int, total: int) -> Iterator[bytes]:
    """The chunks, with their progress reported; `done` bytes came before."""
    for chunk in chunks:
        done += len(chunk)
        yield chunk
        report_progress(done, total)
