"""A catalog read from an operator registry over gRPC, as FBC in a spool.

ListBundles gives the whole upgrade graph and every bundle's properties; the heads of the channels
are asked for one by one, for what people are shown of an operator. The order of the answers is the
server's own, so everything is written sorted: the same content gives the same bytes.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from catalogs.semver import sort_key
from catalogs.sources.base import LIMITS, Fetched, Limits
from catalogs.sources.registry import blobs, messages
from catalogs.sources.registry.calls import TIMEOUTS, Calls, Timeouts
from catalogs.sources.spool import spool


@dataclass(slots=True)
class _Seen:
    """What ListBundles told of one package; `bundles` is where each one's message lies."""

    bundles: dict[str, tuple[int, int]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    channels: dict[str, dict[str, blobs.Blob]] = field(default_factory=dict)
    deprecated: dict[str, str] = field(default_factory=dict)


class RegistrySource:
    """`reach` gives the gRPC target for as long as its context lasts. Raises SourceError there.

    `digest` names what the registry serves; it is asked before anything is read.

    `if_modified_since` is not used: the protocol has nothing like it.
    """

    def __init__(
        self,
        label: str,
        reach: Callable[[], AbstractContextManager[str]],
        *,
        digest: Callable[[], str] = str,
        limits: Limits = LIMITS,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        self.label = label
        self._digest = digest
        self._reach = reach
        self._limits = limits
        self._timeouts = timeouts

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """See Source; `exact` is False."""
        digest = self._digest()
        with self._reach() as target:
            calls = Calls(target, self.label, self._limits, self._timeouts)
            with closing(calls), tempfile.TemporaryFile(prefix="olmweb-") as scratch:
                calls.connect()
                seen = self._read(calls, scratch)
                chunks = self._blobs(calls, seen, scratch)
                fetched = spool(chunks, self.label, limits=self._limits)
            return replace(
                fetched,
                digest=digest,
                requests=calls.requests,
                bytes_read=calls.bytes_read,
                exact=False,
            )

    @staticmethod
    def _read(calls: Calls, scratch: BinaryIO) -> dict[str, _Seen]:
        """The graph in memory, the bundles in `scratch`, each once."""
        seen: dict[str, _Seen] = {name: _Seen() for name in calls.packages()}
        for bundle in calls.bundles():
            package = seen.setdefault(bundle.packageName, _Seen())
            name = bundle.csvName
            entries = package.channels.setdefault(bundle.channelName, {})
            entries.setdefault(name, blobs.entry(bundle))
            if name not in package.bundles:
                data = bundle.SerializeToString()
                package.bundles[name] = (scratch.tell(), len(data))
                package.versions[name] = bundle.version
                scratch.write(data)
            if bundle.HasField("deprecation"):
                package.deprecated[name] = bundle.deprecation.message
        return seen

    def _blobs(self, calls: Calls, seen: dict[str, _Seen], scratch: BinaryIO) -> Iterator[bytes]:
        for name in sorted(seen):
            for blob in _package(calls, name, seen[name], scratch):
                text = json.dumps(blob, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
                # A lone surrogate is no text; the reader would refuse the whole body for it.
                yield text.encode("utf-8", "replace") + b"\n"


def _package(calls: Calls, name: str, seen: _Seen, scratch: BinaryIO) -> Iterator[blobs.Blob]:
    told = calls.package(name)
    heads = {
        channel.csvName: (name, channel.name, channel.csvName)
        for channel in sorted(told.channels, key=lambda one: one.name)
        if channel.csvName
    }
    full = dict(zip(heads, calls.full_bundles(heads.values()), strict=True))
    default = {one.name: one.csvName for one in told.channels}.get(told.defaultChannelName, "")
    shown = blobs.parsed_csv(full[default].csvJson) if default in full else None
    yield blobs.package_blob(name, told.defaultChannelName, shown)

    def age(bundle: str) -> tuple[str, str]:
        return sort_key(seen.versions[bundle]), bundle

    for channel in sorted(seen.channels):
        entries = seen.channels[channel]
        yield blobs.channel_blob(name, channel, [entries[key] for key in sorted(entries, key=age)])
    for bundle in sorted(seen.bundles, key=age):
        offset, length = seen.bundles[bundle]
        scratch.seek(offset)
        listed = messages.Bundle.FromString(scratch.read(length))
        yield blobs.bundle_blob(listed, full.get(bundle))
    deprecations = blobs.deprecations_blob(name, _deprecated(told, seen))
    if deprecations:
        yield deprecations


def _deprecated(told: Any, seen: _Seen) -> Iterator[tuple[str, str, str]]:
    if told.HasField("deprecation"):
        yield "olm.package", "", told.deprecation.message
    for channel in sorted(told.channels, key=lambda one: one.name):
        if channel.HasField("deprecation"):
            yield "olm.channel", channel.name, channel.deprecation.message
    for bundle in sorted(seen.deprecated):
        yield "olm.bundle", bundle, seen.deprecated[bundle]
