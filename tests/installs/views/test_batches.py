"""Bulk install in pages: ticks, verdicts, review, one confirmation, progress, Stop."""

from typing import Any

import pytest
from django.test import Client

from catalogs.models import Bundle, Catalog, PredictionRun
from installs.actions import bulk
from installs.models import Action, ActionBatch
from olmweb.sandbox.cluster import Sandbox
from tests.factories import (
    make_catalog,
    make_cluster,
    make_component,
    make_operator,
    make_package,
    make_prediction,
)
from tests.worlds.html import assert_fragment, assert_page

pytestmark = pytest.mark.django_db
URL = "/bulk-install/"
HTMX = {"HX-Request": "true"}
OF = {"of": "prod/PlatformOperator", "cluster": "prod", "path": "PlatformOperator"}


@pytest.fixture
def catalog() -> Catalog:
    """Of `prod`: acme and brisk are called installable, crane is not, delta is there already."""
    cluster = make_cluster(name="prod", context="sandbox")
    catalog = make_catalog(cluster=cluster, package_count=4)
    for name in ("acme", "brisk", "crane", "delta"):
        package = make_package(name=name, display_name=name, catalog=catalog)
        rule = "po-install-mode" if name == "crane" else ""
        make_prediction(
            bundle=package.bundles.get(version="1.1.0"),
            rule=rule,
            sentence="It supports OwnNamespace only." if rule else "",
        )
    make_operator(cluster=cluster, name="delta", package="delta")
    PredictionRun.objects.create(
        catalog=catalog, cluster=cluster, revision=1, rules_version=1, inputs="h", counts={}
    )
    return catalog


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


def keys(*names: str) -> list[str]:
    return [f"prod/redhat-operators/{name}" for name in names]


def form(*names: str, **more: Any) -> dict[str, Any]:
    listed = keys(*(names or ("acme", "brisk")))
    return {**OF, "package": listed, "pick": listed, **more}


def review(client: Client, *names: str, **more: Any) -> Any:
    return client.post(URL, form(*names, step="review", **more))


def confirmation(response: Any, *names: str, **more: Any) -> dict[str, Any]:
    context = response.context
    sent = {"key": context["key"], "reviewed": context["reviewed"], "step": "confirm"}
    return form(*names, **(sent | more))


def ticks(response: Any) -> dict[str, bool]:
    return {row["candidate"].name: row["ticked"] for row in response.context["rows"]}


# --- selecting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["cards", "table"])
def test_who_may_install_ticks_packages_in_the_list_and_others_see_no_ticks(
    client: Client, catalog: Catalog, olivia: Any, bob: Any, view: str
) -> None:
    client.force_login(bob)
    assert "Install selected" not in assert_page(client.get(f"/software/?view={view}")).text
    client.force_login(olivia)
    response = client.get(f"/software/?view={view}")
    page = assert_page(response)
    assert "Install selected" in page.text
    assert 'form="bulk" name="package"' in " ".join(response.content.decode().split())
    assert keys("acme")[0] in response.content.decode()


def test_the_audit_offers_ticks_for_installable_packages_of_a_cluster_only(
    writer: Client, catalog: Catalog
) -> None:
    response = writer.get("/audit/?path=platformoperator&cluster=prod")
    assert_page(response)
    text = response.content.decode()
    assert f'value="{keys("acme")[0]}"' in text
    assert f'value="{keys("crane")[0]}"' not in text
    assert "Install selected" not in writer.get("/audit/?cluster=-").content.decode()


def test_strangers_sign_in_first_and_viewers_are_refused(
    client: Client, catalog: Catalog, bob: Any, settings: Any
) -> None:
    settings.PUBLIC_READ = True
    assert client.get(URL)["Location"].startswith("/login/?next=")
    assert client.post(URL, form()).status_code == 302
    client.force_login(bob)
    assert client.get(URL).status_code == 403
    assert client.post(URL, form()).status_code == 403
    assert not Action.objects.exists()


def test_the_form_begins_with_the_method_that_installs_most_of_the_selection(
    writer: Client, catalog: Catalog
) -> None:
    """As PlatformOperators two of the four; as ClusterExtensions crane, too. Of two that install
    equally many the one whose verdicts are known is first."""
    cluster = catalog.cluster
    assert cluster
    cluster.kinds = {**cluster.kinds, "ClusterExtension": {"state": "served", "version": "v1"}}
    cluster.save()
    chosen = {"package": keys("acme", "brisk")}
    assert writer.get(URL, chosen).context["path"] == "PlatformOperator", "the verdicts are known"
    response = writer.get(URL, {"package": keys("acme", "brisk", "crane", "delta")})
    assert response.context["path"] == "ClusterExtension"
    assert ticks(response) == {"acme": True, "brisk": True, "crane": True, "delta": False}
    requested = writer.get(URL, {"package": keys("crane"), "path": "PlatformOperator"})
    assert requested.context["path"] == "PlatformOperator"


def test_the_form_asks_no_cluster_and_leaves_what_would_fail_or_is_there_unticked(
    writer: Client, catalog: Catalog
) -> None:
    response = writer.get(URL, {"package": keys("acme", "brisk", "crane", "delta")})
    page = assert_page(response)
    assert ticks(response) == {"acme": True, "brisk": True, "crane": False, "delta": False}
    assert "It supports OwnNamespace only." in page.text
    assert "Already installed as PlatformOperator delta." in page.text
    assert "2 of 4 selected, at most 50 at once" in page.text
    assert "Not validated yet" in page.text
    assert "no-store" in response["Cache-Control"]


def test_each_row_names_its_namespace_before_and_after_the_review(
    writer: Client, catalog: Catalog
) -> None:
    catalog.source_kind, catalog.namespace = Catalog.SourceKind.CATALOG_SOURCE, "marketplace"
    catalog.save()
    prod = catalog.cluster
    assert prod is not None
    prod.kinds["Subscription"] = {"state": "served", "version": "v1alpha1"}
    prod.save()
    make_component(
        cluster=prod, kind="CatalogSource", namespace="marketplace", name=catalog.name
    )  # fmt: skip
    make_component(cluster=prod, kind="OperatorGroup", namespace="operators", name="global")
    Bundle.objects.filter(name="brisk.v1.1.0").update(suggested_namespace="brisk-system")
    for name, target in (("acme", "all"), ("brisk", "own")):
        bundle = Bundle.objects.get(name=f"{name}.v1.1.0")
        make_prediction(bundle=bundle, cluster=prod, path="Subscription", target=target)
    where = {"cluster": "prod", "path": "Subscription", "of": "prod/Subscription"}
    for values, expected in (
        ({}, {"acme": "operators", "brisk": "brisk-system"}),
        ({"namespace": "team"}, {"acme": "team", "brisk": "team"}),
        ({"targets": "own"}, {"acme": "acme", "brisk": "brisk-system"}),
    ):
        chosen = {"package": keys("acme", "brisk"), "pick": keys("acme", "brisk")} | where | values
        shown = writer.get(URL, chosen)
        assert namespaces(shown) == expected
        assert "Namespace" in assert_page(shown).text
        reviewed = writer.post(URL, chosen | {"step": "review"})
        assert {row["item"].plan is not None for row in reviewed.context["rows"]} == {True}
        assert namespaces(reviewed) == expected


def namespaces(response: Any) -> dict[str, str]:
    return {row["candidate"].name: row["namespace"] for row in response.context["rows"]}


def test_nothing_selected_and_nowhere_to_install_have_a_sentence(
    writer: Client, catalog: Catalog
) -> None:
    assert "Nothing is selected." in assert_page(writer.get(URL)).text
    nowhere = writer.get(URL, {"package": "prod/redhat-operators/nope"})
    assert "No cluster can install the selected packages" in assert_page(nowhere).text


def test_more_than_the_cap_is_said_before_and_refused_after(
    writer: Client, catalog: Catalog
) -> None:
    names = [f"more-{number:02}" for number in range(bulk.CAP + 2)]
    for name in names:
        make_package(name=name, catalog=catalog)
    page = assert_page(writer.get(URL, {"package": keys(*names)}), 422)
    assert "These are 52 packages, and at most 50 can be installed at once." in page.text
    assert "Deselect 2 of them" in page.text
    assert "at most 50" in assert_page(review(writer, *names), 422).text
    assert not Action.objects.exists()


# --- review and confirm --------------------------------------------------------------------------


def test_one_review_shows_all_manifests_and_one_confirmation_makes_an_action_each(
    writer: Client, catalog: Catalog, sandbox: Sandbox
) -> None:
    reviewed = review(writer)
    page = assert_page(reviewed)
    assert page.text.count("kind: PlatformOperator") == 2
    assert page.tags.count("details") >= 2
    assert "Cluster prod would accept the installation of 2 packages." in page.text
    assert not Action.objects.exists()
    sent = confirmation(reviewed)
    confirmed = writer.post(URL, sent)
    batch = ActionBatch.objects.get()
    assert confirmed.status_code == 303
    assert confirmed["Location"] == f"/activity/bulk-installs/{batch.pk}"
    assert {one.name for one in batch.actions.all()} == {"acme", "brisk"}
    again = writer.post(URL, sent)
    assert again["Location"] == confirmed["Location"]
    assert (ActionBatch.objects.count(), Action.objects.count()) == (1, 2)


def test_the_outcome_of_a_review_comes_first_and_has_the_focus(
    writer: Client, catalog: Catalog, sandbox: Sandbox
) -> None:
    html = review(writer).content.decode()
    assert html.index("data-focus") < html.index('value="confirm"') < html.index('name="pick"')
    assert html.count("data-focus") == 1


def test_htmx_swaps_the_form_and_is_sent_to_the_progress_page(
    writer: Client, catalog: Catalog, sandbox: Sandbox
) -> None:
    reviewed = writer.post(URL, form(step="review"), headers=HTMX)
    assert_fragment(reviewed)
    confirmed = writer.post(URL, confirmation(reviewed), headers=HTMX)
    assert confirmed["HX-Redirect"] == f"/activity/bulk-installs/{ActionBatch.objects.get().pk}"


def test_of_what_was_reviewed_less_may_be_confirmed_and_nothing_else(
    writer: Client, catalog: Catalog, sandbox: Sandbox
) -> None:
    reviewed = review(writer)
    more = confirmation(reviewed, "acme", "brisk", "crane")
    assert writer.post(URL, more).status_code == 403
    assert writer.post(URL, confirmation(reviewed, reviewed="forged")).status_code == 403
    other = confirmation(reviewed, cluster="elsewhere")
    assert writer.post(URL, other).status_code == 403
    assert not Action.objects.exists()
    less = writer.post(URL, confirmation(reviewed, "acme"))
    assert less.status_code == 303
    assert Action.objects.get().name == "acme"


def test_what_the_cluster_refuses_is_unticked_with_its_sentence(
    client: Client, catalog: Catalog, tess: Any, sandbox: Sandbox
) -> None:
    client.force_login(tess)
    response = review(client)
    page = assert_page(response, 422)
    assert "tess may not install this on cluster prod" in page.text
    assert "None of these can be installed" in page.text
    assert ticks(response) == {"acme": False, "brisk": False}


def test_what_can_not_be_part_of_it_is_kept_with_the_batch(
    writer: Client, catalog: Catalog, sandbox: Sandbox
) -> None:
    names = ("acme", "nope")
    reviewed = review(writer, *names)
    assert ticks(reviewed) == {"acme": True, "nope": False}
    confirmed = writer.post(URL, confirmation(reviewed, *names))
    page = assert_page(writer.get(confirmed["Location"]))
    assert "Not included nope : Cluster prod has no catalog redhat-operators with it." in page.text


def test_another_path_ticks_by_its_own_verdicts_and_asks_its_own_fields_once(
    writer: Client, catalog: Catalog
) -> None:
    cluster = catalog.cluster
    assert cluster is not None
    served = {"state": "served", "version": "v1"}
    cluster.kinds = {**cluster.kinds, "ClusterExtension": served}
    cluster.save()
    crane = catalog.packages.get(name="crane").bundles.get(version="1.1.0")
    make_prediction(bundle=crane, path="ClusterExtension")
    listed = {"package": keys("acme", "crane")}
    response = writer.get(URL, {**listed, "path": "ClusterExtension"})
    assert ticks(response) == {"acme": True, "crane": True}
    assert 'name="namespace"' in response.content.decode()
    changed = {**OF, **listed, "pick": keys("acme"), "path": "ClusterExtension"}
    wrong = writer.post(URL, {**changed, "namespace": "Not Valid", "step": "review"})
    page = assert_page(wrong, 422)
    assert "is no name of a namespace" in page.text
    assert ticks(wrong) == {"acme": True, "crane": True}, "ticks of another path do not count"


# --- progress and stop ---------------------------------------------------------------------------


@pytest.fixture
def batch(writer: Client, catalog: Catalog, sandbox: Sandbox) -> ActionBatch:
    names = ("acme", "brisk", "crane")
    writer.post(URL, confirmation(review(writer, *names), *names))
    return ActionBatch.objects.get()


def test_the_progress_page_shows_each_and_polls_until_all_have_ended(
    writer: Client, batch: ActionBatch
) -> None:
    url = f"/activity/bulk-installs/{batch.pk}"
    page = assert_page(writer.get(url))
    assert "0 of 3 finished, 0 in progress, 3 queued." in page.text
    assert "Queued" in page.text
    rev = writer.get(url).context["rev"]
    assert writer.get(f"{url}?rev={rev}", headers=HTMX).status_code == 204
    batch.actions.filter(name="acme").update(state="failed", outcome="It broke.")
    assert "It broke." in assert_fragment(writer.get(f"{url}?rev={rev}", headers=HTMX)).text
    batch.actions.update(state="succeeded")
    last = writer.get(f"{url}?rev={rev}", headers=HTMX)
    assert "All 3 have finished." in assert_fragment(last, 286).text
    action = Action.objects.first()
    assert action is not None
    assert url in assert_page(writer.get(f"/activity/actions/{action.pk}")).links
    assert url in assert_page(writer.get("/activity/")).links


def test_stop_stops_what_has_not_begun_and_says_so(
    client: Client, writer: Client, batch: ActionBatch, bob: Any
) -> None:
    url = f"/activity/bulk-installs/{batch.pk}"
    stop = f"{url}/stop"
    batch.actions.filter(name="acme").update(begun_at="2026-01-01T00:00:00Z")
    page = assert_page(writer.get(url))
    assert "Stop remaining actions" in page.text
    assert writer.get(stop).status_code == 405
    told = assert_page(writer.post(stop, follow=True)).text
    assert "Stopped: 2 not applied. Started actions continue." in told
    assert "olivia stopped it" in told
    assert "Stop what" not in told
    assert "No action was left to stop" in assert_page(writer.post(stop, follow=True)).text
    client.force_login(bob)
    assert client.post(stop).status_code == 403
    client.logout()
    assert client.post(stop)["Location"].startswith("/login/")


def test_a_viewer_sees_the_progress_and_why_there_is_no_stop(
    client: Client, batch: ActionBatch, bob: Any
) -> None:
    client.force_login(bob)
    page = assert_page(client.get(f"/activity/bulk-installs/{batch.pk}"))
    assert "Your role may not change clusters" in page.text
    assert "Stop" not in page.text
    assert client.get("/activity/bulk-installs/999").status_code == 404
