"""The gRPC calls of `api.Registry`: messages, connection, limits, errors.

The messages have the field numbers of operator-registry, pkg/api/registry.proto, in a separate
descriptor pool. A stream is valid only if its final status is OK.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import grpc
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from catalogs.sources.base import Deadline, Limits, SourceError, report_progress
from catalogs.sources.connection import ConnectFailure, probe_plaintext
from catalogs.sources.spool import too_large

SERVICE = "api.Registry"

# Message -> its fields in the order of their numbers, from 1 on. A field is text unless it names
# a message after a colon; one with a star is repeated.
_MESSAGES: dict[str, tuple[str, ...]] = {
    "Deprecation": ("message",),
    "Channel": ("name", "csvName", "deprecation:Deprecation"),
    "PackageName": ("name",),
    "Package": ("name", "channels*:Channel", "defaultChannelName", "deprecation:Deprecation"),
    "GroupVersionKind": ("group", "version", "kind", "plural"),
    "Dependency": ("type", "value"),
    "Property": ("type", "value"),
    "Bundle": (
        *("csvName", "packageName", "channelName", "csvJson", "object*", "bundlePath"),
        *("providedApis*:GroupVersionKind", "requiredApis*:GroupVersionKind"),
        *("version", "skipRange", "dependencies*:Dependency", "properties*:Property"),
        *("replaces", "skips*", "deprecation:Deprecation"),
    ),
    "ListPackageRequest": (),
    "ListBundlesRequest": (),
    "GetPackageRequest": ("name",),
    "GetBundleRequest": ("pkgName", "channelName", "csvName"),
}


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="olmweb/registry.proto", package="api", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields, start=1):
            named, _, kind = field.partition(":")
            added = message.field.add(name=named.rstrip("*"), number=number)
            repeated = named.endswith("*")
            added.label = (
                FieldDescriptorProto.LABEL_REPEATED
                if repeated
                else FieldDescriptorProto.LABEL_OPTIONAL
            )
            added.type = (
                FieldDescriptorProto.TYPE_MESSAGE if kind else FieldDescriptorProto.TYPE_STRING
            )
            if kind:
                added.type_name = f".api.{kind}"
    return file


_pool = DescriptorPool()
_pool.Add(_file())


def _class(name: str) -> Any:
    return GetMessageClass(_pool.FindMessageTypeByName(f"api.{name}"))


Bundle = _class("Bundle")
Package = _class("Package")
PackageName = _class("PackageName")
ListPackageRequest = _class("ListPackageRequest")
ListBundlesRequest = _class("ListBundlesRequest")
GetPackageRequest = _class("GetPackageRequest")
GetBundleRequest = _class("GetBundleRequest")

_AT_ADDRESS = re.compile(r"ipv[46]:\[?(?P<host>[0-9a-fA-F:.]+)\]?:(?P<port>\d{1,5})")


def _probe(target: str) -> ConnectFailure | None:
    """Why a gRPC target does not answer; None for one without an address, as a forwarded port."""
    match = _AT_ADDRESS.fullmatch(target)
    return probe_plaintext(match["host"], int(match["port"])) if match else None


WINDOW = 8  # unary calls that are under way at once


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds for the connection, for a whole stream, for one answer."""

    connect: float = 10
    stream: float = 300
    answer: float = 60


TIMEOUTS = Timeouts()


class Calls:
    """A connection to one registry. `requests` and `bytes_read` are the cost so far."""

    def __init__(self, target: str, label: str, limits: Limits, timeouts: Timeouts) -> None:
        self._target = target
        self._label = label
        self._limits = limits
        self._timeouts = timeouts
        self._channel = grpc.insecure_channel(
            target,
            options=(
                ("grpc.max_receive_message_length", limits.blob),
                ("grpc.enable_http_proxy", 0),  # a cluster's address means nothing to a proxy
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.enable_retries", 0),  # an attempt that failed is the caller's to repeat
            ),
        )
        self._deadline = Deadline(label, limits.seconds)
        self.requests = 0
        self.bytes_read = 0

    def connect(self) -> None:
        """Waits until the server is connected. Raises SourceError."""
        try:
            grpc.channel_ready_future(self._channel).result(timeout=self._timeouts.connect)
        except grpc.FutureTimeoutError:
            if failure := _probe(self._target):
                error = self.error(
                    f"{self._label} can't be reached over gRPC. {failure.sentence}.",
                    "unreachable",
                    failure.hint,
                )
                error.reason = failure.reason
                raise error from None
            raise self.error(
                f"{self._label} can't be reached over gRPC: no answer within "
                f"{self._timeouts.connect:g} s.",
                "unreachable",
                "Check that its registry pod runs; the CatalogSource's connection state says what "
                "OLM sees.",
            ) from None

    def close(self) -> None:
        self._channel.close()

    def packages(self) -> list[str]:
        """Names of all packages."""
        call = self._stream("ListPackages", ListPackageRequest(), PackageName)
        return [message.name for message in call]

    def bundles(self) -> Iterator[Any]:
        """Every bundle of every channel. Raises SourceError at the end of a stream that broke."""
        return self._stream("ListBundles", ListBundlesRequest(), Bundle)

    def package(self, name: str) -> Any:
        return next(self._answers("GetPackage", Package, [GetPackageRequest(name=name)]))

    def full_bundles(self, wanted: Iterable[tuple[str, str, str]]) -> Iterator[Any]:
        """The bundles of these (package, channel, bundle) with their manifests, in that order."""
        requests = (
            GetBundleRequest(pkgName=package, channelName=channel, csvName=name)
            for package, channel, name in wanted
        )
        return self._answers("GetBundle", Bundle, requests)

    def _stream(self, method: str, request: Any, answer: Any) -> Iterator[Any]:
        self.requests += 1
        stream = self._channel.unary_stream(
            f"/{SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        call = stream(request, timeout=self._timeouts.stream)
        try:
            for message in call:
                self._count(message)
                yield message
        except grpc.RpcError as error:
            raise self._failed(method, error) from None
        finally:
            call.cancel()  # no effect after its end

    def _answers(self, method: str, answer: Any, requests: Iterable[Any]) -> Iterator[Any]:
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        waiting = iter(requests)
        under_way: list[Any] = []
        try:
            while True:
                for request in islice(waiting, WINDOW - len(under_way)):
                    self.requests += 1
                    under_way.append(call.future(request, timeout=self._timeouts.answer))
                if not under_way:
                    return
                message = under_way.pop(0).result()
                self._count(message)
                yield message
        except grpc.RpcError as error:
            raise self._failed(method, error) from None
        finally:
            for pending in under_way:
                pending.cancel()

    def _count(self, message: Any) -> None:
        self.bytes_read += message.ByteSize()
        if self.bytes_read > self._limits.body:
            error = too_large(self._label, self._limits)
            raise self.error(error.message, error.code, error.hint)
        try:
            self._deadline.check(self.bytes_read)
        except SourceError as slow:
            slow.requests = self.requests
            raise
        report_progress(self.bytes_read)

    def error(self, message: str, code: str, hint: str) -> SourceError:
        return SourceError(
            message, code=code, hint=hint, requests=self.requests, bytes_read=self.bytes_read
        )

    def _failed(self, method: str, error: Any) -> SourceError:
        status = error.code()
        details = " ".join(str(error.details() or "").replace("\x00", "").split())[:300]
        codes = grpc.StatusCode
        if status == codes.DEADLINE_EXCEEDED:
            return self.error(
                f"{self._label} did not finish its answer to {method} in time.",
                "timeout",
                "Check the load of its registry pod; what was read before stays.",
            )
        if status == codes.RESOURCE_EXHAUSTED:
            return self.error(
                f"{self._label} sent a message that is too large in answer to {method}: {details}.",
                "too-large",
                f"One bundle may have {self._limits.blob // 1024**2} MiB.",
            )
        if status == codes.UNIMPLEMENTED:
            return self.error(
                f"{self._label} is no operator registry: it does not know {method}.",
                "not-a-registry",
                "Check that the CatalogSource's image or address is that of a catalog.",
            )
        if status == codes.UNAVAILABLE:
            return self.error(
                f"{self._label} can't be reached over gRPC, or broke off its answer to {method}: "
                f"{details or 'no more is known'}.",
                "unreachable",
                "Check that its registry pod runs; what was read before stays.",
            )
        return self.error(
            f"{self._label} ended its answer to {method} with {status.name}: "
            f"{details or 'no more is known'}.",
            "grpc-status",
            "The log of its registry pod says more; what was read before stays.",
        )
