"""Reads catalogs from an operator registry over gRPC, as FBC in a spool.

ListBundles returns the upgrade graph and the properties of all bundles; GetBundle the display data
of each channel's head. The order of the answers is undefined, so the blobs are sorted: the same
content gives the same bytes.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, BinaryIO

from catalogs.semver import sort_key
from catalogs.sources.base import LIMITS, Fetched, Limits
from catalogs.sources.registry import blobs
from catalogs.sources.registry.calls import TIMEOUTS, Bundle, Calls, Timeouts
from catalogs.sources.spool import room, spool, temporary_file


@dataclass(slots=True)
class _Package:
    """One package from ListBundles; `bundles` is (offset, length) of each message in scratch."""

    bundles: dict[str, tuple[int, int]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    channels: dict[str, dict[str, blobs.Blob]] = field(default_factory=dict)
    deprecated: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class RegistrySource:
    """`open_target` returns a context with the gRPC target, or raises SourceError. `digest` returns
    the digest of the served content, before the content is read. `if_modified_since` is ignored:
    the protocol has no such condition.
    """

    label: str
    open_target: Callable[[], AbstractContextManager[str]]
    digest: Callable[[], str] = str
    limits: Limits = LIMITS
    timeouts: Timeouts = TIMEOUTS

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """See ContentSource; `exact` is False."""
        digest = self.digest()
        with self.open_target() as target:
            calls = Calls(target, self.label, self.limits, self.timeouts)
            with closing(calls), temporary_file() as scratch:
                calls.connect()
                packages = self._read(calls, scratch, self.label)
                chunks = self._blobs(calls, packages, scratch)
                fetched = spool(chunks, self.label, limits=self.limits)
            return replace(
                fetched,
                digest=digest,
                requests=calls.requests,
                bytes_read=calls.bytes_read,
                exact=False,
            )

    @staticmethod
    def _read(calls: Calls, scratch: BinaryIO, label: str) -> dict[str, _Package]:
        """The graph in memory, the bundles in `scratch`, each once."""
        packages: dict[str, _Package] = {name: _Package() for name in calls.packages()}
        for bundle in calls.bundles():
            package = packages.setdefault(bundle.packageName, _Package())
            name = bundle.csvName
            entries = package.channels.setdefault(bundle.channelName, {})
            entries.setdefault(name, blobs.entry(bundle))
            if name not in package.bundles:
                data = bundle.SerializeToString()
                package.bundles[name] = (scratch.tell(), len(data))
                package.versions[name] = bundle.version
                with room(label):
                    scratch.write(data)
            if bundle.HasField("deprecation"):
                package.deprecated[name] = bundle.deprecation.message
        return packages

    def _blobs(
        self, calls: Calls, packages: dict[str, _Package], scratch: BinaryIO
    ) -> Iterator[bytes]:
        for name in sorted(packages):
            yield from blobs.as_lines(_package_blobs(calls, name, packages[name], scratch))


def _package_blobs(
    calls: Calls, name: str, package: _Package, scratch: BinaryIO
) -> Iterator[blobs.Blob]:
    answer = calls.package(name)
    channels = sorted(answer.channels, key=attrgetter("name"))
    heads = {
        channel.csvName: (name, channel.name, channel.csvName)
        for channel in channels
        if channel.csvName
    }
    full = dict(zip(heads, calls.full_bundles(heads.values()), strict=True))
    by_channel = {channel.name: channel.csvName for channel in answer.channels}
    default = by_channel.get(answer.defaultChannelName, "")
    shown = blobs.parsed_csv(full[default].csvJson) if default in full else None
    yield blobs.package_blob(name, answer.defaultChannelName, shown)

    def age(bundle: str) -> tuple[str, str]:
        return sort_key(package.versions[bundle]), bundle

    for channel in sorted(package.channels):
        entries = package.channels[channel]
        yield blobs.channel_blob(name, channel, [entries[key] for key in sorted(entries, key=age)])
    for bundle in sorted(package.bundles, key=age):
        offset, length = package.bundles[bundle]
        scratch.seek(offset)
        listed = Bundle.FromString(scratch.read(length))
        yield blobs.bundle_blob(listed, full.get(bundle))
    deprecations = list(_deprecations(answer, package))
    if deprecations:
        yield blobs.deprecations_blob(name, deprecations)


def _deprecations(answer: Any, package: _Package) -> Iterator[blobs.Deprecation]:
    if answer.HasField("deprecation"):
        yield blobs.Deprecation("olm.package", "", answer.deprecation.message)
    for channel in sorted(answer.channels, key=attrgetter("name")):
        if channel.HasField("deprecation"):
            yield blobs.Deprecation("olm.channel", channel.name, channel.deprecation.message)
    for bundle in sorted(package.deprecated):
        yield blobs.Deprecation("olm.bundle", bundle, package.deprecated[bundle])
