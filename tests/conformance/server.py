"""One API server as the conformance tests see it: the sandbox or a real one, over plain HTTP.

Counts what is compared, so that a run can say that both servers were asked the same.
"""

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import urllib3

Object = dict[str, Any]
JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

SUBSCRIPTIONS = "/apis/operators.coreos.com/v1alpha1/namespaces/{}/subscriptions"
PLANS = "/apis/operators.coreos.com/v1alpha1/namespaces/{}/installplans"
EXTENSIONS = "/apis/olm.operatorframework.io/v1/clusterextensions"


def subscription(name: str, package: str = "etcd", **metadata: Any) -> Object:
    """A small custom object with a status subresource."""
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": name, **metadata},
        "spec": {"name": package, "source": "catalog", "sourceNamespace": "olm"},
    }


def extension(name: str, package: str = "etcd", **spec: Any) -> Object:
    """A cluster-scoped object whose CRD has defaults, enums, limits and CEL rules."""
    source = {"sourceType": "Catalog", "catalog": {"packageName": package}}
    return {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension",
        "metadata": {"name": name},
        "spec": {"namespace": "somewhere", "source": source, **spec},
    }


def condition(type_: str, status: str = "True", reason: str = "Done", message: str = "m") -> Object:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, read to its end."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.data)

    @property
    def names(self) -> list[str]:
        """Names of a list's items."""
        return [item["metadata"]["name"] for item in self.body["items"]]


class Backend(Protocol):
    """What differs between the two."""

    @property
    def url(self) -> str: ...

    def write_kubeconfig(self, path: Path, context: str) -> object: ...


@dataclass
class Server:
    """Requests to one API server. `forget` drops its history, as etcd's compaction does.

    After `forget` ask `uncached()`: a real server keeps what is in its watch cache, one without
    a watch cache answers from etcd alone.
    """

    name: str
    backend: Backend
    token: str
    pool: urllib3.PoolManager
    forget: Any
    without_cache: Any
    compared: int = field(default=0)

    def uncached(self) -> "Server":
        return self.without_cache() if self.without_cache else self

    # --- asking

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        type: str = JSON,
        accept: str = JSON,
        user: str = "",
        groups: tuple[str, ...] = (),
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        **query: Any,
    ) -> Answer:
        """One request; `body` is sent as JSON unless it is bytes, `query` as parameters."""
        sent = urllib3.HTTPHeaderDict({"Accept": accept})
        given = self.token if token is None else token
        if given:
            sent["Authorization"] = f"Bearer {given}"
        if body is not None:
            sent["Content-Type"] = type
        if user:
            sent["Impersonate-User"] = user
        for group in groups:
            sent.add("Impersonate-Group", group)
        sent.extend(headers or {})
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        answer = self.pool.request(
            method, self._url(path, query), body=data, headers=sent, retries=False, timeout=30
        )
        return Answer(answer.status, answer.headers, answer.data)

    def get(self, path: str, **query: Any) -> Answer:
        return self.call("GET", path, **query)

    def made(self, path: str, body: Object, **query: Any) -> Object:
        """Creates; the stored object."""
        answer = self.call("POST", path, body, **query)
        assert answer.status == 201, answer.data
        made: Object = answer.body
        return made

    def apply(self, path: str, body: Any, *, manager: str = "olmweb", **query: Any) -> Answer:
        """Server-side apply to the path of the object."""
        given: dict[str, Any] = {"fieldManager": manager} if manager else {}
        return self.call("PATCH", path, body, type=APPLY, **given, **query)

    def merge(self, path: str, change: Any, **query: Any) -> Answer:
        return self.call("PATCH", path, change, type=MERGE, **query)

    def version(self, path: str) -> str:
        """The resourceVersion at which a list of `path` is now."""
        version: str = self.get(path).body["metadata"]["resourceVersion"]
        return version

    def watch(self, path: str, *, accept: str = JSON, **query: Any) -> list[Object]:
        """Every event until the server ends the watch; `timeoutSeconds` is 1 unless given."""
        options: dict[str, Any] = {"watch": "true", "timeoutSeconds": 1} | query
        answer = self.call("GET", path, accept=accept, **options)
        assert answer.status == 200, answer.data
        return [json.loads(line) for line in answer.data.splitlines()]

    def follow(self, path: str, **query: Any) -> Generator[Object, None, None]:
        """Events as they come."""
        query = {"watch": "true", "timeoutSeconds": 10} | query
        answer = self.pool.request(
            "GET",
            self._url(path, query),
            headers={"Authorization": f"Bearer {self.token}"},
            preload_content=False,
            timeout=30,
        )
        try:
            rest = b""
            for piece in answer.stream(65536):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield json.loads(line)
        finally:
            answer.close()

    def _url(self, path: str, query: Mapping[str, Any]) -> str:
        return self.backend.url + path + (f"?{urlencode(query, quote_via=quote)}" if query else "")

    # --- comparing

    def same(self, actual: object, expected: object) -> None:
        """Both servers must give `expected`."""
        self.compared += 1
        assert actual == expected, f"{actual!r} instead of {expected!r}"

    def refused(
        self,
        answer: Answer,
        code: int,
        reason: str,
        message: str,
        details: Object | None = None,
    ) -> None:
        """The answer is a Status that says exactly this; causes in any order.

        `reason` "" and `details` None mean that the field is absent.
        """
        expected: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "code": code,
        }
        expected |= {"reason": reason} if reason else {}
        expected |= {} if details is None else {"details": details}
        self.same(answer.status, code)
        self.same(_sorted(answer.body), _sorted(expected))

    def begins(self, answer: Answer, code: int, reason: str, message: str) -> None:
        """For messages that end in words of Go's own parsers."""
        body = answer.body
        self.same((answer.status, body["code"], body["status"]), (code, code, "Failure"))
        self.same(body["reason"], reason)
        self.same(body["message"][: len(message)], message)


def _sorted(status: Object) -> Object:
    causes = status.get("details", {}).get("causes")
    if causes:
        ordered = sorted(causes, key=lambda cause: (cause["field"], cause["message"]))
        return {**status, "details": {**status["details"], "causes": ordered}}
    return status


def cause(reason: str, message: str, field: str) -> Object:
    return {"reason": reason, "message": message, "field": field}


def about(name: str, group: str, kind: str, *causes: Object) -> Object:
    """`details` of a Status."""
    details: Object = {"name": name, "group": group, "kind": kind}
    details = {key: value for key, value in details.items() if value}
    return details | ({"causes": list(causes)} if causes else {})


def owners(item: Object) -> list[tuple[str, str, str, str]]:
    """managedFields without times: (manager, operation, subresource, fields as JSON)."""
    return sorted(
        (
            entry["manager"],
            entry["operation"],
            entry.get("subresource", ""),
            json.dumps(entry["fieldsV1"], sort_keys=True),
        )
        for entry in item["metadata"]["managedFields"]
    )
