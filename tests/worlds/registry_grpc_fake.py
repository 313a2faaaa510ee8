"""A gRPC registry that answers what a test tells it to, and as badly."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from catalogs.sources.registry import calls


def bundle(name: str, channel: str = "stable", package: str = "etcd", **fields: Any) -> Any:
    """One Bundle of ListBundles; `name` ends in `.v<version>`."""
    version = name.partition(".v")[2]
    given = {
        "bundlePath": f"registry.example/{package}:{version}",
        "version": version,
        **fields,
    }
    return calls.Bundle(csvName=name, packageName=package, channelName=channel, **given)


class RegistryFake:
    """Serves `bundles` and `packages`. `fail` names a method and the status that ends its answer
    after `after` messages; a method in `silent` never answers."""

    def __init__(self) -> None:
        self.bundles: list[Any] = []
        self.packages: dict[str, Any] = {}
        self.csvs: dict[str, str] = {}
        self.fail: dict[str, grpc.StatusCode] = {}
        self.after = 0
        self.silent: set[str] = set()
        self.calls: list[str] = []
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(4)
        self._server = grpc.server(self._pool)
        streams = {"ListPackages": self._names, "ListBundles": lambda _: iter(self.bundles)}
        unary = {"GetPackage": self._package, "GetBundle": self._bundle}
        requests = {
            "ListPackages": calls.ListPackageRequest,
            "ListBundles": calls.ListBundlesRequest,
            "GetPackage": calls.GetPackageRequest,
            "GetBundle": calls.GetBundleRequest,
        }
        handlers = {
            name: grpc.unary_stream_rpc_method_handler(
                self._streaming(name, act), requests[name].FromString, _serialized
            )
            for name, act in streams.items()
        } | {
            name: grpc.unary_unary_rpc_method_handler(
                self._answering(name, act), requests[name].FromString, _serialized
            )
            for name, act in unary.items()
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(calls.SERVICE, handlers),)
        )
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self.target = f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._over.set()
        self._server.stop(None).wait()
        self._pool.shutdown()

    def serve_channel(self, *bundles: Any, package: str = "etcd", head: str = "") -> None:
        """One package with one channel that has these bundles; the last one is its head."""
        self.bundles += bundles
        channel = {"name": "stable", "csvName": head or bundles[-1].csvName}
        self.packages[package] = calls.Package(
            name=package, channels=[channel], defaultChannelName="stable"
        )

    def _names(self, _: Any) -> Iterator[Any]:
        return (calls.PackageName(name=name) for name in self.packages)

    def _package(self, request: Any) -> Any:
        return self.packages[request.name]

    def _bundle(self, request: Any) -> Any:
        found = calls.Bundle()
        found.CopyFrom(next(one for one in self.bundles if one.csvName == request.csvName))
        found.csvJson = self.csvs.get(request.csvName, found.csvJson)
        return found

    def _begin(self, name: str) -> None:
        self.calls.append(name)
        if name in self.silent:
            self._over.wait(20)

    def _streaming(self, name: str, act: Any) -> Any:
        def answer(request: Any, context: Any) -> Iterator[Any]:
            self._begin(name)
            for number, one in enumerate(act(request)):
                if name in self.fail and number >= self.after:
                    context.abort(self.fail[name], "as the test asked")
                yield one

        return answer

    def _answering(self, name: str, act: Any) -> Any:
        def answer(request: Any, context: Any) -> Any:
            self._begin(name)
            if name in self.fail:
                context.abort(self.fail[name], "as the test asked")
            return act(request)

        return answer


def _serialized(message: Any) -> bytes:
    return message.SerializeToString()


@contextmanager
def registry_fake() -> Iterator[RegistryFake]:
    fake = RegistryFake()
    fake.start()
    try:
        yield fake
    finally:
        fake.stop()
