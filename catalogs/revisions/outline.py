"""The outline of a package: stored for every revision, enough to compare any two.

Pure: made of the facts that `catalogs.fbc.package` reads, encoded as compact JSON under zstd.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import blake2b, sha256
from typing import NamedTuple

import msgspec
import zstandard

from catalogs.fbc.bundle import ParsedBundle
from catalogs.fbc.package import PackageReader, ParsedChannel
from catalogs.graph import GraphEntry

DIGEST_BYTES = 9  # 12 characters of base64; tells contents of one name apart
_ZSTD_LEVEL = 9  # a package is a few kB: twice the ratio of level 1 at no measurable cost


class BundleOutline(msgspec.Struct, frozen=True, array_like=True):
    """A bundle. `blob` digests its bytes as published; `facts` what they say of installing it, in
    whatever form they say it; `images` the set of its related images. `whole`: it carries its whole
    ClusterServiceVersion (olm.bundle.object), not olm.csv.metadata. `requirements` digests `facts`
    without the display name; empty in outlines that were stored without it."""

    version: str
    image: str
    blob: str
    facts: str
    images: str
    whole: bool
    requirements: str = ""

    def differs_by_name_only(self, other: "BundleOutline") -> bool:
        """Whether the facts of both differ by the display name alone, as far as is known."""
        same = self.requirements == other.requirements != ""
        return same and self.facts != other.facts


class ChannelOutline(msgspec.Struct, frozen=True, array_like=True):
    """A channel. `head` is empty when there is not exactly one; `entries` are sorted names, `edges`
    digests what each of them replaces and skips."""

    head: str
    entries: list[str]
    edges: str


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """A package. What is `deprecated` may be missing among channels and bundles."""

    default_channel: str = ""
    channels: dict[str, ChannelOutline] = msgspec.field(default_factory=dict)
    bundles: dict[str, BundleOutline] = msgspec.field(default_factory=dict)
    deprecated: bool = False
    deprecated_channels: list[str] = msgspec.field(default_factory=list)
    deprecated_bundles: list[str] = msgspec.field(default_factory=list)

    @property
    def head(self) -> str:
        """The default channel's head; empty when there is none."""
        channel = self.channels.get(self.default_channel)
        return channel.head if channel else ""

    def version_of(self, bundle: str) -> str:
        outline = self.bundles.get(bundle)
        return outline.version if outline else ""


class Encoded(NamedTuple):
    """An outline as it is stored; equal outlines have equal hashes, in whatever catalog."""

    content_hash: str
    data: bytes


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Outline).decode


def bundle_outline(facts: ParsedBundle, blob_sha256: str) -> BundleOutline:
    """`blob_sha256` is hexadecimal, or empty when the blob is not known."""
    requirements = (
        *(facts.version, facts.release, sorted(facts.install_modes)),
        *(facts.install_modes_known, facts.min_kube_version, facts.max_openshift_version),
        *(facts.suggested_namespace, facts.released_at, facts.constraint_count),
        sorted((required["name"], required["range"]) for required in facts.required_packages),
        sorted(set(facts.gvks)),
    )
    return BundleOutline(
        version=facts.version,
        image=facts.image,
        blob=b64encode(bytes.fromhex(blob_sha256)[:DIGEST_BYTES]).decode(),
        # In this order, equal facts have the digest that older outlines have.
        facts=_digest((*requirements[:2], facts.display_name, *requirements[2:])),
        images=_digest(sorted({image for _, image in facts.images if image})),
        whole=facts.webhooks is not None,
        requirements=_digest(requirements),
    )


def channel_outline(head: str, entries: Iterable[GraphEntry]) -> ChannelOutline:
    listed = sorted(
        (entry.name, entry.replaces, sorted(entry.skips), entry.skip_range) for entry in entries
    )
    return ChannelOutline(head, [entry[0] for entry in listed], _digest(listed))


def outline_of(
    reader: PackageReader, channels: Iterable[ParsedChannel], bundles: Mapping[str, BundleOutline]
) -> Outline:
    """The outline of a package that was just read; `channels` are what `reader.finish` returned."""
    return Outline(
        default_channel=reader.package.defaultChannel or "",
        channels={
            channel.name: channel_outline(channel.head, channel.entries) for channel in channels
        },
        bundles=dict(bundles),
        deprecated=bool(reader.deprecation),
        deprecated_channels=sorted(reader.channel_deprecations),
        deprecated_bundles=sorted(reader.bundle_deprecations),
    )


def encode(outline: Outline) -> Encoded:
    plain = _encode(outline)
    packed = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(plain)
    return Encoded(sha256(plain).hexdigest(), packed)


def decode(data: bytes | memoryview) -> Outline:
    return _decode(zstandard.ZstdDecompressor().decompress(data))


def _digest(value: object) -> str:
    return b64encode(blake2b(_encode(value), digest_size=DIGEST_BYTES).digest()).decode()
