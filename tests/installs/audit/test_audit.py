"""The audit of a catalog at the terminal: verdicts, buckets, and what the cluster has."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog
from catalogs.sync.catalog import sync_catalog
from installs.audit.audit import audit
from installs.audit.report import as_markdown
from olmweb.models import Cluster
from tests.factories import make_cluster, make_crd, make_operator, make_watch
from tests.worlds.fbc import bundle_blob, channel_blob, csv_metadata, package, package_blob
from tests.worlds.syncing import make

pytestmark = pytest.mark.django_db
NO_SERVICES: dict[str, Any] = {"apiServiceDefinitions": {}}


def _package(name: str, *properties: dict[str, Any], **csv_fields: Any) -> list[dict[str, Any]]:
    bundle = bundle_blob(
        "1.0.0", name, properties=properties, csv=csv_metadata(**NO_SERVICES | csv_fields)
    )
    return [
        package_blob(name),
        channel_blob(name, "stable", [{"name": f"{name}.v1.0.0"}]),
        bundle,
    ]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    own_only = [{"type": "OwnNamespace", "supported": True}]
    two_heads = package("torn", ["1.0.0", "1.1.0"])
    two_heads[1]["entries"] = [{"name": "torn.v1.0.0"}, {"name": "torn.v1.1.0"}]
    needing = {
        "type": "olm.gvk.required",
        "value": {"group": "x.example", "version": "v1", "kind": "X"},
    }
    catalog = make(
        tmp_path,
        [
            *_package("good"),
            *_package("own-only", installModes=own_only),
            *_package("needing", needing),
            *two_heads,
        ],
    )
    assert sync_catalog(catalog).outcome == "changed"
    return catalog


def _audit(*arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("audit", "demo", *arguments, "--json", stdout=out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def _buckets(found: dict[str, Any]) -> dict[str, list[str]]:
    return {each["rule"]: each["packages"] for each in found["buckets"]}


def test_a_subscription_is_judged_by_the_head_of_the_default_channel(catalog: Catalog) -> None:
    found = _audit("--path", "subscription")
    assert found["counts"] == {"installable": 1, "not-installable": 3, "unknown": 0}
    assert _buckets(found) == {
        "": ["good"],
        "sub-install-mode": ["own-only"],
        "sub-api-required": ["needing"],
        "channel-graph": ["torn"],
    }
    good = next(each for each in found["packages"] if each["package"] == "good")
    assert (good["bundle"], good["version"], good["channel"]) == ("good.v1.0.0", "1.0.0", "stable")


def test_an_operator_group_of_its_own_namespace_takes_what_refuses_all(catalog: Catalog) -> None:
    found = _audit("--path", "subscription", "--watch", "any")
    assert _buckets(found)[""] == ["good", "own-only"]
    found = _audit("--path", "subscription", "--watch", "own")
    assert "own-only" in _buckets(found)[""]
    assert _buckets(found)["sub-install-mode"] == ["good"]


def test_a_bundle_that_olm_v1_settles_on_and_refuses_is_named_with_the_rule(
    catalog: Catalog,
) -> None:
    found = _audit("--path", "clusterextension")
    needing = next(each for each in found["packages"] if each["package"] == "needing")
    assert (needing["bundle"], needing["rule"]) == ("needing.v1.0.0", "ce-dependency")
    assert "olm.gvk.required" in needing["sentence"]
    assert [each["rule"] for each in needing["rules"]] == [
        "ce-dependency",
        "ce-webhook",
        "api-shared",
    ]


def test_webhooks_that_the_catalog_does_not_tell_leave_a_platform_operator_unknown(
    catalog: Catalog,
) -> None:
    found = _audit("--path", "platformoperator")
    assert _buckets(found) == {
        "po-webhook": ["good", "needing"],
        "po-install-mode": ["own-only"],
        "po-api-service": ["torn"],
    }
    assert found["counts"] == {"installable": 0, "not-installable": 2, "unknown": 2}


def _prod(catalog: Catalog) -> Cluster:
    cluster = make_cluster(version="v1.20.4")
    catalog.cluster = cluster
    catalog.save()
    return cluster


def test_the_facts_of_a_cluster_count(catalog: Catalog) -> None:
    cluster = _prod(catalog)
    make_watch(
        cluster=cluster, kind="CustomResourceDefinition", resource="CustomResourceDefinition"
    )
    make_crd(cluster=cluster, name="xs.x.example")
    found = _audit("--path", "subscription", "--cluster", "prod")
    assert _buckets(found)["sub-min-kube"] == ["good"]
    sentence = next(each for each in found["packages"] if each["package"] == "good")["sentence"]
    assert "1.21.0" in sentence
    assert "1.20.4" in sentence


def test_what_the_cluster_has_is_beside_the_verdict_disagreements_first(catalog: Catalog) -> None:
    cluster = _prod(catalog)
    cluster.version = "v1.30.0"
    cluster.save()
    subscription: dict[str, Any] = {"kind": "Subscription", "cluster": cluster, "namespace": "n"}
    make_operator(name="a", package="good", health="Healthy", **subscription)
    make_operator(name="b", package="good", health="Failed", **subscription)
    make_operator(name="c", package="own-only", health="Failed", **subscription)
    make_operator(name="d", package="own-only", health="Installing", **subscription)
    make_operator(name="e", package="elsewhere", health="Healthy", **subscription)
    found = _audit("--path", "subscription", "--cluster", "prod")["actual"]
    assert (found["agree"], found["disagree"], found["undecided"]) == (2, 1, 0)
    assert [(each["name"], each["agrees"]) for each in found["operators"]] == [
        ("b", False),
        ("a", True),
        ("c", True),
    ]
    text = as_markdown(audit(catalog, InstallMethod.SUBSCRIPTION, cluster=cluster))
    assert "| Operators | Predicted | Why | Matched |" in text
    assert "| Operator | Is | Predicted | Rule |" in text


def test_an_unknown_verdict_is_no_disagreement(catalog: Catalog) -> None:
    cluster = _prod(catalog)
    make_operator(cluster=cluster, name="good", health="Failed")
    found = _audit("--path", "platformoperator", "--cluster", "prod")["actual"]
    assert (found["agree"], found["disagree"], found["undecided"]) == (0, 0, 1)


def test_csv_has_a_row_for_each_package(catalog: Catalog) -> None:
    out = io.StringIO()
    call_command("audit", "--path", "subscription", "--csv", "--", "-/demo", stdout=out)
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert [(row["package"], row["verdict"]) for row in rows] == [
        ("good", "installable"),
        ("needing", "not-installable"),
        ("own-only", "not-installable"),
        ("torn", "not-installable"),
    ]


def test_the_terminal_names_counts_buckets_and_disagreements(catalog: Catalog) -> None:
    cluster = _prod(catalog)
    make_operator(
        cluster=cluster, kind="Subscription", namespace="n", name="own-only", health="Healthy"
    )
    out = io.StringIO()
    call_command("audit", "demo", "--path", "subscription", "--cluster", "prod", stdout=out)
    text = out.getvalue()
    assert "4 packages: 0 installable, 4 not installable, 0 unknown" in text
    assert "own-only: Healthy, predicted not installable (sub-install-mode)" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing", "--path", "subscription"], 'No catalog is called "nothing"'),
        (["demo", "--path", "subscription", "--cluster", "x"], "There is no cluster x"),
    ],
)
def test_a_name_that_is_not_known_gets_one_sentence(
    catalog: Catalog, arguments: list[str], sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        call_command("audit", *arguments)
