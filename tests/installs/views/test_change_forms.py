"""Forms of all paths with the sandbox behind them: to the end, forged, twice, and by two people."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from catalogs.models import Catalog, Package
from installs.actions import follow, record
from installs.actions.objects import DryRun
from installs.models import Action, Operator
from installs.state.full_sync import sync_cluster
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_bundle, make_cluster, make_component, make_operator, make_package
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
PACKAGE = "object-store-demo"
INSTALL = f"/software/prod/redhat-operators/{PACKAGE}/install"
EXTENSION = f"/operators/prod/ClusterExtension/-/{PACKAGE}"
SUBSCRIPTION = "/operators/prod/Subscription/apps/etcd"
PLAN = "/installplans/prod/apps/install-x/approve"


@pytest.fixture
def prod(sandbox: Sandbox) -> Cluster:
    found = make_cluster(name="prod", context="sandbox")
    sync_cluster(found)
    found.refresh_from_db()
    catalog = Catalog.objects.get(cluster=found, name="redhat-operators", namespace="")
    versions = ("1.8.0", "1.8.1", "2.0.0", "2.1.0")
    make_package(name=PACKAGE, catalog=catalog, channels={"stable": versions})
    return found


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


def confirmed(client: Client, address: str, values: dict[str, str], **forged: str) -> Any:
    """Reviews the form and sends what the page would, with some of it forged."""
    reviewed = client.post(address, {**values, "step": "review"}).context
    sent = {"key": reviewed["key"], "reviewed": reviewed["reviewed"], "step": "confirm"}
    return client.post(address, {**values, **sent, **forged})


def finished(response: Any) -> Action:
    """The action that a form led to, carried out by a worker."""
    assert response.status_code == 303, response.content
    action = Action.objects.get(pk=int(response["Location"].rpartition("/")[2]))
    for _ in range(20):
        if follow.run(action.pk, pause=lambda _: time.sleep(0.05)) is None:
            break
    action.refresh_from_db()
    return action


def extension(version: str) -> dict[str, str]:
    fields = {"path": "ClusterExtension", "namespace": "stores", "service_account": "installer"}
    return {**fields, "name": PACKAGE, "version": version}


def test_an_extension_goes_from_its_form_over_an_upgrade_to_its_removal(
    writer: Client, prod: Cluster, sandbox: Sandbox
) -> None:
    installed = finished(confirmed(writer, INSTALL, extension("1.8.0")))
    assert installed.state == "succeeded", installed.outcome
    assert "Installed and working: version 1.8.0" in assert_page(writer.get(EXTENSION)).text

    page = assert_page(writer.get(f"{EXTENSION}/upgrade"))
    assert f"{PACKAGE}.v1.8.1" in page.text
    upgraded = finished(confirmed(writer, f"{EXTENSION}/upgrade", {"version": "1.8.1"}))
    assert upgraded.outcome == f"{PACKAGE} is at {PACKAGE}.v1.8.1."
    assert "Installed and working: version 1.8.1" in assert_page(writer.get(EXTENSION)).text

    shown = writer.get(f"{EXTENSION}/remove").context["reviewed"]
    removed = finished(writer.post(f"{EXTENSION}/remove", {"sure": "yes", "reviewed": shown}))
    assert removed.outcome == (
        f"Operator {PACKAGE} 1.8.1 is removed. Deleted: ClusterExtension {PACKAGE}."
    )
    assert "(removed)" in assert_page(writer.get(EXTENSION)).text


def test_an_extension_that_can_not_be_resolved_tells_its_cause_on_its_page(
    writer: Client, prod: Cluster, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "STALE_FAILURE", timedelta(seconds=1))
    package = Package.objects.get(name=PACKAGE, catalog__name="redhat-operators")
    make_bundle(package=package, version="9.0.0")  # that the cluster's catalog no longer has
    failed = finished(confirmed(writer, INSTALL, extension(">=9.0.0")))
    assert (failed.state, failed.finding) == ("failed", "ce-no-bundles")
    page = assert_page(writer.get(EXTENSION))
    assert "No matching bundle found" in page.text
    assert f"{EXTENSION}/retry" in page.links
    assert finished(confirmed(writer, f"{EXTENSION}/retry", {})).finding == "ce-no-bundles"
    corrected = finished(confirmed(writer, f"{EXTENSION}/upgrade", {"version": "2.1.0"}))
    assert corrected.state == "succeeded", corrected.outcome


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"version": ">=9.0.0"}, "has no version >=9.0.0; its highest is 2.1.0."),
        ({"channel": "gone"}, f"Package {PACKAGE} has no channel gone, only stable."),
    ],
)
def test_a_channel_or_version_that_the_stored_catalog_lacks_is_refused_before_it_is_sent(
    writer: Client, prod: Cluster, values: dict[str, str], problem: str
) -> None:
    for method in ("ClusterExtension", "Subscription"):
        if method == "Subscription" and "version" in values:
            continue
        sent = extension("") | {"path": method} | values
        response = writer.post(INSTALL, {**sent, "step": "review"})
        assert problem in assert_page(response, 422).text
    assert not Action.objects.exists()


def subscription(prod: Cluster) -> None:
    """A Subscription and an InstallPlan that waits, as rows alone: nothing gets as far as that."""
    etcd = {"kind": "Subscription", "namespace": "apps", "name": "etcd", "package": "etcd"}
    details = {"installed_csv": "etcd.v1.0.0", "current_csv": "etcd.v1.1.0"}
    make_operator(cluster=prod, channel="stable", details=details, **etcd)  # type: ignore[arg-type]
    make_component(
        cluster=prod,
        kind="InstallPlan",
        name="install-x",
        namespace="apps",
        phase="RequiresApproval",
        details={"csvs": ["etcd.v1.1.0"], "steps": [], "approved": False},
    )


SUBSCRIBED = {"path": "Subscription", "namespace": "fresh", "name": PACKAGE, "targets": "own"}
FORGED = [
    (INSTALL, extension("1.8.0"), {"namespace": "kube-system"}),
    (INSTALL, extension("1.8.0"), {"name": "another"}),
    (INSTALL, extension("1.8.0"), {"version": "2.1.0"}),
    (INSTALL, extension("1.8.0"), {"path": "PlatformOperator"}),
    (INSTALL, extension("1.8.0"), {"service_account": "another"}),
    (INSTALL, extension("1.8.0"), {"policy": "SelfCertified"}),
    (INSTALL, SUBSCRIBED, {"namespace": "openshift-operators"}),
    (INSTALL, SUBSCRIBED, {"targets": "all"}),
    (INSTALL, SUBSCRIBED, {"approval": "Manual"}),
    (INSTALL, SUBSCRIBED, {"channel": "stable"}),
]


@pytest.mark.parametrize(("address", "values", "forged"), FORGED)
def test_an_install_form_with_a_changed_field_is_shown_again_and_nothing_is_recorded(
    writer: Client,
    prod: Cluster,
    address: str,
    values: dict[str, str],
    forged: dict[str, str],
) -> None:
    assert_page(confirmed(writer, address, values, **forged), 422)
    assert not Action.objects.exists()


def test_an_install_form_with_a_forged_cluster_is_forbidden(writer: Client, prod: Cluster) -> None:
    assert_page(confirmed(writer, INSTALL, extension("1.8.0"), cluster="other"), 403)
    assert not Action.objects.exists()


@pytest.mark.parametrize(
    ("address", "values", "forged"),
    [
        (f"{SUBSCRIPTION}/upgrade", {"channel": "stable"}, {"channel": "fast"}),
        (f"{SUBSCRIPTION}/upgrade", {"channel": "stable"}, {"approval": "Manual"}),
        (f"{SUBSCRIPTION}/upgrade", {"channel": "stable"}, {"take": "yes"}),
        (f"{SUBSCRIPTION}/upgrade", {"channel": "stable"}, {"reviewed": ""}),
        (f"{SUBSCRIPTION}/retry", {}, {"reviewed": "made-up"}),
        (PLAN, {}, {"reviewed": ""}),
    ],
)
def test_a_change_that_is_not_what_was_reviewed_is_shown_again(
    writer: Client,
    prod: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    values: dict[str, str],
    forged: dict[str, str],
) -> None:
    subscription(prod)
    _let_every_dry_run_pass(monkeypatch)
    page = assert_page(confirmed(writer, address, values, **forged), 422)
    assert "Form changed, nothing applied. Review again." in page.text
    assert not Action.objects.exists()
    assert confirmed(writer, address, values).status_code == 303, "unforged it is taken"


@pytest.mark.parametrize("only", ["", "etcd.v1.1.0"])
def test_an_approval_is_confirmed_on_the_page_that_shows_the_installplan(
    writer: Client, prod: Cluster, monkeypatch: pytest.MonkeyPatch, only: str
) -> None:
    subscription(prod)
    shown = writer.get(PLAN).context
    sent = {"key": shown["key"], "reviewed": shown["reviewed"], "step": "confirm", "only": only}

    refused = DryRun(False, "Cluster prod would refuse it.", "forbidden")
    monkeypatch.setattr(record, "dry_run", lambda *_: refused)
    assert "Cluster prod would refuse it." in assert_page(writer.post(PLAN, sent), 422).text
    assert not Action.objects.exists(), "the dry run comes first"

    _let_every_dry_run_pass(monkeypatch)
    assert_page(writer.post(PLAN, sent | {"only": "etcd.v1.2.0"}), 422)
    assert not Action.objects.exists(), "a version that was not offered"
    assert writer.post(PLAN, sent).status_code == 303
    assert Action.objects.get().version == only


@pytest.mark.parametrize(
    ("address", "other"),
    [
        (f"{SUBSCRIPTION}/upgrade", f"{SUBSCRIPTION}/retry"),
        (f"{SUBSCRIPTION}/retry", PLAN),
        (INSTALL, f"{SUBSCRIPTION}/upgrade"),
    ],
)
def test_a_review_of_one_form_is_none_of_another(
    writer: Client, prod: Cluster, monkeypatch: pytest.MonkeyPatch, address: str, other: str
) -> None:
    subscription(prod)
    _let_every_dry_run_pass(monkeypatch)
    reviewed = writer.post(address, {**extension("1.8.0"), "step": "review"}).context["reviewed"]
    assert_page(writer.post(other, {"step": "confirm", "reviewed": reviewed}), 422)
    assert not Action.objects.exists()


@pytest.mark.parametrize("address", [INSTALL, f"{SUBSCRIPTION}/upgrade", PLAN])
def test_what_another_person_reviewed_is_not_applied(
    writer: Client, alice: Any, prod: Cluster, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    subscription(prod)
    _let_every_dry_run_pass(monkeypatch)
    other = Client()
    other.force_login(alice)
    values = extension("1.8.0") if address == INSTALL else {}
    theirs = other.post(address, {**values, "step": "review"}).context["reviewed"]
    assert_page(writer.post(address, {**values, "step": "confirm", "reviewed": theirs}), 422)
    assert not Action.objects.exists()


def _let_every_dry_run_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of these forms have no object in the sandbox."""
    monkeypatch.setattr(record, "dry_run", lambda *_: DryRun(ok=True, message=""))


def test_two_people_who_press_install_and_press_again_make_one_extension(
    writer: Client, alice: Any, prod: Cluster, sandbox: Sandbox
) -> None:
    alice.groups.add(Group.objects.get(name="olmweb-operators"))
    other = Client()
    other.force_login(alice)
    asked = []
    for client in (writer, other):
        reviewed = client.post(INSTALL, {**extension("1.8.0"), "step": "review"}).context
        sent = {"key": reviewed["key"], "reviewed": reviewed["reviewed"], "step": "confirm"}
        asked.append((client, {**extension("1.8.0"), **sent}))
    answers = [client.post(INSTALL, sent) for client, sent in asked * 2]
    assert len({answer["Location"] for answer in answers}) == 1
    action = finished(answers[0])
    assert action.state == "succeeded", action.outcome
    assert Action.objects.count() == 1
    path = f"/apis/olm.operatorframework.io/v1/clusterextensions/{PACKAGE}?"
    writes = [p for method, p in sandbox.script.requests if method == "PATCH" and path in p]
    assert len([p for p in writes if "dryRun" not in p]) == 1
    assert Operator.objects.filter(kind="ClusterExtension", name=PACKAGE).count() == 1


@pytest.mark.parametrize(("status", "code"), [(422, "invalid"), (403, "forbidden"), (400, "")])
def test_an_apply_that_fails_after_a_dry_run_that_passed_is_told(
    writer: Client, prod: Cluster, sandbox: Sandbox, status: int, code: str
) -> None:
    response = confirmed(writer, INSTALL, extension("1.8.0"))
    prefix = f"/apis/olm.operatorframework.io/v1/clusterextensions/{PACKAGE}?"
    sandbox.script.fail_next(status, count=20, path_prefix=prefix)
    action = finished(response)
    assert action.state == "refused"
    assert action.outcome_code == (code or action.outcome_code)
    assert "Namespace stores" in action.outcome, "it says what it did"
    assert sandbox.store.get("ClusterExtension", PACKAGE) is None
