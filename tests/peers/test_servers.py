"""The servers that other tests rely on: isolation, restarts, compaction, no process left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from tests.peers import servers
from tests.peers.client import ApiRefused, Client, wait_until
from tests.peers.controllers import catalogd, opm_serve, registry

pytestmark = pytest.mark.peers

ROOT = Path(__file__).resolve().parent.parent.parent
OLM_V1 = "olm.operatorframework.io/v1"
CATALOG: list[dict[str, Any]] = [
    {"schema": "olm.package", "name": "tea", "defaultChannel": "stable"},
    {
        "schema": "olm.channel",
        "package": "tea",
        "name": "stable",
        "entries": [{"name": "tea.v1.0.0"}],
    },
    {
        "schema": "olm.bundle",
        "package": "tea",
        "name": "tea.v1.0.0",
        "image": "registry.example/tea:v1.0.0",
        "properties": [
            {"type": "olm.package", "value": {"packageName": "tea", "version": "1.0.0"}}
        ],
    },
]


def config_map(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    }


def as_file(catalog: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(blob) + "\n" for blob in catalog)


def test_every_kind_that_is_read_is_served_with_its_status_subresource(apiserver) -> None:
    # Other tests of this server may have made definitions of their own.
    crds = {
        crd["metadata"]["name"]: crd
        for crd in apiserver.admin.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    }
    for path in servers.CRDS.glob("*.yaml"):
        if path.stem not in servers.NOT_BY_DEFAULT:
            versions = crds[path.stem.removesuffix(".v1alpha1")]["spec"]["versions"]
            assert all("status" in version["subresources"] for version in versions), path.stem


def test_the_server_says_the_version_that_it_was_built_from(apiserver) -> None:
    version = apiserver.admin.call("GET", "/version")
    pinned = (ROOT / "tests" / "peers" / "apiserver" / "go.mod").read_text()
    assert f"k8s.io/kubernetes {version['gitVersion']}\n" in pinned
    assert version["gitVersion"].startswith(f"v{version['major']}.{version['minor']}.")


@pytest.mark.data
def test_our_small_crds_have_the_real_ones_names_scopes_versions_and_columns(shared_data) -> None:
    def facts(path: Path) -> dict[str, Any]:
        spec = yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]
        columns = {
            version["name"]: [
                (c["name"], c["type"], c["jsonPath"], c.get("priority"))
                for c in version.get("additionalPrinterColumns", [])
            ]
            for version in spec["versions"]
        }
        storage = [version["name"] for version in spec["versions"] if version["storage"]]
        return {
            "names": spec["names"],
            "group": spec["group"],
            "scope": spec["scope"],
            "columns": columns,
            "storage": storage,
        }

    compared = [path for path in servers.CRDS.glob("*.yaml") if servers.crd_file(path.stem) != path]
    assert len(compared) == 16
    for path in compared:
        assert facts(path) == facts(servers.crd_file(path.stem)), path.stem


def test_our_small_crds_are_taken_by_the_api_server(fresh_apiserver, monkeypatch) -> None:
    monkeypatch.setattr(servers, "REAL_CRDS", Path("/nowhere"))
    servers.apply_crds(fresh_apiserver)
    wrong = {
        "apiVersion": "platform.openshift.io/v1alpha1",
        "kind": "PlatformOperator",
        "metadata": {"name": "tea"},
        "spec": {"package": {}},
    }
    with pytest.raises(ApiRefused, match=r"spec\.package\.name: Required value"):
        fresh_apiserver.admin.create(wrong)


def test_a_newer_generation_of_bundledeployments_is_refused_while_the_older_is_stored(
    fresh_apiserver,
) -> None:
    old, new = (f"bundledeployments.core.rukpak.io.{v}" for v in ("v1alpha1", "v1alpha2"))
    servers.apply_crds(fresh_apiserver, [old])
    with pytest.raises(ApiRefused, match=r"missing from spec\.versions") as refused:
        servers.apply_crds(fresh_apiserver, [new])
    assert refused.value.status == 422


def test_two_servers_on_one_etcd_see_nothing_of_each_other(apiserver, fresh_apiserver) -> None:
    apiserver.admin.create(config_map("only-on-the-first"))
    fresh_apiserver.admin.create(config_map("only-on-the-second"))
    assert apiserver.admin.find("v1", "ConfigMap", "only-on-the-second", "default") is None
    assert fresh_apiserver.admin.find("v1", "ConfigMap", "only-on-the-first", "default") is None


def test_a_killed_server_comes_back_at_its_address_with_its_objects(fresh_apiserver) -> None:
    fresh_apiserver.admin.create(config_map("kept"))
    fresh_apiserver.kill()
    with pytest.raises(urllib3.exceptions.HTTPError):
        fresh_apiserver.admin.call("GET", "/readyz")
    fresh_apiserver.start()
    assert fresh_apiserver.admin.get("v1", "ConfigMap", "kept", "default")


def test_users_have_no_rights_until_they_are_given_some(fresh_apiserver) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    with pytest.raises(ApiRefused, match='User "bob" cannot list resource') as refused:
        fresh_apiserver.client("bob").call("GET", path)
    assert refused.value.status == 403
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    who = fresh_apiserver.client("bob").call(
        "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review
    )
    assert who["status"]["userInfo"]["groups"] == ["olmweb-viewers", "system:authenticated"]


def test_the_audit_log_tells_who_asked_what(fresh_apiserver) -> None:
    fresh_apiserver.admin.create(config_map("audited"))
    created = [
        event
        for event in fresh_apiserver.audit_events()
        if event["verb"] == "create" and event["objectRef"].get("resource") == "configmaps"
    ]
    mine = [event for event in created if event["user"]["username"] == "admin"]
    assert len(mine) == 1
    assert mine[0]["responseStatus"]["code"] == 201


def watch_from(client: Client, version: str, seconds: int = 1) -> tuple[int, str]:
    """HTTP status of a watch from `version`, and the reason of an error event, which ends it."""
    answer = client._http.request(
        "GET",
        f"{client.url}/api/v1/namespaces/default/configmaps"
        f"?watch=true&timeoutSeconds={seconds}&resourceVersion={version}",
        headers={"Authorization": f"Bearer {client.token}"},
    )
    events = [json.loads(line) for line in answer.data.splitlines()]
    return answer.status, "".join(e["object"].get("reason", "") for e in events)


def test_history_that_was_compacted_away_is_answered_with_410(real_etcd) -> None:
    with servers.apiserver(real_etcd, watch_cache=False) as server:
        old = server.admin.create(config_map("first"))["metadata"]["resourceVersion"]
        server.admin.create(config_map("second"))
        assert watch_from(server.admin, old) == (200, "")
        # A compaction at the revision that follows `old` would leave a watch from `old` possible.
        server.admin.create(config_map("third"))
        real_etcd.compact()
        server.admin.create(config_map("fourth"))
        # A busy server takes longer than a second to say so.
        assert watch_from(server.admin, old, 20) in [(200, "Expired"), (410, "Expired")]


# A shell's background job and its children are deaf to SIGINT, unless they say otherwise.
STARTS_AND_HANGS = """
import signal, time
from tests.peers import servers
signal.signal(signal.SIGINT, signal.default_int_handler)
with servers.etcd() as etcd:
    print(etcd.server.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_the_process_that_started_it(real_etcd, ended_by, tmp_path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_HANGS],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # what a killed process leaves there
    )
    with parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        os.kill(parent.pid, ended_by)
    wait_until(lambda: not is_running(child), "the end of etcd", seconds=5)


def test_a_server_outlives_the_thread_that_asked_for_it(fresh_apiserver) -> None:
    fresh_apiserver.kill()
    thread = threading.Thread(target=fresh_apiserver.start)
    thread.start()
    thread.join()
    time.sleep(0.2)
    assert is_running(fresh_apiserver.server.pid)


def is_running(pid: int) -> bool:
    """Whether the process runs; an ended one that nobody has waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_server_that_cannot_start_says_why(real_etcd, tmp_path) -> None:
    broken = servers.Etcd(tmp_path)
    broken.data_dir.write_text("not a folder")
    with pytest.raises(RuntimeError, match="etcd ended") as told:
        broken.start()
    assert "not a directory" in str(told.value)
    broken.close()


def test_opm_serves_a_catalog_over_http2(opm_is_built, tmp_path) -> None:
    (tmp_path / "catalog.jsonl").write_text(as_file(CATALOG))
    (tmp_path / "catalog.jsonl").rename(tmp_path / "catalog.json")
    with opm_serve(tmp_path) as opm, socket.create_connection(("127.0.0.1", opm.port), 5) as peer:
        peer.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        assert peer.recv(9)[3] == 4  # a SETTINGS frame, as every HTTP/2 server begins


def test_catalogd_serves_what_the_registry_holds(catalogd_is_built, fresh_apiserver) -> None:
    servers.apply_crds(fresh_apiserver, ["clustercatalogs.olm.operatorframework.io"])
    with registry() as images, catalogd(fresh_apiserver, images) as running:
        image = images.push_catalog("teas", "v1", as_file(CATALOG).encode())
        fresh_apiserver.admin.create(
            {
                "apiVersion": OLM_V1,
                "kind": "ClusterCatalog",
                "metadata": {"name": "teas"},
                "spec": {"source": {"type": "Image", "image": {"ref": image}}},
            }
        )

        def base() -> str | None:
            found = fresh_apiserver.admin.get(OLM_V1, "ClusterCatalog", "teas")
            return found.get("status", {}).get("urls", {}).get("base")

        url = wait_until(base, "the catalog being served", seconds=60)
        with urllib3.PoolManager(ca_certs=str(running.ca_file)) as http:
            answer = http.request("GET", f"{url}/api/v1/all")
        schemas = [json.loads(line)["schema"] for line in answer.data.splitlines()]
        assert sorted(schemas) == ["olm.bundle", "olm.channel", "olm.package"]
