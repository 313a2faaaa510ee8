"""A plain client of a real API server for tests: what a person with kubectl would do.

Independent of the product's own client, so that a test's view of the cluster is not the view of
the code under test.
"""

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

import urllib3

Object = dict[str, Any]
Result = TypeVar("Result")
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class ApiRefused(Exception):
    """The server answered with an error; `status` is the HTTP code, `body` its Status object."""

    def __init__(self, status: int, body: Object) -> None:
        super().__init__(f"{status}: {body.get('message', body)}")
        self.status = status
        self.body = body


class Client:
    """Requests as one user. Objects are named by apiVersion, kind, name and namespace."""

    def __init__(self, url: str, ca_file: str, token: str) -> None:
        self.url = url
        self.token = token
        self._http = urllib3.PoolManager(ca_certs=ca_file, retries=False, timeout=30)
        self._served: dict[str, dict[str, tuple[str, bool]]] = {}

    def close(self) -> None:
        self._http.clear()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> Any:
        """The decoded JSON answer; raises ApiRefused for 4xx and 5xx."""
        answer = self._send(method, path, body, content_type, headers or {})
        deadline = time.monotonic() + 30
        # As kubectl does: a server that has just started is ready before its CRDs' storage is.
        while answer.status == 429 and time.monotonic() < deadline:
            time.sleep(0.2)
            answer = self._send(method, path, body, content_type, headers or {})
        is_json = "json" in answer.headers.get("Content-Type", "")
        decoded = answer.json() if is_json else {"message": answer.data.decode()}
        if answer.status >= 400:
            raise ApiRefused(answer.status, decoded)
        return decoded

    def _send(
        self, method: str, path: str, body: Any, content_type: str, headers: dict[str, str]
    ) -> urllib3.BaseHTTPResponse:
        return self._http.request(
            method,
            self.url + path,
            body=None if body is None else json.dumps(body),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": content_type,
                **headers,
            },
        )

    def post(self, path: str, text: str) -> None:
        """Sends JSON as it is, such as no encoder here makes. Raises ApiRefused."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        answer = self._http.request("POST", self.url + path, body=text.encode(), headers=headers)
        if answer.status >= 400:
            raise ApiRefused(answer.status, answer.json())

    def path(self, api_version: str, kind: str, name: str = "", namespace: str = "") -> str:
        """URL path of a kind's collection, or of one object; raises KeyError when not served."""
        plural, namespaced = self._resource(api_version, kind)
        prefix = "/api/" if "/" not in api_version else "/apis/"
        within = f"/namespaces/{namespace}" if namespaced and namespace else ""
        return f"{prefix}{api_version}{within}/{plural}" + (f"/{quote(name)}" if name else "")

    def _resource(self, api_version: str, kind: str) -> tuple[str, bool]:
        if kind not in self._served.get(api_version, {}):
            prefix = "/api/" if "/" not in api_version else "/apis/"
            found = self.call("GET", prefix + api_version)["resources"]
            self._served[api_version] = {
                entry["kind"]: (entry["name"], entry["namespaced"])
                for entry in found
                if "/" not in entry["name"]
            }
        return self._served[api_version][kind]

    def _path_of(self, thing: Object, with_name: bool = True) -> str:
        meta = thing["metadata"]
        return self.path(
            thing["apiVersion"],
            thing["kind"],
            meta["name"] if with_name else "",
            meta.get("namespace", ""),
        )

    def create(self, thing: Object) -> Object:
        return self.call("POST", self._path_of(thing, with_name=False), thing)

    def apply(self, thing: Object, query: str = "") -> Object:
        """Server-side apply as field manager `tests`, taking over every field; `query` as &a=b."""
        path = f"{self._path_of(thing)}?fieldManager=tests&force=true{query}"
        return self.call("PATCH", path, thing, content_type=APPLY)

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object:
        return self.call("GET", self.path(api_version, kind, name, namespace))

    def find(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        try:
            return self.get(api_version, kind, name, namespace)
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise

    def list(
        self, api_version: str, kind: str, namespace: str = "", query: str = ""
    ) -> list[Object]:
        """Items of a collection; `query` as ?labelSelector=..."""
        return self.call("GET", self.path(api_version, kind, namespace=namespace) + query)["items"]

    def merge(self, thing: Object, patch: Object) -> Object:
        return self.call("PATCH", self._path_of(thing), patch, content_type=MERGE)

    def set_status(self, thing: Object, status: Object) -> Object:
        """Plays the controller: merges `status` into the object's status subresource."""
        path = self._path_of(thing) + "/status"
        return self.call("PATCH", path, {"status": status}, content_type=MERGE)

    def delete(self, thing: Object) -> None:
        self.call("DELETE", self._path_of(thing))


def wait_until(
    look: Callable[[], Result | None], what: str, seconds: float = 30, pause: float = 0.1
) -> Result:
    """Calls `look` until it returns something true, and returns that; raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while True:
        if found := look():
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(pause)
