"""The audit's world, the catalogs, the controller's outcomes, and what survives a restart."""

import base64
import gzip
import importlib
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import zstandard

from olmweb.sandbox.cluster import Sandbox
from olmweb.sandbox.controllers.platform_operators import choose
from olmweb.sandbox.scenario import catalogs
from tests.conftest import SHARED
from tests.olmweb.sandbox.conftest import OPERATORS, STEP, Client, installed, operator, wait_for

PROXY = "/api/v1/namespaces/olmv1-system/services/https:catalogd-service:443/proxy"
ALL = f"{PROXY}/catalogs/redhat-operators/api/v1/all"
AGGREGATED = "/apis/config.openshift.io/v1/clusteroperators/platform-operators-aggregated"
CLUSTER_VERSION = "/apis/config.openshift.io/v1/clusterversions/version"
ITEM = re.compile(r'encountered the failing (\S+) platform operator with reason "([^"]*)"')


def test_the_rules_arrive_at_the_audits_outcomes(client: Client) -> None:
    items = client.get(OPERATORS)["items"]
    reasons = Counter(installed(item)["reason"] for item in items)
    assert reasons == {"InstallSuccessful": 25, "UnpackFailed": 40, "InstallFailed": 4}
    messages = Counter(
        installed(item)["message"].rsplit(": ", 1)[1]
        for item in items
        if installed(item)["reason"] == "UnpackFailed"
    )
    assert messages == {
        "AllNamespace install mode must be enabled": 26,
        "webhookDefiniions are not supported": 14,
    }


def test_the_cluster_version_follows_the_aggregated_operator(client: Client) -> None:
    def reported() -> list[str]:
        status = client.get(CLUSTER_VERSION)["status"]
        return [status["history"][0]["state"], *(c["status"] for c in status["conditions"])]

    assert reported() == ["Partial", "False", "True", "True"]  # Available, Failing, Progressing
    items = client.get(OPERATORS)["items"]
    failing = [item for item in items if installed(item)["status"] != "True"]
    for item in failing:
        client.call("DELETE", f"{OPERATORS}/{item['metadata']['name']}")
    wait_for(lambda: reported() == ["Completed", "True", "False", "False"])
    name, spec = failing[0]["metadata"]["name"], failing[0]["spec"]
    body = {key: failing[0][key] for key in ("apiVersion", "kind")}
    client.apply(f"{OPERATORS}/{name}", body | {"metadata": {"name": name}, "spec": spec})
    wait_for(lambda: reported() == ["Completed", "True", "True", "False"])


def test_the_aggregated_operator_names_the_44_that_fail(client: Client) -> None:
    failing = {
        item["metadata"]["name"]: installed(item)["reason"]
        for item in client.get(OPERATORS)["items"]
        if installed(item)["status"] != "True"
    }
    conditions = {c["type"]: c for c in client.get(AGGREGATED)["status"]["conditions"]}
    text = conditions["Available"]["message"]
    assert dict(ITEM.findall(text)) == failing
    assert len(failing) == 44
    assert (text[0], text[-1]) == ("[", "]")
    assert [conditions[t]["status"] for t in ("Available", "Progressing", "Degraded")] == [
        "False",
        "True",
        "False",
    ]


@pytest.mark.data
def test_every_message_and_bundle_name_is_the_published_audits(client: Client) -> None:
    path = SHARED / "data" / "audit" / "platform-operators-4.12.json"
    if not path.exists():
        pytest.skip("the published audit isn't beside the checkout")
    audit = json.loads(path.read_text())
    items = {item["metadata"]["name"]: item for item in client.get(OPERATORS)["items"]}
    assert {name: installed(item)["reason"] for name, item in items.items()} == {
        entry["name"]: entry["reason"] for entry in audit["platformoperators"]
    }
    bundles = client.get("/apis/core.rukpak.io/v1alpha1/bundles")["items"]
    ours = {b["metadata"]["name"]: b["status"] for b in bundles}
    for entry in audit["bundles"]:
        condition = ours[entry["name"]]["conditions"][0]
        assert (condition["reason"], condition["message"], ours[entry["name"]]["phase"]) == (
            entry["state"],
            entry["message"],
            entry["phase"],
        )
    for entry in audit["bundledeployments"]:
        assert installed(items[entry["name"]])["message"] == entry["installed"]["message"]


def test_two_starts_give_the_same_objects_but_for_their_times() -> None:
    def identities(sandbox: Sandbox) -> list[tuple[str, str, str]]:
        keys = []
        for kind in ("PlatformOperator", "Bundle", "BundleDeployment", "ClusterCatalog"):
            for item in sandbox.store.items(kind)[0]:
                metadata = item["metadata"]
                keys.append((metadata["name"], metadata["uid"], metadata["resourceVersion"]))
        return keys

    first, second = Sandbox(), Sandbox()
    assert identities(first) == identities(second)
    first.close()
    second.close()


def reach(client: Client, name: str) -> tuple[str, str]:
    """Asks for a package; gives the reason and message at which it settles."""
    assert client.call("POST", OPERATORS, operator(name))[0] == 201
    controllers, store = client.sandbox.platform_operators, client.sandbox.store
    wait_for(lambda: bool(installed(store.get("PlatformOperator", name) or {})))
    controllers.settle(name)
    controllers.aggregate()
    condition = installed(client.get(f"{OPERATORS}/{name}"))
    return condition["reason"], condition["message"]


@pytest.mark.parametrize(
    ("package", "reason", "ending"),
    [
        ("object-store-demo", "InstallSuccessful", "object-store-demo BundleDeployment resource"),
        ("backup-demo", "InstallSuccessful", "backup-demo BundleDeployment resource"),
        ("tracing-demo", "InstallSuccessful", "tracing-demo BundleDeployment resource"),
        ("tenant-demo", "UnpackFailed", "AllNamespace install mode must be enabled"),
        ("team-cache-demo", "UnpackFailed", "AllNamespace install mode must be enabled"),
        ("policy-demo", "UnpackFailed", "webhookDefiniions are not supported"),
        ("metrics-api-demo", "UnpackFailed", "apiServiceDefintions are not supported"),
        ("no-such", "SourceFailed", "no-such package: failed to run sourcing logic"),
    ],
)
def test_a_new_operator_reaches_its_true_outcome(
    client: Client, package: str, reason: str, ending: str
) -> None:
    last, message = reach(client, package)
    assert last == reason
    assert message.endswith(ending)
    members = dict(ITEM.findall(available(client)))
    assert (package in members) == (reason != "InstallSuccessful")


def available(client: Client) -> str:
    conditions = client.get(AGGREGATED)["status"]["conditions"]
    return str(next(c["message"] for c in conditions if c["type"] == "Available"))


def test_an_install_passes_through_unpacking_and_keeps_its_first_time() -> None:
    sandbox = Sandbox(step_seconds=60)
    sandbox.store.put(operator("tracing-demo"))
    reasons, times = [], []
    for _ in range(8):
        sandbox.step_all()
        condition = installed(sandbox.store.get("PlatformOperator", "tracing-demo") or {})
        reasons.append(condition["reason"])
        times.append((condition["status"], condition["lastTransitionTime"]))
    sandbox.close()
    assert list(dict.fromkeys(reasons)) == ["UnpackPending", "InstallPending", "InstallSuccessful"]
    assert len({at for status, at in times if status == "False"}) == 1


def test_the_highest_version_of_all_channels_is_chosen(client: Client) -> None:
    reach(client, "tracing-demo")
    path = "/apis/core.rukpak.io/v1alpha1/bundledeployments/tracing-demo"
    ref = client.get(path)["spec"]["template"]["spec"]["source"]["image"]["ref"]
    chosen = next(b for b in catalogs.blobs()["redhat-operators"] if b.get("image") == ref)
    assert chosen["name"] == "tracing-demo.v1.5.0-rc.1"


def test_an_ownership_conflict_is_gone_once_the_owner_is(client: Client) -> None:
    assert client.call("DELETE", f"{OPERATORS}/odr-cluster-operator")[0] == 200
    wait_for(lambda: installed(client.get(f"{OPERATORS}/odr-hub-operator"))["status"] == "True")
    wait_for(lambda: len(ITEM.findall(available(client))) == 43)


def test_one_failing_operator_has_no_brackets_and_none_is_all_well(
    sandbox: Sandbox, client: Client
) -> None:
    for item in sandbox.store.items("PlatformOperator")[0]:
        name = item["metadata"]["name"]
        if name not in ("eap", "datagrid"):
            sandbox.store.delete("PlatformOperator", name)
    expected = 'encountered the failing datagrid platform operator with reason "UnpackFailed"'
    wait_for(lambda: available(client) == expected)
    sandbox.store.delete("PlatformOperator", "datagrid")
    wait_for(lambda: available(client) == "All platform operators are in a successful state")


def test_a_catalog_source_that_is_not_ready_stops_sourcing(
    sandbox: Sandbox, client: Client
) -> None:
    source = dict(
        sandbox.store.get("CatalogSource", "redhat-operators", "openshift-marketplace") or {}
    )
    sandbox.store.put({**source, "status": {}})
    reason, message = reach(client, "tracing-demo")
    assert reason == "SourceFailed"
    assert message == (
        "validation error: only a single catalog source is supported during phase 0: "
        "failed to run sourcing logic"
    )


def test_what_was_installed_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    first = Sandbox(step_seconds=STEP, state_file=path)
    first.start()
    first.store.put(operator("tracing-demo"))
    first.store.delete("PlatformOperator", "eap")
    wait_for(
        lambda: (
            installed(first.store.get("PlatformOperator", "tracing-demo") or {}).get("status")
            == "True"
        )
    )
    first.stop()
    second = Sandbox(step_seconds=STEP, state_file=path)
    restored = second.store.get("PlatformOperator", "tracing-demo") or {}
    assert installed(restored)["reason"] == "InstallSuccessful"
    assert second.store.get("PlatformOperator", "eap") is None
    assert second.store.version == first.store.version
    second.close()


def test_a_broken_state_file_starts_anew_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.json"
    path.write_text("{")
    sandbox = Sandbox(state_file=path)
    assert len(sandbox.store.items("PlatformOperator")[0]) == 69
    assert "starting anew" in caplog.text
    sandbox.close()


# --- catalogs


def test_the_proxy_serves_a_catalog_as_recorded(client: Client) -> None:
    answer = client.raw("GET", ALL)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/jsonl"
    assert answer.headers["Content-Length"] == str(len(answer.data))
    assert answer.data == catalogs.as_jsonl(catalogs.blobs()["redhat-operators"])
    head = client.raw("HEAD", ALL)
    assert (head.headers["Content-Length"], head.data) == (str(len(answer.data)), b"")


@pytest.mark.parametrize(
    ("encoding", "undo"),
    [
        ("zstd", lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
        ("gzip", gzip.decompress),
    ],
)
def test_the_proxy_compresses_when_asked(client: Client, encoding: str, undo: Any) -> None:
    answer = client.raw("GET", ALL, {"Accept-Encoding": encoding}, decode_content=False)
    assert answer.headers["Content-Encoding"] == encoding
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert "Content-Length" not in answer.headers
    assert undo(answer.data) == catalogs.as_jsonl(catalogs.blobs()["redhat-operators"])


def test_the_proxy_answers_conditions_ranges_and_refusals(client: Client) -> None:
    whole = client.raw("GET", ALL)
    stamp = whole.headers["Last-Modified"]
    assert client.raw("GET", ALL, {"If-Modified-Since": stamp}).status == 304
    older = {"If-Modified-Since": "Mon, 02 Jan 2006 15:04:05 GMT"}
    assert client.raw("GET", ALL, older).status == 200
    part = client.raw("GET", ALL, {"Range": "bytes=100-199", "If-Range": stamp})
    assert (part.status, part.data) == (206, whole.data[100:200])
    assert part.headers["Content-Range"] == f"bytes 100-199/{len(whole.data)}"
    rest = client.raw("GET", ALL, {"Range": f"bytes={len(whole.data) - 5}-"})
    assert rest.data == whole.data[-5:]
    changed = {"Range": "bytes=100-199", "If-Range": "Mon, 02 Jan 2006 15:04:05 GMT"}
    assert client.raw("GET", ALL, changed).status == 200
    assert client.raw("GET", ALL, {"Range": "bytes=99999999-"}).status == 416
    unknown = client.raw("GET", f"{PROXY}/catalogs/nope/api/v1/all")
    assert (unknown.status, unknown.data) == (404, b"404 Not Found\n")
    assert client.raw("GET", f"{PROXY}/catalogs/redhat-operators/api/v1/metas").status == 404
    assert client.raw("POST", ALL).status == 405


def test_the_catalogs_are_big_enough_and_show_what_the_audit_lacks() -> None:
    blobs = catalogs.blobs()["redhat-operators"]
    counts = Counter(blob["schema"] for blob in blobs)
    assert counts["olm.package"] >= 79
    assert counts["olm.channel"] >= 100
    assert counts["olm.bundle"] >= 250
    assert counts["olm.deprecations"] == 1
    assert counts["demo.olmweb.dev/notes"] == 1
    text = catalogs.as_jsonl(blobs).decode()
    for piece in ("skipRange", '"skips"', "olm.gvk.required", "+build.7", '"4.12"'):
        assert piece in text, piece
    assert any(
        "<script>" in json.dumps(manifest) for blob in blobs for manifest in manifests_in(blob)
    )
    shared = {b["name"] for b in catalogs.blobs()["community-operators"]}
    assert "tracing-demo" in shared


def manifests_in(blob: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects that a catalog tells of a bundle."""
    return [
        json.loads(base64.b64decode(item["value"]["data"]))
        for item in blob.get("properties", [])
        if item["type"] == "olm.bundle.object"
    ]


def test_one_catalog_tells_the_objects_of_its_bundles_and_the_other_leaves_them_out() -> None:
    contained = {
        name: Counter(bool(manifests_in(b)) for b in blobs if b["schema"] == "olm.bundle")
        for name, blobs in catalogs.blobs().items()
    }
    assert set(contained["redhat-operators"]) == {True}
    assert set(contained["community-operators"]) == {True, False}


def test_every_bundle_is_in_a_channel_and_every_default_channel_exists() -> None:
    for blobs in catalogs.blobs().values():
        entries = {
            (blob["package"], entry["name"])
            for blob in blobs
            if blob["schema"] == "olm.channel"
            for entry in blob["entries"]
        }
        channels = {
            (blob["package"], blob["name"]) for blob in blobs if blob["schema"] == "olm.channel"
        }
        for blob in blobs:
            if blob["schema"] == "olm.bundle":
                assert (blob["package"], blob["name"]) in entries
            if blob["schema"] == "olm.package":
                assert (blob["name"], blob["defaultChannel"]) in channels


def test_only_one_icon_is_broken() -> None:
    broken = []
    for blob in catalogs.blobs()["redhat-operators"]:
        if icon := blob.get("icon"):
            try:
                base64.b64decode(icon["base64data"], validate=True)
            except ValueError:
                broken.append(blob["name"])
    assert broken == ["icon-demo"]


def test_descriptions_differ_from_package_to_package() -> None:
    newest = {
        blob["package"]: manifest["spec"]["description"]
        for blob in catalogs.blobs()["redhat-operators"]
        for manifest in manifests_in(blob)
        if manifest["kind"] == "ClusterServiceVersion"
    }
    assert len(set(newest.values())) == len(newest)
    assert all(len(text) > 100 for text in newest.values())


@pytest.mark.data
def test_the_reference_reader_agrees_with_channels_and_choices() -> None:
    folder = SHARED / "reference"
    if not (folder / "fbc_ref.py").exists():
        pytest.skip("the reference reader isn't beside the checkout")
    sys.path.insert(0, str(folder))
    try:
        fbc_ref = importlib.import_module("fbc_ref")
    finally:
        sys.path.remove(str(folder))
    blobs = catalogs.blobs()["redhat-operators"]
    faults = {}
    for blob in blobs:
        if blob["schema"] == "olm.channel":
            try:
                fbc_ref.validate_channel(blob["entries"])
            except ValueError as error:
                faults[blob["package"]] = str(error)
    assert faults == {
        "branches-demo": "multiple channel heads found in graph: "
        "branches-demo.v1.2.0, branches-demo.v1.3.0"
    }
    catalog = catalogs.catalogs()["redhat-operators"]
    for package in {bundle.package for bundle in catalog.all_bundles()}:
        bundles = catalog.bundles(package)
        reference = fbc_ref.platform_operators_pick((b.version, b.image) for b in bundles)
        chosen = choose(bundles)
        assert chosen is not None
        assert (chosen.version, chosen.image) == reference
