"""The messages of `api.Registry` that are used here, built from the protocol's field numbers.

Numbers and names as in operator-registry, pkg/api/registry.proto. A pool of their own keeps them
apart from any other library's. Knows no connection.
"""

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

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
