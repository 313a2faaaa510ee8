"""Forms of the other paths and of changes: every field is there; no cluster is asked."""

import re
from typing import Any

import pytest
from django.test import Client

from catalogs.models import Bundle, Catalog
from installs.models import Action, Component, Operator
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
KINDS = {
    kind: {"state": "served", "version": version}
    for kind, version in (
        ("PlatformOperator", "v1alpha1"),
        ("ClusterExtension", "v1"),
        ("Subscription", "v1alpha1"),
    )
}


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


def test_each_path_has_its_fields_and_its_manifests(writer: Client) -> None:
    prod = make_cluster(kinds=KINDS)
    catalog = make_catalog(cluster=prod, source_kind=Catalog.SourceKind.CLUSTER_CATALOG)
    make_package(catalog=catalog)
    make_component(
        cluster=prod, kind="CatalogSource", name=catalog.name, namespace="openshift-marketplace"
    )
    address = "/software/prod/redhat-operators/etcd/install"
    page = assert_page(writer.get(address, {"path": "Subscription", "approval": "Manual"}))
    assert "installPlanApproval: Manual" in page.text
    assert "kind: OperatorGroup" in page.text
    page = assert_page(writer.get(address, {"path": "ClusterExtension", "channel": "stable"}))
    assert "kind: ClusterExtension" in page.text
    bad = writer.get(address, {"path": "ClusterExtension", "version": "no range"})
    assert 'id="field-version-error"' in bad.content.decode()


def test_an_upgrade_and_an_approval_are_shown_in_full(writer: Client) -> None:
    prod = make_cluster(kinds=KINDS)
    make_package(catalog=make_catalog(cluster=prod))
    make_operator(
        cluster=prod,
        kind="Subscription",
        namespace="apps",
        name="etcd",
        package="etcd",
        channel="stable",
        details={"installed_csv": "etcd.v1.0.0", "current_csv": "etcd.v1.1.0"},
    )
    page = assert_page(writer.get("/operators/prod/Subscription/apps/etcd/upgrade"))
    assert "etcd.v1.1.0" in page.text
    make_component(
        cluster=prod,
        kind="InstallPlan",
        name="install-x",
        namespace="apps",
        phase="RequiresApproval",
        details={"csvs": ["etcd.v1.1.0"], "steps": [], "approved": False},
    )
    page = assert_page(writer.get("/installplans/prod/apps/install-x/approve"))
    assert "upgrades etcd.v1.0.0 to etcd.v1.1.0" in page.text
    assert "approved: true" in page.text


def test_an_approval_needs_no_review_and_has_one_primary_button(writer: Client) -> None:
    waiting_upgrade()
    response = writer.get("/installplans/prod/apps/install-x/approve")
    assert primary_buttons(response) == ["Approve"]
    text = assert_page(response).text
    assert '<h2 id="step-review">Dry run</h2>' in response.content.decode()
    assert "Approve runs a server-side dry run first" in text
    assert "is not required" in text
    assert "Review first" in text


def judged(rule: str, path: str, version: str = "1.1.0", **fields: Any) -> None:
    """A stored verdict on a bundle of etcd, with a sentence that no template has."""
    make_prediction(
        bundle=Bundle.objects.get(name=f"etcd.v{version}"),
        rule=rule,
        sentence=f"{rule} speaks here." if rule else "",
        path=path,
        **fields,
    )


def test_the_install_form_shows_the_stored_verdict_of_its_path_and_group(writer: Client) -> None:
    prod = make_cluster(kinds=KINDS)
    catalog = make_catalog(cluster=prod, source_kind=Catalog.SourceKind.CLUSTER_CATALOG)
    make_package(catalog=catalog)
    make_component(cluster=prod, kind="CatalogSource", name=catalog.name, namespace="olm")
    make_component(
        cluster=prod,
        kind="OperatorGroup",
        name="own",
        namespace="apps",
        details={"namespaces": ["apps"]},
    )
    judged("sub-install-mode", "Subscription")
    judged("", "Subscription", target="own")
    judged("ce-webhook", "ClusterExtension", cluster=prod, verdict="unknown")
    address = "/software/prod/redhat-operators/etcd/install"

    new = {"path": "Subscription", "namespace": "new"}
    everywhere = assert_page(writer.get(address, {**new, "targets": "all"}))
    assert "Not installable" in everywhere.text
    assert "sub-install-mode speaks here." in everywhere.text
    assert "/software/prod/redhat-operators/etcd/etcd.v1.1.0#verdicts" in everywhere.links
    own = assert_page(writer.get(address, {"path": "Subscription", "namespace": "apps"}))
    assert "Installable" in own.text
    assert "speaks here" not in own.text
    extension = assert_page(writer.get(address, {"path": "ClusterExtension"}))
    assert "ce-webhook speaks here." in extension.text
    platform = assert_page(writer.get(address, {"path": "PlatformOperator"}))
    assert "Not evaluated" in platform.text


def test_every_upgrade_target_has_its_verdict_beside_it(writer: Client) -> None:
    prod = make_cluster(kinds=KINDS)
    versions = {"stable": ("1.0.0", "1.1.0", "1.2.0")}
    make_package(catalog=make_catalog(cluster=prod), channels=versions)
    details = {"installed_csv": "etcd.v1.0.0", "current_csv": "etcd.v1.0.0"}
    where: dict[str, Any] = {"kind": "Subscription", "namespace": "apps", "name": "etcd"}
    where |= {"channel": "stable"}
    make_operator(cluster=prod, **where, details=details)
    judged("sub-min-kube", "Subscription", "1.1.0")
    judged("", "Subscription", "1.2.0")
    response = writer.get("/operators/prod/Subscription/apps/etcd/upgrade")
    page = assert_page(response)
    found = {target.version: verdict for target, verdict in response.context["targets"]}
    assert {version: one.verdict.value for version, one in found.items()} == {
        "1.1.0": "not_installable",
        "1.2.0": "installable",
    }
    assert page.text.count("sub-min-kube speaks here.") == 1
    assert "/software/prod/redhat-operators/etcd/etcd.v1.1.0#verdicts" in page.links


def test_an_upgrade_over_an_intermediate_version_names_it(writer: Client) -> None:
    prod = make_cluster(kinds=KINDS)
    make_package(
        catalog=make_catalog(cluster=prod), channels={"stable": ("1.0.0", "1.1.0", "1.2.0")}
    )
    where: dict[str, Any] = {"kind": "Subscription", "namespace": "apps", "channel": "stable"}
    for version, over in (("1.0.0", True), ("1.1.0", False)):
        details = {"installed_csv": f"etcd.v{version}", "current_csv": f"etcd.v{version}"}
        name = f"etcd-{version[2]}"
        make_operator(cluster=prod, **where, name=name, package="etcd", details=details)
        page = assert_page(writer.get(f"/operators/prod/Subscription/apps/{name}/upgrade"))
        sentence = "The upgrade goes from 1.0.0 to 1.2.0 over 1.1.0: each step is an upgrade of its"
        assert (sentence in page.text) == over
        assert ("The upgrade goes" in page.text) == over


def waiting_upgrade(version: str = "1.1.0") -> str:
    """An operator at 1.0.0 of a channel up to 1.2.0, with an InstallPlan that waits; the address
    of its upgrade form."""
    prod = make_cluster(kinds=KINDS)
    versions = ("1.0.0", "1.1.0", "1.2.0")
    catalog = make_catalog(cluster=prod)
    make_package(catalog=catalog, channels={"stable": versions, "old": versions[:2]})
    bundle = f"etcd.v{version}"
    make_operator(
        cluster=prod,
        kind="Subscription",
        namespace="apps",
        name="etcd",
        package="etcd",
        channel="stable",
        health="NeedsApproval",
        details={
            "installed_csv": "etcd.v1.0.0",
            "current_csv": bundle,
            "plan": "install-x",
            "plan_namespace": "apps",
            "approval": "Manual",
        },
    )
    make_component(
        cluster=prod,
        kind="InstallPlan",
        name="install-x",
        namespace="apps",
        phase="RequiresApproval",
        details={"csvs": [bundle], "steps": [], "approved": False},
    )
    return "/operators/prod/Subscription/apps/etcd/upgrade"


def test_the_page_that_names_an_installplan_gets_its_changes_and_the_button(writer: Client) -> None:
    waiting_upgrade()
    address = "/installplans/prod/apps/install-x/approve"
    response = writer.get(address, headers={"HX-Request": "true"})
    part = assert_fragment(response)
    assert "Approving install-x upgrades etcd.v1.0.0 to etcd.v1.1.0." in part.text
    assert "Approve InstallPlan install-x" in part.text
    content = response.content.decode()
    assert re.search(r'name="reviewed" value="\S+"', content), "approved without a further review"
    assert 'name="continued"' not in content
    Component.objects.update(phase="Complete")
    part = assert_fragment(writer.get(address, headers={"HX-Request": "true"}))
    assert part.text.strip() == "This InstallPlan requires no approval any more."


def test_an_upgrade_leads_to_the_installplan_that_requires_approval(writer: Client) -> None:
    page = assert_page(writer.get(waiting_upgrade()))
    assert "/installplans/prod/apps/install-x/approve" in page.links
    assert "InstallPlan install-x requires approval" in page.text
    assert "upgrades etcd.v1.0.0 to etcd.v1.1.0" in page.text
    assert (
        "It does not reach etcd.v1.2.0 yet: the upgrade path is etcd.v1.0.0 → etcd.v1.1.0 → "
        "etcd.v1.2.0"
    ) in page.text
    assert "it stays" not in page.text


def test_an_upgrade_form_has_one_primary_button(writer: Client) -> None:
    address = waiting_upgrade()
    assert primary_buttons(writer.get(address)) == ["Review and approve"]
    Component.objects.update(phase="Complete")
    assert primary_buttons(writer.get(address)) == ["Review"]


def primary_buttons(response: Any) -> list[str]:
    content = response.content.decode()
    return re.findall(r'pf-m-primary"[^>]*><span class="pf-v6-c-button__text">([^<]+)', content)


def test_an_upgrade_in_the_default_channel_has_the_targets_of_that_channel(writer: Client) -> None:
    address = waiting_upgrade()
    Operator.objects.update(channel="")
    page = assert_page(writer.get(address))
    assert "No later version in" not in page.text
    assert "The upgrade goes from 1.0.0 to 1.2.0 over 1.1.0" in page.text
    assert "Other channels lead to" not in page.text, "the old channel has nothing more"


def test_an_upgrade_names_the_other_channels_with_other_versions(writer: Client) -> None:
    address = waiting_upgrade()
    Operator.objects.update(channel="old")
    page = assert_page(writer.get(address))
    assert "Other channels lead to other versions: stable to 1.2.0." in page.text
    Operator.objects.update(
        health="Healthy", details={"installed_csv": "etcd.v1.1.0", "current_csv": "etcd.v1.1.0"}
    )
    page = assert_page(writer.get(address))
    assert "No later version in this channel. Other channels lead" in page.text


def test_an_installplan_off_the_upgrade_path_says_so(writer: Client) -> None:
    page = assert_page(writer.get(waiting_upgrade("1.1.5")))
    assert "etcd.v1.1.5 is not on the upgrade path to etcd.v1.2.0" in page.text


def test_an_installplan_that_reaches_the_wanted_version_needs_no_reason(writer: Client) -> None:
    page = assert_page(writer.get(waiting_upgrade("1.2.0")))
    assert "/installplans/prod/apps/install-x/approve" in page.links
    assert "does not reach" not in page.text
    assert "not on the upgrade path" not in page.text


def test_an_upgrade_that_would_change_nothing_is_refused_while_a_plan_requires_approval(
    writer: Client,
) -> None:
    address = waiting_upgrade()
    page = assert_page(writer.post(address, {"step": "review"}), 422)
    assert "Nothing would change: InstallPlan install-x requires approval." in page.text
    assert "/installplans/prod/apps/install-x/approve" in page.links
    body = {"cluster": "prod", "verb": "upgrade", "method": "Subscription", "namespace": "apps"}
    answer = writer.post(
        "/api/v1/actions", {**body, "name": "etcd"}, content_type="application/json"
    )
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "plan-waiting"
    assert not Action.objects.exists()


def test_another_channel_may_be_chosen_while_a_plan_requires_approval(writer: Client) -> None:
    page = assert_page(writer.get(waiting_upgrade() + "?channel=old"))
    assert "channel: old" in page.text
    assert "InstallPlan install-x still requires approval" in page.text


def test_the_approval_form_offers_the_versions_that_the_installplan_carries(writer: Client) -> None:
    prod = make_cluster(kinds=KINDS)
    make_component(
        cluster=prod,
        kind="InstallPlan",
        name="install-x",
        namespace="apps",
        phase="RequiresApproval",
        details={"csvs": ["etcd.v1.1.0", "nats.v2.0.0"], "steps": [], "approved": False},
    )
    address = "/installplans/prod/apps/install-x/approve"
    response = writer.get(address, {"only": "etcd.v1.1.0"})
    page = assert_page(response)
    assert "What to approve Everything that this InstallPlan contains" in page.text
    assert "it can’t be approved in part" in page.text, "what happens now"
    assert "Later: this approves no other InstallPlan." in page.text
    assert response.context["plan"].version == "etcd.v1.1.0"
    assert '<option value="etcd.v1.1.0" selected>' in response.content.decode()
    Component.objects.filter(name="install-x").update(
        details={"csvs": ["etcd.v1.1.0"], "steps": [], "approved": False}
    )
    page = assert_page(writer.get(address))
    assert "What to approve" not in page.text, "there is one version, hence no choice"
    assert "Later: this approves no other InstallPlan." in page.text
