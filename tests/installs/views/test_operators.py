"""The operators list by cause and as a table, its filters and pages, and one operator's page."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from installs.diagnosis.entries import knowledge
from installs.diagnosis.knowledge import find
from installs.models import Operator, Transition
from installs.queries.operators import OperatorFilters, causes
from installs.queries.overview import causes_of
from olmweb.models import Cluster
from olmweb.web.pagination import PAGE_SIZE
from tests.factories import (
    make_catalog,
    make_cluster,
    make_operator,
    make_package,
    make_transition,
)
from tests.worlds.html import Page, assert_fragment, assert_page
from tests.worlds.operators import (
    MODE,
    OWNED,
    WEBHOOK,
    make_action,
    make_failing,
    make_failing_world,
)
from tests.worlds.subscriptions import make_orphan, make_pending_approval, make_subscription

pytestmark = pytest.mark.django_db
EVIL = '"><img src=x onerror=alert(1)>'


def names(page: Page) -> list[str]:
    """Names of the operators that the page links to, in order."""
    found = [link.rsplit("/", 1)[1] for link in page.links if link.startswith("/operators/prod/")]
    return list(dict.fromkeys(found))


def detail(name: str, kind: str = "PlatformOperator", namespace: str = "-") -> str:
    return f"/operators/prod/{kind}/{namespace}/{name}"


# --- by cause ----------------------------------------------------------------------------------


def test_by_cause_is_the_default_when_anything_failed(reader: Client, prod: Cluster) -> None:
    make_failing_world(prod, modes=14, webhooks=2)
    page = assert_page(reader.get("/operators/"))
    assert "14 AllNamespaces install mode required by PlatformOperator" in page.text
    assert "Retrying won't fix this: the same bundle gets the same answer." in page.text
    assert "All 14 with this cause" in page.text
    assert "18 operators need attention" in page.text
    assert "fine" not in names(page)


@pytest.mark.parametrize("view", ["all", "cause"])
def test_a_cluster_that_was_never_read_is_not_said_to_have_no_operators(
    reader: Client, view: str
) -> None:
    cluster = make_cluster(name="prod", reachable=False, synced_at=None)
    path = f"/operators/?view={view}"
    assert "No cluster was read yet" in assert_page(reader.get(path)).text
    cluster.synced_at = timezone.now()
    cluster.save()
    assert "No cluster was read yet" not in assert_page(reader.get(path)).text


def test_a_table_of_all_causes_leads_to_each(reader: Client, prod: Cluster) -> None:
    for name in ("etcd", "kafka"):
        make_failing(prod, name, MODE)
    path = "/operators/?view=cause"
    assert 'aria-label="All causes"' not in reader.get(path).content.decode(), "of one cause"
    make_failing(prod, "quay", WEBHOOK)
    response = reader.get(path)
    html = response.content.decode().partition('aria-label="All causes"')[2].partition("</table>")
    counts = re.findall(r'href="#cause-([^"]+)">.*?class="olm-number">(\d+)', html[0], re.DOTALL)
    assert [count for _, count in counts] == ["2", "1"]
    assert {key for key, _ in counts} == set(re.findall(r'id="cause-([^"]+)"', html[2]))


def test_a_cause_of_several_bundles_is_said_of_them_all(reader: Client, prod: Cluster) -> None:
    make_failing(prod, "etcd", MODE)
    one = "This bundle does not support the AllNamespaces install mode"
    many = "None of these bundles supports the AllNamespaces install mode"
    text = assert_page(reader.get("/operators/?view=cause")).text
    assert one in text
    assert many not in text
    make_failing(prod, "kafka", MODE)
    make_failing(prod, "quay", WEBHOOK)
    make_failing(prod, "tempo", WEBHOOK)
    text = assert_page(reader.get("/operators/?view=cause")).text
    assert many in text
    assert one not in text
    assert "Each of these bundles declares webhooks" in text
    assert one in assert_page(reader.get(detail("etcd"))).text


def test_every_failing_operator_is_counted(prod: Cluster) -> None:
    number = 2100
    Operator.objects.bulk_create(
        Operator(
            cluster=prod,
            kind="PlatformOperator",
            name=f"op{place:04}",
            health="Failed",
            reason="Wrong" if place % 3 else "Worse",
        )
        for place in range(number)
    )
    groups = causes([prod], OperatorFilters(), names=2)
    assert [(group.reason, group.count) for group in groups] == [("Wrong", 1400), ("Worse", 700)]
    assert [row.name for group in groups for row in group.operators] == [
        "op0001", "op0002", "op0000", "op0003",
    ]  # fmt: skip


def test_a_cause_of_several_kinds_has_the_title_that_is_true_of_all(
    reader: Client, prod: Cluster
) -> None:
    for name, kind in (("a", "BundleDeployment"), ("b", "PlatformOperator")):
        make_operator(
            cluster=prod,
            name=name,
            kind=kind,
            health="Failed",
            finding="webhookdefinitions-unsupported-rukpak",
            message="webhookDefinitions are not supported",
        )
    general, own = "Webhooks not supported by PlatformOperator", "rukpak does not support bundles"
    assert [cause.title for cause in causes([prod], OperatorFilters(), names=2)] == [general]
    assert own in assert_page(reader.get(detail("a", "BundleDeployment"))).text
    Operator.objects.filter(name="b").delete()
    (alone,) = causes([prod], OperatorFilters(), names=2)
    assert alone.title.startswith(own)


def test_operators_of_one_variant_are_listed_under_its_title(reader: Client, prod: Cluster) -> None:
    for name, detail_of in (("a", "connection refused"), ("b", "b: connection refused")):
        make_operator(
            cluster=prod,
            name=name,
            kind="Subscription",
            health="Failed",
            finding="sub-catalog-list-failed",
            facts={"refused": detail_of},
        )
    own = "CatalogSource unhealthy: connection refused"
    assert [cause.title for cause in causes([prod], OperatorFilters(), names=2)] == [own]
    assert [text for _, text in causes_of([prod])[prod.pk]] == [own]
    assert assert_page(reader.get("/operators/", {"view": "all"})).text.count(own) == 2
    Operator.objects.filter(name="b").update(facts={"http": "HTTP/1.1"})
    general = "CatalogSource unhealthy: bundles can't be listed"
    assert [cause.title for cause in causes([prod], OperatorFilters(), names=2)] == [general]


def test_a_cause_that_is_not_known_shows_the_raw_message(reader: Client, prod: Cluster) -> None:
    make_failing_world(prod)
    page = assert_page(reader.get("/operators/", {"view": "cause"}))
    assert "No entry of the knowledge base matches this message" in page.text
    assert "the flux capacitor of strange lost its charge" in page.text


def test_a_cause_says_with_its_note_what_another_attempt_does(
    reader: Client, prod: Cluster
) -> None:
    make_operator(cluster=prod, name="quay", health="Failed", finding="po-waiting-install")
    text = assert_page(reader.get("/operators/", {"view": "cause"})).text
    assert text.count("The controller retries automatically.") == 1
    assert all(entry.note for entry in knowledge())


def test_the_resource_conflicts_of_several_operators_are_a_table(
    reader: Client, prod: Cluster, olivia: Any
) -> None:
    conflicts: dict[str, dict[str, str]] = {
        "kogito": {
            "object_kind": "CustomResourceDefinition", "object_name": "infras.example.com",
            "object_namespace": "", "release": "kogito", "owner": "bamoe",
        },
        "elastic": {
            "object_kind": "Role", "object_name": "leader", "object_namespace": "apps",
            "release": "elastic", "owner": "integrity",
        },
        "terminal": {
            "object_kind": "Namespace", "object_name": "tools", "object_namespace": "",
            "unowned_release": "terminal",
        },
    }  # fmt: skip
    for name, facts in conflicts.items():
        make_operator(
            cluster=prod, name=name, health="Failed", finding="helm-ownership-conflict", facts=facts
        )
    make_operator(cluster=prod, name="bamoe")
    make_operator(cluster=prod, kind="Subscription", namespace="apps", name="bamoe")
    make_operator(cluster=make_cluster(name="edge"), name="integrity")
    page = assert_page(reader.get("/operators/", {"view": "cause", "cluster": "prod"}))
    assert "/operators/prod/PlatformOperator/-/bamoe" in page.links, "the other half of the choice"
    assert not any(link.endswith(("/integrity", "/apps/bamoe")) for link in page.links)
    assert "All 3 with this cause" in page.text
    assert page.text.index("Remove 3 PlatformOperators") < page.text.index("Retry 3 Platform")
    assert [text for tag, text in page.texts if tag == "tr"] == [
        "Object Owner Wanted by To keep the object with its owner",
        "CustomResourceDefinition infras.example.com release bamoe kogito on prod Remove kogito",
        "Namespace tools no release terminal on prod Remove terminal",
        "Role leader in apps release integrity elastic on prod Remove elastic",
    ]
    assert page.links.count("/operators/prod/PlatformOperator/-/kogito") == 1
    assert "For example" not in page.text
    summary = assert_page(reader.get("/", {"cluster": "prod"}))
    assert "Choose one of two operators" in summary.text
    assert "Retry all" not in summary.text
    reader.force_login(olivia)
    step = "/operators/?view=cause&cluster=prod&kind=PlatformOperator"
    anchor = "&finding=helm-ownership-conflict#cause-helm-ownership-conflict"
    assert step + anchor in assert_page(reader.get("/", {"cluster": "prod"})).links
    choice = assert_page(reader.get(step))
    assert "/operators/prod/PlatformOperator/-/kogito/remove" in choice.links
    Operator.objects.exclude(name="kogito").delete()
    alone = assert_page(reader.get("/operators/", {"view": "cause", "q": ""}))
    assert "table" not in alone.tags, "its sentence says it"
    assert "infras.example.com, which exists already and belongs to the release bamoe" in alone.text


def test_a_shared_remedy_is_open_and_its_commands_name_each_operator(
    reader: Client, prod: Cluster
) -> None:
    for number in range(2):
        make_failing(prod, f"mode-{number}", MODE)
    response = reader.get("/operators/")
    page = assert_page(response)
    assert (
        "kubectl delete platformoperator mode-0 kubectl delete platformoperator mode-1" in page.text
    )
    fold = re.search(
        r"<details[^>]* id=\"fix-allnamespaces-required\"[^>]*>", response.content.decode()
    )
    assert fold is not None
    assert " open" in fold[0]


def test_each_operator_of_a_cause_has_the_remedy_of_its_own_variant(
    reader: Client, prod: Cluster
) -> None:
    other = OWNED.replace('"other"', '"third"')
    free = OWNED.split("annotation validation error")[0] + (
        'annotation validation error: missing key "meta.helm.sh/release-name": must be set to "{0}"'
    )
    for name, message in (("apple", OWNED), ("berry", other), ("cedar", free)):
        make_failing(prod, name, message, "InstallFailed")
    text = assert_page(reader.get("/operators/?view=cause")).text
    owned, _, unowned = text.partition("For cedar:")
    assert "For apple, berry:" in owned
    assert "kubectl get platformoperator other kubectl get platformoperator third" in owned
    assert "To keep other, delete the PlatformOperator apple." in owned
    assert "To keep third, delete the PlatformOperator berry." in owned
    assert "cedar" not in owned.partition("For apple")[2]
    assert "kubectl get role leader-election -n openshift-operators -o yaml" in unowned
    assert "If nobody needs the object, delete it." in unowned


def test_the_commands_of_a_cause_are_copied_for_all_its_operators(
    reader: Client, prod: Cluster
) -> None:
    for number in range(26):
        make_failing(prod, f"mode-{number:02}", MODE)
    response = reader.get("/operators/?view=cause")
    text = assert_page(response).text
    assert text.count("kubectl delete platformoperator mode-") == 26
    assert "Show all 26 commands" in text
    assert 'aria-label="Copy 26 commands"' in response.content.decode()
    assert "The commands are for the first" not in text


def test_the_commands_of_several_clusters_say_how_many_they_are_for(
    reader: Client, prod: Cluster
) -> None:
    for cluster in (prod, make_cluster(name="stage")):
        for number in range(3):
            make_failing(cluster, f"mode-{number}", MODE)
    text = assert_page(reader.get("/operators/?view=cause")).text
    assert "The commands are for the first 3 of 6 operators. Choose one cluster to get" in text


def test_the_commands_of_several_clusters_name_their_cluster(reader: Client, prod: Cluster) -> None:
    Cluster.objects.update(context="admin@prod")
    for cluster in (prod, make_cluster(name="stage", context="")):
        make_failing(cluster, "mode", MODE)
    text = assert_page(reader.get("/operators/?view=cause")).text
    assert "kubectl --context=admin@prod delete platformoperator mode" in text
    assert "kubectl delete platformoperator mode # on cluster stage" in text
    text = assert_page(reader.get("/operators/?view=cause&cluster=prod")).text
    assert "kubectl delete platformoperator mode" in text


def test_no_page_has_a_placeholder_in_a_remedy(reader: Client, prod: Cluster) -> None:
    """Of every cause of the knowledge base, with the facts of each of its samples."""
    for entry in knowledge():
        for kind in entry.kinds:
            for number, sample in enumerate(entry.samples):
                match = find(sample, kind=kind)
                assert match is not None
                make_operator(
                    cluster=prod,
                    kind="ClusterExtension" if kind == "ClusterExtension" else "Subscription",
                    name=f"{entry.id}-{kind.lower()}-{number}",
                    namespace="" if kind == "ClusterExtension" else "prod",
                    health="Failed",
                    finding=match.entry.id,
                    facts=match.facts,
                )
    for cluster in ("prod", ""):
        page = assert_page(reader.get("/operators/", {"view": "cause", "cluster": cluster}))
        assert "kubectl" in page.text
        assert not re.findall(r"<[a-z-]+>", page.text)


def test_when_nothing_failed_the_table_is_the_default(reader: Client, prod: Cluster) -> None:
    make_operator(cluster=prod, name="fine")
    page = assert_page(reader.get("/operators/"))
    assert names(page) == ["fine"]
    calm = assert_page(reader.get("/operators/", {"view": "cause"}))
    assert "Nothing needs attention" in calm.text


def test_without_a_cluster_no_view_says_that_all_is_well(reader: Client) -> None:
    for view in ("cause", "all"):
        page = assert_page(reader.get("/operators/", {"view": view}))
        assert "No cluster yet" in page.text
        assert "Nothing needs attention" not in page.text


# --- table, filters, pages ---------------------------------------------------------------------


def test_the_table_is_worst_first_and_says_why(reader: Client, prod: Cluster) -> None:
    make_failing_world(prod, modes=1, webhooks=0)
    page = assert_page(reader.get("/operators/", {"view": "all"}))
    assert names(page) == ["collision", "mode-00", "strange", "coming", "fine"]
    assert "AllNamespaces install mode required by PlatformOperator" in page.text
    assert "1.1.0" in page.text, "the upgrade"


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"q": "mode flux"}, []),
        ({"q": "flux"}, ["strange"]),
        ({"health": "attention"}, ["collision", "mode-00", "strange"]),
        ({"health": "Healthy"}, ["fine"]),
        ({"finding": "allnamespaces-required"}, ["mode-00"]),
        ({"finding": "-", "health": "attention"}, ["strange"]),
        ({"reason": "InstallFailed"}, ["collision", "strange"]),
        ({"package": "fine"}, ["fine"]),
        ({"namespace": "-", "q": "fine"}, ["fine"]),
        ({"namespace": "default"}, []),
        ({"kind": "ClusterExtension"}, []),
        ({"kind": "Nonsense"}, []),
        ({"cluster": "elsewhere"}, []),
        ({"q": "' OR 1=1 --"}, []),
        ({"q": "%_"}, []),
    ],
)
def test_filters_narrow(
    reader: Client, prod: Cluster, params: dict[str, str], expected: list[str]
) -> None:
    make_failing_world(prod, modes=1, webhooks=0)
    page = assert_page(reader.get("/operators/", {"view": "all", **params}))
    assert names(page) == expected
    if not expected:
        assert "No results found" in page.text
        assert "Clear all filters" in page.text


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"health": "Sick"}, "health=Sick is no health"),
        ({"sort": "colour"}, "sort=colour is not possible"),
        ({"view": "map"}, "view=map is not possible"),
        ({"q": "a\x07b"}, "The filter q has characters"),
        ({"package": "x" * 1025}, "The filter package"),
    ],
)
def test_what_can_not_be_read_is_refused_in_a_sentence(
    reader: Client, prod: Cluster, params: dict[str, str], said: str
) -> None:
    make_operator(cluster=prod)
    assert said in assert_page(reader.get("/operators/", params), 400).text


def test_a_filter_in_use_can_be_removed_alone(reader: Client, prod: Cluster) -> None:
    make_failing_world(prod)
    page = assert_page(
        reader.get("/operators/", {"view": "all", "health": "attention", "q": "mode"})
    )
    assert "Health needs attention" in page.text
    assert "?view=all&health=attention" in page.links
    assert "?view=all&q=mode" in page.links


def test_a_hidden_filter_survives_another_search(reader: Client, prod: Cluster) -> None:
    make_failing_world(prod)
    text = reader.get("/operators/", {"finding": "allnamespaces-required"}).content.decode()
    hidden = '<input type="hidden" name="finding" value="allnamespaces-required">'
    assert hidden in " ".join(text.split())


@pytest.mark.parametrize("sort", ["name", "-name", "since", "-since", "health", "-version", ""])
def test_pages_neither_repeat_nor_lose_a_row(reader: Client, prod: Cluster, sort: str) -> None:
    for number in range(3 * PAGE_SIZE):
        make_operator(
            cluster=prod,
            name=f"op-{number:03}",
            version=str(number % 3),
            health=("Failed", "Healthy", "Unknown")[number % 3],
            since=timezone.now() - timedelta(minutes=number % 5),
        )
    Operator.objects.filter(name="op-007").update(since=None)
    seen: list[str] = []
    link = f"?view=all&sort={sort}"
    for number in (1, 2, 3):
        page = assert_page(reader.get("/operators/" + link))
        seen += names(page)
        if number == 3:
            assert f"{2 * PAGE_SIZE + 1} to {3 * PAGE_SIZE} of {3 * PAGE_SIZE}" in page.text
            break
        link = next(link for link in page.links if link.endswith(f"&page={number + 1}"))
    assert sorted(seen) == [f"op-{number:03}" for number in range(3 * PAGE_SIZE)]
    if sort.endswith("name"):
        assert seen == sorted(seen, reverse=sort == "-name")


def test_an_empty_cluster_leads_to_the_catalog(reader: Client, prod: Cluster) -> None:
    page = assert_page(reader.get("/operators/"))
    assert "No operators found" in page.text
    assert "/software/" in page.links


def test_without_a_cluster_it_leads_to_the_overview(reader: Client) -> None:
    assert "No cluster yet" in assert_page(reader.get("/operators/")).text


def test_a_filter_under_htmx_gives_the_fragment_and_a_clean_address(
    reader: Client, prod: Cluster
) -> None:
    make_failing_world(prod)
    response = reader.get(
        "/operators/", {"view": "all", "q": "mode", "health": ""}, headers={"HX-Request": "true"}
    )
    assert_fragment(response)
    assert response["HX-Push-Url"] == "/operators/?view=all&q=mode"


def test_lists_cost_at_most_twelve_queries(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    make_failing_world(prod, modes=40, webhooks=20)
    for view in ("all", "cause"):
        with django_assert_max_num_queries(12):
            reader.get("/operators/", {"view": view})


def test_hostile_names_and_messages_are_escaped_in_both_views(
    reader: Client, prod: Cluster
) -> None:
    make_operator(
        cluster=prod,
        name=EVIL,
        health="Failed",
        reason=EVIL,
        message=EVIL,
        package=EVIL,
        version=EVIL,
    )
    for view in ("all", "cause"):
        page = assert_page(reader.get("/operators/", {"view": view, "q": EVIL}))
        assert "img" not in page.tags[page.tags.index("main") :]


def test_every_path_has_its_row_its_namespace_and_its_available_version(
    reader: Client, prod: Cluster
) -> None:
    make_pending_approval(prod)
    make_orphan(prod)
    make_operator(cluster=prod, name="fine")
    page = assert_page(reader.get("/operators/", {"view": "all", "sort": "path"}))
    assert names(page) == ["mongodb.v0.3.0", "fine", "grafana", "loki"]
    assert "ClusterServiceVersion Without Subscription" in page.text
    row = "loki Subscription openshift-operators Healthy 2.0.0 stable Automatic"
    assert f"{row} community-operators" in page.text
    assert "1.0.0 1.1.0 needs approval" in page.text
    only = assert_page(reader.get("/operators/", {"view": "all", "kind": "Subscription"}))
    assert names(only) == ["grafana", "loki"]
    unscoped = assert_page(reader.get("/operators/", {"view": "all", "namespace": "-"}))
    assert names(unscoped) == ["fine"]


def test_what_is_slow_or_unsteady_is_labelled(reader: Client, prod: Cluster) -> None:
    now = timezone.now()
    make_operator(cluster=prod, name="fresh", health="Installing", reason="InstallPending")
    make_operator(
        cluster=prod, name="slow", health="Installing", reason="InstallPending",
        since=now - timedelta(hours=1),
    )  # fmt: skip
    unsteady = make_operator(cluster=prod, name="unsteady")
    same_name = make_subscription(prod, "unsteady")
    for number in range(6):
        before, after = ("Healthy", "Failed") if number % 2 == 0 else ("Failed", "Healthy")
        make_transition(
            subject=unsteady, type="Health", from_status=before, to_status=after,
            at=now - timedelta(hours=8 - number),
        )  # fmt: skip
    make_transition(subject=same_name, type="Health", from_status="Failed", to_status="Healthy")
    text = assert_page(reader.get("/operators/", {"view": "all"})).text
    assert text.count("Longer than usual") == 1
    assert text.count("Flapping 6 times in 24 h") == 1


def test_the_namespace_filter_offers_what_there_is(reader: Client, prod: Cluster) -> None:
    make_subscription(prod)
    make_orphan(prod)
    page = assert_page(reader.get("/operators/", {"view": "all", "namespace": "legacy"}))
    assert "Namespace: all legacy (1) openshift-operators (1)" in page.text
    assert names(page) == ["mongodb.v0.3.0"]


# --- one operator ------------------------------------------------------------------------------


def test_a_failed_operator_says_what_broke_where_and_what_to_type(
    reader: Client, prod: Cluster
) -> None:
    make_failing_world(prod, modes=3)
    page = assert_page(reader.get(detail("mode-00")))
    assert "AllNamespaces install mode required by PlatformOperator" in page.text
    assert "kubectl delete platformoperator mode-00" in page.text
    assert "Retrying won't fix this: the same bundle gets the same answer." in page.text
    assert "2 more with this cause" in page.text
    assert "Failed UnpackFailed for 2 h AllNamespaces" in page.text
    assert "BundleDeployment failed UnpackFailed failed here" in page.text
    assert "Install progress" in page.text
    text = reader.get(detail("mode-00")).content.decode()
    assert text.count('<details class="olm-chain-body"') == 2
    assert 'id="chain-2" open' in text, "the broken link is open"
    assert 'id="chain-1" open' not in text


def test_its_timeline_tells_the_time_in_each_state(reader: Client, prod: Cluster) -> None:
    make_failing(prod, "mode-00", MODE)
    page = assert_page(reader.get(detail("mode-00")))
    assert "Installing 14 s" in page.text
    assert "Failed 2 h so far" in page.text


def test_a_health_it_had_when_first_seen_began_when_its_conditions_say(
    reader: Client, prod: Cluster
) -> None:
    since = timezone.now() - timedelta(hours=3, minutes=1)
    fields: dict[str, Any] = {
        "health": "NeedsApproval",
        "reason": "RequiresApproval",
        "since": since,
    }
    found = make_operator(cluster=prod, name="found", **fields)
    make_transition(subject=found, type="Health", from_status="", to_status="NeedsApproval")
    assert "Needs approval 3 h 1 min so far" in assert_page(reader.get(detail("found"))).text
    moved = make_operator(cluster=prod, name="moved", **fields)
    change = {"type": "Health", "from_status": "Installing", "to_status": "NeedsApproval"}
    make_transition(subject=moved, at=timezone.now() - timedelta(minutes=5), **change)
    text = assert_page(reader.get(detail("moved"))).text
    assert "Needs approval 5 min" in text
    assert "RequiresApproval for 5 min" in text, "the head and the timeline agree"


def test_the_health_lasts_equally_long_at_the_top_and_in_the_timeline(
    reader: Client, prod: Cluster
) -> None:
    now = timezone.now()
    row = make_operator(
        cluster=prod, name="late", health="Healthy", reason="", since=now - timedelta(minutes=9)
    )
    for minutes, status in ((20, "Upgrading"), (5, "Healthy")):
        at = now - timedelta(minutes=minutes)
        make_transition(subject=row, type="Health", from_status="X", to_status=status, at=at)
    text = assert_page(reader.get(detail("late"))).text
    assert "for 9 min Installed and working" in text
    assert "Upgrading 11 min" in text
    assert "Healthy 9 min" in text.split("Upgrading 11 min")[1]


def test_the_newest_version_is_offered_no_upgrade_and_its_first_one_is_the_starting_version(
    client: Client, olivia: Any, prod: Cluster
) -> None:
    client.force_login(olivia)
    fields: dict[str, Any] = {
        "cluster": prod,
        "kind": "Subscription",
        "namespace": "apps",
        "name": "etcd",
        "version": "1.2.0",
        "version_asked": "etcd.v1.0.1",
        "details": {"installed_csv": "etcd.v1.2.0", "starting_csv": "etcd.v1.0.1"},
    }
    row = make_operator(**fields)
    url = detail("etcd", "Subscription", "apps")
    page = assert_page(client.get(url))
    text = page.text
    facts = dict(page.facts_below("Version and catalog"))
    assert facts["Starting version"] == "etcd.v1.0.1"
    assert "Starting CSV" not in facts
    assert "Requested version" not in text
    assert "Change channel or approval" in text
    row.upgrade = "1.3.0"
    row.save()
    assert "Change channel or approval" not in assert_page(client.get(url)).text


@pytest.mark.parametrize(
    ("kind", "expected"), [("PlatformOperator", "from-source"), ("ClusterExtension", "from-v1")]
)
def test_only_catalogs_that_its_path_reads_are_named(
    reader: Client, prod: Cluster, kind: str, expected: str
) -> None:
    for name, source in (("from-v1", "ClusterCatalog"), ("from-source", "CatalogSource")):
        catalog = make_catalog(cluster=prod, name=name, source_kind=source)
        make_package(name="etcd", catalog=catalog, display_name="")
    make_operator(cluster=prod, kind=kind, name="etcd", package="etcd", catalog="")
    page = assert_page(reader.get(f"/operators/prod/{kind}/-/etcd"))
    assert f"Catalog – (the package is in {expected}) Version" in page.text
    assert f"/software/prod/{expected}/etcd" in page.links


def test_an_unknown_message_is_shown_raw(reader: Client, prod: Cluster) -> None:
    make_failing_world(prod)
    page = assert_page(reader.get(detail("strange")))
    assert "No entry of the knowledge base matches this message" in page.text
    assert "the flux capacitor of strange lost its charge" in page.text


def test_a_healthy_one_links_its_package_and_shows_its_upgrade(
    reader: Client, prod: Cluster
) -> None:
    make_package(catalog=make_catalog(cluster=prod), name="fine", display_name="Fine Thing")
    make_operator(cluster=prod, name="fine", catalog="redhat-operators", upgrade="2.0.0")
    page = assert_page(reader.get(detail("fine")))
    assert "Installed and working" in page.text
    assert "/software/prod/redhat-operators/fine" in page.links
    assert "2.0.0 available" in page.text


def test_a_package_that_no_catalog_holds_is_said_to_be_missing(
    reader: Client, prod: Cluster
) -> None:
    make_operator(cluster=prod, name="lost")
    assert "No catalog of this cluster" in assert_page(reader.get(detail("lost"))).text


def test_an_object_without_conditions_says_that_its_controller_is_silent(
    reader: Client, prod: Cluster
) -> None:
    make_operator(cluster=prod, name="new", health="Installing", reason="")
    page = assert_page(reader.get(detail("new")))
    assert "its controller has not reported any" in page.text


def test_an_open_action_is_linked(reader: Client, prod: Cluster) -> None:
    make_operator(cluster=prod, name="etcd")
    action = make_action(prod, "etcd")
    page = assert_page(reader.get(detail("etcd")))
    assert f"/activity/actions/{action.pk}" in page.links


def test_a_namespaced_one_has_its_namespace_in_its_address(reader: Client, prod: Cluster) -> None:
    make_operator(cluster=prod, name="etcd", kind="Subscription", namespace="apps")
    page = assert_page(reader.get("/operators/", {"view": "all"}))
    assert "/operators/prod/Subscription/apps/etcd" in page.links
    assert_page(reader.get(detail("etcd", "Subscription", "apps")))
    assert_page(reader.get(detail("etcd", "Subscription", "-")), 404)


@pytest.mark.parametrize(
    "path", [detail("nope"), "/operators/nope/PlatformOperator/-/x", detail("x", "Nonsense"),
             "/operators/prod/PlatformOperator/-/%F0%9F%92%A9"],
)  # fmt: skip
def test_what_is_not_there_is_not_found_in_a_sentence(
    reader: Client, prod: Cluster, path: str
) -> None:
    assert "There is no" in assert_page(reader.get(path), 404).text


def test_odd_conditions_and_hostile_texts_harm_no_page(reader: Client, prod: Cluster) -> None:
    conditions = [
        {"type": EVIL, "status": EVIL, "reason": EVIL, "message": EVIL, "lastTransitionTime": EVIL},
        {"type": "Installed"},
    ]
    operator = make_operator(
        cluster=prod, name="odd", health="Failed", reason=EVIL, message=EVIL * 40,
        conditions=conditions, finding="no-such-finding", bundle=EVIL, channel=EVIL,
    )  # fmt: skip
    Transition.objects.create(
        cluster=prod, kind=operator.kind, name="odd", type=EVIL, to_status=EVIL[:20], message=EVIL
    )
    page = assert_page(reader.get(detail("odd")))
    assert "img" not in page.tags[page.tags.index("main") :]


def test_its_poll_costs_little_and_its_page_at_most_fourteen_queries(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    make_failing_world(prod)
    with django_assert_max_num_queries(14):
        response = reader.get(detail("mode-00"))
    rev = response.content.decode().split("rev=")[1][:18]
    with django_assert_max_num_queries(5):  # session, user, operator, action, clusters
        same = reader.get(detail("mode-00"), {"rev": rev}, headers={"HX-Request": "true"})
    assert same.status_code == 204
