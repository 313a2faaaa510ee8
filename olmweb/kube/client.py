"""The verbs that OLM Web needs of a Kubernetes API server, on plain dicts.

Every method makes requests within the timeouts and rate limit of its Transport and raises
olmweb.kube.errors.KubeError. Knows nothing of databases or of what the objects mean.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from kubernetes.client import ApiClient

from olmweb.kube.errors import Gone, KubeError, NotFound, Unauthorized, Unreachable
from olmweb.kube.limits import TokenBucket
from olmweb.kube.nesting import decoded
from olmweb.kube.resources import ALL, Resource, Served, group_path
from olmweb.kube.shapes import narrow_list
from olmweb.kube.transport import Call, Impersonation, RawResponse, Transport

__all__ = ["Allowed", "Discovery", "Impersonation", "KubeClient", "Page"]

_JSON = (("Accept", "application/json"),)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. `restart`: forget what earlier pages gave, the list began again."""

    items: list[dict[str, Any]]
    resource_version: str
    restart: bool = False


@dataclass(frozen=True, slots=True)
class Allowed:
    allowed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a cluster serves of our kinds. A kind in neither mapping is not served at all."""

    served: dict[str, Served]
    failed: dict[str, KubeError]


class KubeClient:
    """A connection to one cluster; close it, or use it in a `with` statement.

    Threads may share it, and with it the cluster's rate limit. `renew` reads the credentials again;
    while `abandon` is true nothing is sent, but Abandoned raised; `on_counts` is told what `counts`
    has more than before by `tell_counts`, and when it is closed.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        name: str = "",
        timeout: tuple[float, float] = (5, 30),
        limiter: TokenBucket | None = None,
        renew: Callable[[], ApiClient] | None = None,
        abandon: Callable[[], bool] = lambda: False,
        on_counts: Callable[[Counter[tuple[str, str]]], None] | None = None,
    ) -> None:
        self._on_counts = on_counts
        self._told: Counter[tuple[str, str]] = Counter()
        self._transport = Transport(
            api, name=name, timeout=timeout, limiter=limiter, renew=renew, abandon=abandon
        )

    @property
    def name(self) -> str:
        """What errors call the cluster."""
        return self._transport.name

    @property
    def requests(self) -> int:
        """HTTP requests sent so far, retries included."""
        return self._transport.requests

    def counts(self) -> Counter[tuple[str, str]]:
        """The same by (verb, status): ("GET", "200"), ("WATCH", "410"), ("GET", "none")..."""
        return self._transport.counts()

    @property
    def server(self) -> str:
        return self._transport.server

    @property
    def transport(self) -> Transport:
        """For a module of this package that asks for something else than whole objects."""
        return self._transport

    def __enter__(self) -> "KubeClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()
        self.tell_counts()

    def tell_counts(self) -> None:
        """For a client that stays open: tells what it has sent since the last time. One thread."""
        counts = self.counts()
        new, self._told = counts - self._told, counts
        if self._on_counts is not None and new:
            self._on_counts(new)

    def version(self) -> str:
        """The server's version, such as `v1.25.4`."""
        return str(self._ask(Call("GET", "/version", headers=_JSON)).get("gitVersion", ""))

    def served(self) -> dict[str, Served]:
        """Kind -> what to ask for, of ALL kinds that this cluster serves."""
        return self.discover().served

    def discover(self) -> Discovery:
        """Which of ALL kinds are served. One request per group and version.

        A group that answers 404 is absent, which is normal. One that fails otherwise only makes
        its own kinds `failed`; only a cluster that can't be reached or refuses our credentials
        raises.
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
            found = [key for key in keys if resource.plural in plurals.get(key, ())]
            broken = [errors[key] for key in keys if key in errors]
            if found:
                served[resource.kind] = Served(resource, found[0][1])
            elif broken:
                failed[resource.kind] = broken[0]
        return Discovery(served, failed)

    def _plurals(self, group: str, version: str) -> set[str]:
        call = Call("GET", group_path(group, version), headers=_JSON)
        resources = self._ask(call).get("resources")
        if not isinstance(resources, list):
            raise self._transport.broken_answer(call, "something that is not a list of resources")
        return {str(one.get("name")) for one in resources if isinstance(one, dict)}

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
    ) -> Iterator[Page]:
        """The whole list, `limit` objects a page; only of one namespace when it is given.

        With a kind in `narrow` objects have only the fields of olmweb.kube.shapes.

        A continue token that expired meanwhile (410) starts the list again once, with
        `Page.restart` set; a second one raises Gone.
        """
        base = [("limit", str(limit))]
        base += [("labelSelector", label_selector)] if label_selector else []
        base += [("fieldSelector", field_selector)] if field_selector else []
        token = ""
        restarts = 0
        fresh = False
        while True:
            query = (*base, ("continue", token)) if token else tuple(base)
            call = Call("GET", resource.path(version, namespace), query, headers=_JSON)
            try:
                document = self._ask(call, narrow)
            except Gone:
                if not token or restarts:
                    raise
                token, restarts, fresh = "", 1, True
                continue
            items, meta = document.get("items"), document.get("metadata")
            if not isinstance(meta, dict) or not isinstance(items, list | None):
                raise self._transport.broken_answer(call, "something that is not a list")
            objects = [item for item in items or () if isinstance(item, dict)]
            yield Page(objects, str(meta.get("resourceVersion", "")), restart=fresh)
            fresh = False
            token = str(meta.get("continue") or "")
            if not token:
                return

    def get(
        self,
        resource: Resource,
        version: str,
        name: str,
        namespace: str = "",
        *,
        as_user: Impersonation | None = None,
    ) -> dict[str, Any]:
        """One object. Raises NotFound."""
        path = resource.path(version, namespace, name)
        return self._ask(Call("GET", path, headers=_JSON, as_user=as_user))

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
        """Server-side apply of `manifest`, named by its own metadata; returns the object.

        Raises Invalid with `causes` per field, Conflict when another manager owns a field.
        """
        meta = manifest["metadata"]
        query = [("fieldManager", field_manager)]
        query += [("force", "true")] if force else []
        query += [("dryRun", "All")] if dry_run else []
        return self._ask(
            Call(
                "PATCH",
                resource.path(version, meta.get("namespace", ""), meta["name"]),
                tuple(query),
                body=msgspec.json.encode(manifest),  # JSON is YAML
                headers=(*_JSON, ("Content-Type", "application/apply-patch+yaml")),
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
        """Deletes one object; returns what the server says.

        Raises NotFound, and with `uid` Conflict when another object has the name now.
        """
        # A server that gets options in the body doesn't look at those in the query at all
        # (kubernetes apiserver pkg/endpoints/handlers/delete.go).
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            **({"dryRun": ["All"]} if dry_run else {}),
            **({"preconditions": {"uid": uid}} if uid else {}),
        }
        return self._ask(
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
        """Asks the cluster (SelfSubjectAccessReview) whether we, or `as_user`, may `verb`."""
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
        status = self._ask(call).get("status")
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
        as_user: Impersonation | None = None,
    ) -> Iterator[RawResponse]:
        """A raw GET, such as of the service proxy: any status, body as it came (see RawResponse).

        Sends the caller's headers and no others but our identity. Raises Unreachable.
        """
        call = Call("GET", path, query, headers=tuple((headers or {}).items()), as_user=as_user)
        response = self._transport.open_raw(call)
        try:
            yield response
        finally:
            # Closed, not returned to the pool: the caller may stop in the middle of the body.
            response.close()

    def _ask(self, call: Call, narrow: str = "") -> dict[str, Any]:
        body = self._transport.send(call)
        try:
            decode = partial(narrow_list, kind=narrow) if narrow else msgspec.json.decode
            document = decoded(decode, body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._transport.broken_answer(call, "something that is not JSON") from None
        if not isinstance(document, dict):
            raise self._transport.broken_answer(call, "JSON that is not an object")
        return document
