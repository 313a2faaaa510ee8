"""What is the sandbox's own: its switches, its faults, its garbage collection.

That it answers like a real API server is asserted in tests/conformance.
"""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import urllib3
import yaml

from olmweb.sandbox.apiserver.kinds import all_kinds, by_kind, crd_manifest
from olmweb.sandbox.apiserver.store import HISTORY, Store
from olmweb.sandbox.cluster import Sandbox
from tests.olmweb.sandbox.conftest import OPERATORS, Client, operator

BUNDLES = "/apis/core.rukpak.io/v1alpha1/bundles"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def test_pages_hold_every_item_once_although_the_store_changes(
    sandbox: Sandbox, client: Client
) -> None:
    page = client.get(f"{OPERATORS}?limit=30")
    version, names = page["metadata"]["resourceVersion"], []
    assert page["metadata"]["remainingItemCount"] == 39
    sandbox.store.put(operator("aaa-late", "nothing"))
    while True:
        names += [item["metadata"]["name"] for item in page["items"]]
        assert page["metadata"]["resourceVersion"] == version
        token = page["metadata"]["continue"]
        if not token:
            break
        page = client.get(f"{OPERATORS}?limit=30&continue={token}")
    assert len(names) == len(set(names)) == 69
    assert "aaa-late" not in names


def test_an_open_watch_that_is_behind_loses_nothing_to_a_compaction() -> None:
    store, kind = Store(), by_kind("PlatformOperator")
    before = store.version
    store.put(operator("x", "p"))
    store.compact()
    assert store.events_after(before, kind) is None
    events = store.events_after(before, kind, is_open=True)
    assert events is not None
    assert [event.object["metadata"]["name"] for event in events] == ["x"]


def test_history_has_an_end() -> None:
    store = Store()
    before = store.version
    for number in range(HISTORY + 1):
        store.put(operator("x", f"p{number}"))
    kind = by_kind("PlatformOperator")
    assert store.events_after(before, kind) is None
    assert store.items_at("PlatformOperator", "", before) is None
    newest = store.events_after(store.oldest, kind)
    assert newest is not None
    assert len(newest) == HISTORY


def test_deleting_takes_what_is_owned_along(client: Client) -> None:
    status, body = client.call("DELETE", f"{OPERATORS}/datagrid")
    assert (status, body["status"], body["details"]["name"]) == (200, "Success", "datagrid")
    assert client.call("GET", f"{BUNDLES}/datagrid-z28w45")[0] == 404
    deployments = "/apis/core.rukpak.io/v1alpha1/bundledeployments"
    assert client.call("GET", f"{deployments}/datagrid")[0] == 404


def test_the_kubeconfig_has_the_token_and_only_its_owner_reads_it(
    sandbox: Sandbox, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "sub" / "kubeconfig"
    sandbox.write_kubeconfig(path, context="demo")
    assert path.stat().st_mode & 0o777 == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == sandbox.url
    token = config["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert client.pool.request("GET", sandbox.url + OPERATORS, headers=headers).status == 200


def test_without_required_token_a_request_without_credentials_is_the_administrators() -> None:
    sandbox = Sandbox(require_token=False)
    sandbox.start()
    try:
        with urllib3.PoolManager() as pool:
            path = sandbox.url + OPERATORS
            assert pool.request("GET", path).status == 200
            viewer = {"Impersonate-User": "v", "Impersonate-Group": "olmweb-viewers"}
            assert pool.request("GET", path, headers=viewer).status == 200
            assert pool.request("DELETE", f"{path}/eap", headers=viewer).status == 403
            wrong = {"Authorization": "Bearer wrong"}
            assert pool.request("GET", path, headers=wrong).status == 401
    finally:
        sandbox.stop()


def test_the_scenarios_crds_are_those_of_the_kinds(client: Client) -> None:
    served = {crd["metadata"]["name"]: crd for crd in client.get(CRDS)["items"]}
    for kind in all_kinds():
        if kind.custom:
            crd = served[kind.resource]
            assert crd["spec"] == crd_manifest(kind)["spec"]
            assert crd["status"]["storedVersions"] == [kind.version]


@pytest.mark.parametrize("kind", [kind for kind in all_kinds() if kind.custom])
def test_every_kind_can_be_listed_and_shown_as_a_table(client: Client, kind) -> None:
    path = f"/apis/{kind.group}/{kind.version}/{kind.plural}"
    items = client.get(path)["items"]
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = client.raw("GET", path, accept).json()
    assert len(table["rows"]) == len(items)
    assert len(table["columnDefinitions"]) == len(kind.columns) + 1


def test_times_are_seconds_of_utc(client: Client) -> None:
    body = client.call("POST", OPERATORS, operator("fresh"))[1]
    made = datetime.fromisoformat(body["metadata"]["creationTimestamp"])
    assert abs((datetime.now(UTC) - made).total_seconds()) < 5


def test_scripted_faults_happen_once(sandbox: Sandbox, client: Client) -> None:
    sandbox.script.fail_next(429, retry_after=7, path_prefix="/apis")
    answer = client.raw("GET", OPERATORS)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
    assert client.raw("GET", OPERATORS).status == 200
    sandbox.script.delay_next(0.2)
    started = time.monotonic()
    assert client.raw("GET", "/version").status == 200
    assert time.monotonic() - started >= 0.2
    assert ("GET", "/version") in sandbox.script.requests


def test_objects_of_a_crd_that_an_operator_brought_can_be_counted(client: Client) -> None:
    crd = next(row for row in client.get(CRDS)["items"] if "olm.managed" in str(row["metadata"]))
    group, version = crd["spec"]["group"], crd["spec"]["versions"][0]["name"]
    path = f"/apis/{group}/{version}/{crd['spec']['names']['plural']}"
    page = client.get(f"{path}?limit=1")
    assert (page["kind"], page["items"]) == (f"{crd['spec']['names']['kind']}List", [])
    assert client.raw("GET", path.replace(version, "v9")).status == 404
    assert client.raw("GET", path.replace(group, "unknown.example.com")).status == 404
