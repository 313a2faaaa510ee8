"""What is asked of a maker of rows, and what it answers: shapes that go from process to process.

Rows are in the order of the columns that `catalogs.sync.store` writes, without primary keys. JSON
columns are text already.
"""

from typing import Any

import msgspec

from catalogs.revisions.outline import Encoded

Row = list[Any]
Files = list[tuple[int, str]]  # where each file of a spool begins, and what it is called


class Asked(msgspec.Struct, array_like=True):
    """A package to read: `packed` as in `splitter.PackageIndex`; `stored` are the positions of the
    blobs that need no packing."""

    name: str
    packed: bytearray
    stored: list[int]


class BundleRows(msgspec.Struct, array_like=True):
    """A bundle. `deprecation` is None when it isn't deprecated; `values` are of `BUNDLE`."""

    name: str
    ordinal: int
    blob: str
    deprecation: str | None
    values: Row
    gvks: list[tuple[str, str, str, bool]]
    images: list[tuple[str, str]]


class ChannelRows(msgspec.Struct, array_like=True):
    """A channel: `values` are of `CHANNEL`, each of `entries` of `ENTRY`."""

    values: Row
    entries: list[Row]


class PackageRows(msgspec.Struct, array_like=True, tag=True):
    """All of one package but its packs, which were kept before. Blobs without an olm.package have
    refs and problems alone, and `known` is false."""

    name: str
    known: bool = False
    package: Row = []  # of PACKAGE, without the hash that comes first
    text: Row = []  # of TEXT
    search: Row = []  # of SEARCH
    icon: tuple[str, str, bytes] | None = None  # (sha256, media type, bytes)
    channels: list[ChannelRows] = []
    bundles: list[BundleRows] = []
    refs: list[Row] = []  # of REF
    problems: list[Row] = []  # of PROBLEM
    outline: Encoded | None = None


PACKAGE = (
    *("content_hash", "display_name", "summary", "provider", "default_channel", "head_bundle"),
    *("head_version", "icon", "categories", "keywords", "capability", "infrastructure_features"),
    *("install_modes", "deprecated", "deprecation", "channel_count", "bundle_count"),
)
TEXT = ("description_html", "links", "maintainers")
SEARCH = ("words", "provides", "provided_before", "repositories")
CHANNEL = (
    *("name", "head", "head_version", "is_default", "deprecated", "deprecation", "entry_count"),
)
ENTRY = ("ordinal", "name", "replaces", "skips", "skip_range")
BUNDLE = (
    *("name", "version", "release", "version_key", "image", "display_name", "install_modes"),
    *("install_modes_known", "webhooks", "owned_api_services", "min_kube_version"),
    *("max_openshift_version", "suggested_namespace", "released_at", "required_packages"),
    "constraint_count",
)
REF = ("schema", "name", "ordinal", "blob")
PROBLEM = (
    *("subject", "field", "code", "severity", "message", "offset", "file", "line", "excerpt"),
)
