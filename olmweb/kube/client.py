"""The requests that OLM Web makes to a Kubernetes API server, on plain dicts.

Every method sends its requests within the timeouts and rate limit of its Transport and raises
olmweb.kube.errors.KubeError. Watches are in olmweb.kube.watch.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
from kubernetes.client import ApiClient

from olmweb.kube.decode import narrow_list
from olmweb.kube.errors import Gone, KubeError, NotFound, Unauthorized, Unreachable
from olmweb.kube.resources import ALL, Resource, Served, group_path
from olmweb.kube.transport import Call, Impersonation, RawResponse, Transport

__all__ = ["Allowed", "Discovery", "Impersonation", "KubeClient", "ListPage"]

_JSON = (("Accept", "application/json"),)
_METADATA = (("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),)

Item = TypeVar("Item")
Meta = TypeVar("Meta")


@dataclass(frozen=True, slots=True)
class ListPage(Generic[Item]):
    """One page of a list; another one follows when it has a `continue_token`.

    `restart`: discard the items of earlier pages, the list began again. `size`: bytes of the
    answer.
    """

    items: list[Item]
    resource_version: str
    continue_token: str = ""
    restart: bool = False
    size: int = 0


@dataclass(frozen=True, slots=True)
class Allowed:
    allowed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """Which kinds of `resources.ALL` a cluster serves; a kind in neither mapping is not served."""

    served: dict[str, Served]
    failed: dict[str, KubeError]


class _MetadataItem(msgspec.Struct, Generic[Meta]):
    metadata: Meta


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)
    remaining_item_count: int | None = None


class _MetadataList(msgspec.Struct, Generic[Meta]):
    metadata: _ListMeta
    items: list[_MetadataItem[Meta]] | None = None


class _Empty(msgspec.Struct):
    """Retains no field."""


_COUNT = msgspec.json.Decoder(_MetadataList[_Empty])


class KubeClient:
    """A connection to one cluster; close it, or use it in a `with` statement.

    Threads may share it, and with it the cluster's rate limit. `renew` reads the credentials again;
    while `abandon` is true requests raise Abandoned and are not sent. `on_counts` is called with
    the requests counted since its last call, by `publish_request_counts` and by `close`.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        name: str = "",
        timeout: tuple[float, float] = (5, 30),
        renew: Callable[[], ApiClient] | None = None,
        abandon: Callable[[], bool] = lambda: False,
        on_counts: Callable[[Counter[tuple[str, str]]], None] | None = None,
    ) -> None:
        self._on_counts = on_counts
        self._published: Counter[tuple[str, str]] = Counter()
        self._transport = Transport(api, name=name, timeout=timeout, renew=renew, abandon=abandon)

    @property
    def name(self) -> str:
        """The cluster's name in errors."""
        return self._transport.name

    @property
    def requests(self) -> int:
        """HTTP requests sent so far, retries included."""
        return self._transport.requests

    def counts(self) -> Counter[tuple[str, str]]:
        """Requests by (verb, status): ("GET", "200"), ("WATCH", "410"), ("GET", "none")..."""
        return self._transport.counts()

    @property
    def server(self) -> str:
        return self._transport.server

    @property
    def transport(self) -> Transport:
        """For requests that have no method here."""
        return self._transport

    def __enter__(self) -> "KubeClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()
        self.publish_request_counts()

    def publish_request_counts(self) -> None:
        """Gives `on_counts` the requests since the last call. Not thread-safe."""
        counts = self.counts()
        new, self._published = counts - self._published, counts
        if self._on_counts is not None and new:
            self._on_counts(new)

    def version(self) -> str:
        """The server's version, such as `v1.25.4`."""
        return str(self._send(Call("GET", "/version", headers=_JSON)).get("gitVersion", ""))

    def discover(self) -> Discovery:
        """Discovers which kinds of `resources.ALL` are served, one request per group and version.

        A group that answers 404 is absent. One that fails otherwise makes its own kinds `failed`.
        Raises Unreachable and Unauthorized.
        """
        plurals: dict[tuple[str, str], set[str]] = {}
        errors: dict[tuple[str, str], KubeError] = {}
        for group, version in dict.fromkeys((r.group, v) for r in ALL for v in r.versions):
            try:
                plurals[group, version] = self._plurals(group, version)
            except NotFound:
                plurals[group, version] = set()
            except (Unreachable, Unauthorized):
                raise
            except KubeError as error:
                errors[group, version] = error
        served: dict[str, Served] = {}
        failed: dict[str, KubeError] = {}
        for resource in ALL:
            keys = [(resource.group, version) for version in resource.versions]
            serving = [key for key in keys if resource.plural in plurals.get(key, ())]
            broken = [errors[key] for key in keys if key in errors]
            if serving:
                served[resource.kind] = Served(resource, serving[0][1])
            elif broken:
                failed[resource.kind] = broken[0]
        return Discovery(served, failed)

    def _plurals(self, group: str, version: str) -> set[str]:
        call = Call("GET", group_path(group, version), headers=_JSON)
        resources = self._send(call).get("resources")
        if not isinstance(resources, list):
            raise self._transport.broken_answer(call, "something that is not a list of resources")
        return {str(entry.get("name")) for entry in resources if isinstance(entry, dict)}

    def list_pages(
        self,
        resource: Resource,
        version: str,
        *,
        limit: int = 500,
        label_selector: str = "",
        field_selector: str = "",
        namespace: str = "",
        narrow: str = "",
        as_user: Impersonation | None = None,
    ) -> Iterator[ListPage[dict[str, Any]]]:
        """The whole list, `limit` objects a page, of one namespace when `namespace` is given.

        With a kind in `narrow` objects have only the fields of olmweb.kube.decode.SHAPES.

        A continue token that expired meanwhile (410) starts the list again once, with `restart`
        set on the next page; a second one raises Gone.
        """
        query = [("limit", str(limit))]
        query += [("labelSelector", label_selector)] if label_selector else []
        query += [("fieldSelector", field_selector)] if field_selector else []
        path = resource.path(version, namespace)
        call = Call("GET", path, tuple(query), headers=_JSON, as_user=as_user)
        return self._pages(call, partial(self._object_page, narrow=narrow))

    def list_metadata(
        self,
        resource: Resource,
        version: str,
        fields: type[Meta],
        *,
        limit: int = 500,
        label_selector: str = "",
        namespace: str = "",
        as_user: Impersonation | None = None,
    ) -> Iterator[ListPage[Meta]]:
        """As `list_pages`, with only the metadata of the objects, decoded as the Struct `fields`.

        The API server leaves out spec and status (PartialObjectMetadata); labels and annotations
        that `fields` does not name are dropped at decode.
        """
        decoder = msgspec.json.Decoder(_MetadataList[fields])  # type: ignore[valid-type]
        query = [("limit", str(limit))]
        query += [("labelSelector", label_selector)] if label_selector else []
        path = resource.path(version, namespace)
        call = Call("GET", path, tuple(query), headers=_METADATA, as_user=as_user)
        return self._pages(call, partial(self._metadata_page, decoder=decoder))

    def count_objects(
        self, resource: Resource, version: str, *, as_user: Impersonation | None = None
    ) -> int:
        """Counts the objects of a kind in all namespaces, in one request.

        A list without a selector has the number of objects that remain after the first one
        (kubernetes apimachinery pkg/apis/meta/v1, ListMeta.remainingItemCount).
        """
        query = (("limit", "1"),)
        call = Call("GET", resource.path(version), query, headers=_METADATA, as_user=as_user)
        page = self._transport.decode(call, _COUNT.decode, self._transport.send(call), "a list")
        return len(page.items or ()) + (page.metadata.remaining_item_count or 0)

    def _pages(
        self, call: Call, read: Callable[[Call], ListPage[Item]]
    ) -> Iterator[ListPage[Item]]:
        token, restarted, restart = "", False, False
        while True:
            query = (*call.query, ("continue", token)) if token else call.query
            try:
                page = read(replace(call, query=query))
            except Gone:
                if not token or restarted:
                    raise
                token, restarted, restart = "", True, True
                continue
            yield replace(page, restart=restart)
            token, restart = page.continue_token, False
            if not token:
                return

    def _object_page(self, call: Call, narrow: str) -> ListPage[dict[str, Any]]:
        body = self._transport.send(call)
        document = self._document(call, body, narrow)
        items, meta = document.get("items"), document.get("metadata")
        if not isinstance(meta, dict) or not isinstance(items, list | None):
            raise self._transport.broken_answer(call, "something that is not a list")
        objects = [item for item in items or () if isinstance(item, dict)]
        return ListPage(
            objects,
            str(meta.get("resourceVersion", "")),
            str(meta.get("continue") or ""),
            size=len(body),
        )

    def _metadata_page(
        self, call: Call, decoder: msgspec.json.Decoder[_MetadataList[Meta]]
    ) -> ListPage[Meta]:
        body = self._transport.send(call)
        page = self._transport.decode(call, decoder.decode, body, "a list")
        items = [item.metadata for item in page.items or ()]
        return ListPage(items, page.metadata.resource_version, page.metadata.continue_ or "")

    def get(
        self,
        resource: Resource,
        version: str,
        name: str,
        namespace: str = "",
        *,
        as_user: Impersonation | None = None,
    ) -> dict[str, Any]:
        """Reads one object. Raises NotFound."""
        path = resource.path(version, namespace, name)
        return self._send(Call("GET", path, headers=_JSON, as_user=as_user))

    def apply(
        self,
        resource: Resource,
        version: str,
        manifest: dict[str, Any],
        *,
        field_manager: str = "olmweb",
        dry_run: bool = False,
        force: bool = False,
        as_user: Impersonation | None = None,
    ) -> dict[str, Any]:
        """Applies `manifest` server-side, named by its own metadata; returns the object.

        Raises Invalid with `causes` per field, Conflict when another manager owns a field.
        """
        meta = manifest["metadata"]
        query = [("fieldManager", field_manager)]
        query += [("force", "true")] if force else []
        query += [("dryRun", "All")] if dry_run else []
        return self._send(
            Call(
                "PATCH",
                resource.path(version, meta.get("namespace", ""), meta["name"]),
                tuple(query),
                body=msgspec.json.encode(manifest),  # JSON is YAML
                headers=(*_JSON, ("Content-Type", "application/apply-patch+yaml")),
                as_user=as_user,
            )
        )

    def merge(
        self,
        resource: Resource,
        version: str,
        name: str,
        patch: dict[str, Any],
        *,
        namespace: str = "",
        dry_run: bool = False,
        as_user: Impersonation | None = None,
    ) -> dict[str, Any]:
        """Sends a merge patch (RFC 7386) for one object; returns the object.

        Unlike `apply`, it also removes fields of other managers: those that are null in `patch`.
        Raises NotFound, Invalid with `causes` per field, and Conflict if `metadata.uid` of the
        patch is not the object's.
        """
        return self._send(
            Call(
                "PATCH",
                resource.path(version, namespace, name),
                (("fieldManager", "olmweb"), *((("dryRun", "All"),) if dry_run else ())),
                body=msgspec.json.encode(patch),
                headers=(*_JSON, ("Content-Type", "application/merge-patch+json")),
                as_user=as_user,
            )
        )

    def delete(
        self,
        resource: Resource,
        version: str,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        dry_run: bool = False,
        as_user: Impersonation | None = None,
    ) -> dict[str, Any]:
        """Deletes one object; returns the server's answer.

        Raises NotFound, and with `uid` Conflict when another object has the name now.
        """
        # With options in the body the server ignores those in the query
        # (kubernetes apiserver pkg/endpoints/handlers/delete.go).
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            **({"dryRun": ["All"]} if dry_run else {}),
            **({"preconditions": {"uid": uid}} if uid else {}),
        }
        return self._send(
            Call(
                "DELETE",
                resource.path(version, namespace, name),
                (("dryRun", "All"),) if dry_run else (),
                body=msgspec.json.encode(options),
                headers=(*_JSON, ("Content-Type", "application/json")),
                as_user=as_user,
            )
        )

    def may(
        self,
        verb: str,
        resource: Resource,
        namespace: str = "",
        name: str = "",
        *,
        as_user: Impersonation | None = None,
    ) -> Allowed:
        """Whether OLM Web, or `as_user`, may `verb` (SelfSubjectAccessReview)."""
        attributes = {"verb": verb, "group": resource.group, "resource": resource.plural}
        attributes |= {"namespace": namespace} if namespace else {}
        attributes |= {"name": name} if name else {}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        call = Call(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            body=msgspec.json.encode(review),
            headers=(*_JSON, ("Content-Type", "application/json")),
            as_user=as_user,
        )
        status = self._send(call).get("status")
        if not isinstance(status, dict):
            raise self._transport.broken_answer(call, "a review that has no status")
        return Allowed(
            status.get("allowed") is True,
            str(status.get("reason") or status.get("evaluationError") or ""),
        )

    @contextmanager
    def stream(
        self,
        path: str,
        headers: dict[str, str] | None = None,
        *,
        query: tuple[tuple[str, str], ...] = (),
    ) -> Iterator[RawResponse]:
        """A raw GET, such as of the service proxy: any status, body undecoded (see RawResponse).

        Sends only the caller's headers and the credentials. Raises Unreachable.
        """
        call = Call("GET", path, query, headers=tuple((headers or {}).items()))
        response = self._transport.open_raw(call)
        try:
            yield response
        finally:
            # Closed, not returned to the pool: the caller may stop in the middle of the body.
            response.close()

    def _send(self, call: Call) -> dict[str, Any]:
        return self._document(call, self._transport.send(call))

    def _document(self, call: Call, body: bytes, narrow: str = "") -> dict[str, Any]:
        decode = partial(narrow_list, kind=narrow) if narrow else msgspec.json.decode
        document = self._transport.decode(call, decode, body, "JSON")
        if not isinstance(document, dict):
            raise self._transport.broken_answer(call, "JSON that is not an object")
        return document
