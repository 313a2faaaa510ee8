"""The readiness page and its REST route: verdicts, filters, exports, hostile words."""

from typing import Any

import pytest
from django.test import Client

from catalogs.models import Catalog
from installs.models import Component
from olmweb.models import Cluster
from tests.factories import (
    make_catalog,
    make_cluster,
    make_component,
    make_operator,
    make_package,
)
from tests.worlds.html import assert_fragment, assert_page
from tests.worlds.operators import make_clusteroperator
from tests.worlds.subscriptions import CATALOG, make_pending_approval, make_subscription

pytestmark = pytest.mark.django_db
EVIL = '"><img src=x onerror=alert(1)>'


@pytest.fixture
def prod() -> Cluster:
    cluster = make_cluster(name="prod", version="4.16.3")
    make_component(
        cluster=cluster, kind="ClusterVersion", name="version", details={"version": "4.16.3"}
    )
    return cluster


@pytest.fixture
def blocked(prod: Cluster) -> Catalog:
    catalog = make_catalog(name=CATALOG, cluster=prod)
    make_package(
        name="grafana",
        catalog=catalog,
        bundles={
            "1.0.0": {"max_openshift_version": "4.16", "deprecated": True, "deprecation": EVIL}
        },
    )
    make_subscription(prod)
    return catalog


def test_the_page_says_whether_the_next_minor_is_open_and_what_is_in_the_way(
    reader: Client, blocked: Catalog
) -> None:
    page = assert_page(reader.get("/readiness/"))
    assert "OpenShift 4.16.3 to 4.17" in page.text
    assert "1 blocker for OpenShift 4.17." in page.text
    assert page.text.index("Does not support the next OpenShift") < page.text.index(
        "Version deprecated"
    )
    assert "Resolved by version 1.1.0" in page.text
    assert "/operators/prod/Subscription/openshift-operators/grafana" in page.links


def test_what_waits_for_catalogs_that_are_still_being_read_is_no_row_yet(
    reader: Client, prod: Cluster
) -> None:
    make_subscription(prod)
    catalog = make_catalog(name=CATALOG, cluster=prod, state=Catalog.State.NEW, revision=0)
    make_catalog(name="elsewhere", cluster=make_cluster(name="lab"), state=Catalog.State.NEW)
    page = assert_page(reader.get("/readiness/"))
    note = f"1 catalog of this cluster is still being read for the first time: {CATALOG}."
    assert f"{note} 1 operator is checked for its maximum OpenShift version then" in page.text
    assert "Reading catalogs No blocker for OpenShift 4.17 found so far." in page.text
    assert "Neither the cluster nor a stored catalog" not in page.text, "no blocker"
    assert "0 results" in page.text
    Catalog.objects.filter(pk=catalog.pk).update(state=Catalog.State.SERVING)
    page = assert_page(reader.get("/readiness/"))
    assert "Neither the cluster nor a stored catalog" in page.text
    assert "for the first time" not in page.text


def test_a_reported_operator_that_was_not_found_is_a_row_without_a_link(
    reader: Client, prod: Cluster
) -> None:
    make_clusteroperator(
        prod,
        "operator-lifecycle-manager",
        upgradeable="False",
        reason="IncompatibleOperatorsInstalled",
        message="maximum supported OCP version for tools/ceiling.v1.1.0 is 4.16",
    )
    page = assert_page(reader.get("/readiness/"))
    assert "ceiling.v1.1.0 ClusterServiceVersion in tools" in page.text
    assert "kubectl get clusterserviceversion ceiling.v1.1.0 -n tools" in page.text
    assert not [link for link in page.links if "ceiling" in link]


def test_a_row_leads_people_who_may_act_to_what_resolves_it(
    client: Client, prod: Cluster, olivia: Any, bob: Any
) -> None:
    catalog = make_catalog(name=CATALOG, cluster=prod)
    for name in ("grafana", "loki"):
        make_package(
            name=name, catalog=catalog, channels={"stable": ("1.0.0", "1.1.0", "2.0.0", "2.1.0")},
            bundles={
                "1.0.0": {"max_openshift_version": "4.16"},
                "2.0.0": {"max_openshift_version": "4.16"},
            },
        )  # fmt: skip
    make_pending_approval(prod)
    make_subscription(prod, "loki", namespace="logs")
    plan = Component.objects.get(kind="InstallPlan")
    approve = f"/installplans/prod/{plan.namespace}/{plan.name}/approve"
    upgrade = "/operators/prod/Subscription/logs/loki/upgrade"
    client.force_login(olivia)
    links = assert_page(client.get("/readiness/")).links
    assert approve in links
    assert upgrade in links
    assert client.get(approve).status_code == client.get(upgrade).status_code == 200
    client.force_login(bob)
    links = assert_page(client.get("/readiness/")).links
    assert not {approve, upgrade} & set(links)


def test_the_upgrade_of_a_cluster_extension_begins_with_the_version_that_resolves_its_blocker(
    client: Client, olivia: Any, prod: Cluster
) -> None:
    prod.kinds = {"ClusterExtension": {"state": "served", "version": "v1"}}
    prod.save()
    kind = Catalog.SourceKind.CLUSTER_CATALOG
    catalog = make_catalog(name=CATALOG, cluster=prod, source_kind=kind)
    make_package(
        name="argocd", catalog=catalog, channels={"stable": ("1.0.0", "1.1.0")},
        bundles={"1.0.0": {"max_openshift_version": "4.16"}},
    )  # fmt: skip
    make_operator(
        cluster=prod, kind="ClusterExtension", name="argocd", package="argocd", version="1.0.0",
        bundle="argocd.v1.0.0", catalog=catalog.name, version_asked="1.0.x",
    )  # fmt: skip
    client.force_login(olivia)
    page = assert_page(client.get("/readiness/"))
    upgrade = "/operators/prod/ClusterExtension/-/argocd/upgrade?version=1.1.0"
    assert upgrade in page.links
    assert "Upgrade argocd to 1.1.0" in page.text
    shown = client.get(upgrade)
    assert shown.context["plan"].target == "argocd.v1.1.0"


def test_a_cluster_with_nothing_in_the_way_is_ready(reader: Client, prod: Cluster) -> None:
    page = assert_page(reader.get("/readiness/?cluster=prod"))
    verdict = "The update to OpenShift 4.17 can start and complete: no blocker."
    assert f"Not blocked {verdict}" in page.text
    assert "/?cluster=prod" in page.links, "from the heading"


def test_without_clusters_the_page_says_so(reader: Client) -> None:
    assert "No cluster yet" in assert_page(reader.get("/readiness/")).text


@pytest.mark.parametrize(
    ("query", "count"),
    [("weight=blocks", 1), ("code=bundle-deprecated", 1), ("q=nothing", 0), ("q=grafana", 2)],
)
def test_filters_are_in_the_address(
    reader: Client, blocked: Catalog, query: str, count: int
) -> None:
    page = assert_page(reader.get(f"/readiness/?{query}"))
    assert f"{count} result{'' if count == 1 else 's'}, worst first" in page.text
    found = reader.get(f"/api/v1/readiness?{query.replace('weight', 'severity')}").json()
    assert found["count"] == count


def test_the_next_catalog_is_chosen_in_the_address(reader: Client, blocked: Catalog) -> None:
    make_catalog(name="next", cluster=None)
    page = assert_page(reader.get("/readiness/?next=-/next"))
    assert "Package not in the next catalog" in page.text
    found = reader.get("/api/v1/readiness?next_catalog=-/next&code=package-gone").json()
    assert found["items"][0]["package"] == "grafana"


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [
        ("/readiness/?next=nonsense", 400, "names no catalog"),
        ("/readiness/?next=-/gone", 404, "gone"),
        ("/readiness/?cluster=gone", 404, "There is no cluster gone"),
        ("/readiness/?weight=heavy", 400, "blocks, completion, holds, unknown, plan"),
        ("/api/v1/readiness?next_catalog=nonsense", 400, "must be CLUSTER/NAME"),
        ("/api/v1/readiness?next_catalog=-/gone", 404, "gone"),
        ("/api/v1/readiness?cluster=gone", 200, '"count":0'),
        ("/api/v1/readiness?severity=heavy", 400, "blocks, completion, holds, unknown, plan"),
    ],
)
def test_what_can_not_be_read_is_said_in_a_sentence(
    reader: Client, prod: Cluster, address: str, status: int, words: str
) -> None:
    answer = reader.get(address)
    assert answer.status_code == status
    assert words in answer.content.decode()


def test_blockers_are_on_pages_that_continue_from_cluster_to_cluster(
    reader: Client, blocked: Catalog, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    """Ten catalogs besides that of prod, which has 53 operators."""
    bundles = {"1.0.0": {"max_openshift_version": "4.16"}}
    for number in range(52):
        make_package(name=f"op-{number:02}", catalog=blocked, bundles=bundles)
        make_subscription(prod, f"op-{number:02}")
    for number in range(9):
        make_package(name="grafana", catalog=make_catalog(name=f"c{number}", cluster=None))
    clean, stage = make_cluster(name="clean"), make_cluster(name="stage", version="4.16.3")
    make_component(
        cluster=stage, kind="ClusterVersion", name="version", details={"version": "4.16.3"}
    )
    make_package(name="op-00", catalog=make_catalog(name="c9", cluster=None), bundles=bundles)
    make_subscription(stage, "op-00")
    make_cluster(name="tail")
    shown = []
    for number in (1, 2, 3):
        with django_assert_max_num_queries(12):
            answer = reader.get(f"/readiness/?next=-/c1&page={number}")
        assert len(answer.content) <= 60_000
        page = assert_page(answer)
        assert "108 results, worst first" in page.text
        assert f"{20 * number - 19} to {20 * number} of 108" in page.text
        shown += [(row.readiness.cluster, len(row.rows)) for row in answer.context["shown"]]
    assert shown == [(clean.name, 0), ("prod", 20), ("prod", 20), ("prod", 20)]
    last = reader.get("/readiness/?next=-/c1&page=6").context["shown"]
    assert [(entry.readiness.cluster, len(entry.rows)) for entry in last] == [
        ("prod", 6), ("stage", 2), ("tail", 0)
    ]  # fmt: skip
    beyond = assert_page(reader.get("/readiness/?next=-/c1&page=9")).text
    assert "There is no page 9; the last one, 6" in beyond


def test_a_poll_that_finds_nothing_new_costs_no_page(reader: Client, blocked: Catalog) -> None:
    headers = {"HX-Request": "true", "HX-Target": "live"}
    first = reader.get("/readiness/", headers=headers)
    assert_fragment(first)
    assert first.context_data is not None
    again = reader.get("/readiness/", {"rev": first.context_data["rev"]}, headers=headers)
    assert again.status_code == 204


def test_it_is_exported_as_csv_and_markdown(reader: Client, blocked: Catalog) -> None:
    csv = b"".join(reader.get("/api/v1/readiness?format=csv")).decode()
    assert csv.splitlines()[0].startswith("cluster,next_version,kind")
    assert "max-openshift" in csv
    text = b"".join(reader.get("/api/v1/readiness?format=md")).decode()
    assert "Resolution: Channel stable leads to 1.1.0" in text
    assert text.count("<img") == text.count("\\<img") == 1


def test_it_needs_a_login_unless_reading_is_public(client: Client, blocked: Catalog) -> None:
    assert client.get("/readiness/").status_code == 302
    assert client.get("/api/v1/readiness").status_code == 401
