"""Rules without approval: they approve what they pin and nothing else, and end with their owner."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.test import Client
from django.utils import timezone

from catalogs.models import Catalog, Package
from installs.actions import authority, record
from installs.actions import requests as install_requests
from installs.actions.objects import DryRun
from installs.actions.plan import Plan, plan_install
from installs.models import Action, AllowRule, Component, CRDState, InstallRequest
from installs.models.steps import Apply
from installs.state.full_sync import sync_cluster
from olmweb.models import AuditEvent, Cluster, OidcIdentity, ResourceWatch
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_package
from tests.installs.actions.test_actions_extension import catalog_of, make_cluster_read
from tests.installs.actions.test_actions_followed import carry_out
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
NAME, NAMESPACE, ACCOUNT = "queue-demo", "queues", "installer"
OLD, NEW = "3.0.0", "3.0.1"
EXTENSION, SUBSCRIPTION = "ClusterExtension", "Subscription"


@pytest.fixture
def olivia(olivia: User) -> User:
    """An admin here: operators may not save rules."""
    olivia.groups.set([Group.objects.get(name="olmweb-admins")])
    return olivia


@pytest.fixture
def cluster(sandbox: Sandbox) -> Cluster:
    sandbox.store.delete("ClusterExtension", "queue")  # installs the same package
    return make_cluster_read()


@pytest.fixture
def extension(cluster: Cluster) -> Package:
    catalog = catalog_of(cluster, "redhat-operators")
    return make_package(name=NAME, catalog=catalog, channels={"stable": (OLD, NEW)})


@pytest.fixture
def subscription(cluster: Cluster) -> Package:
    """Of an operator that may watch its own namespace only."""
    catalog = Catalog.objects.get(
        cluster=cluster, name="redhat-operators", source_kind="CatalogSource"
    )
    modes = ["OwnNamespace"]
    channels = {"stable": (OLD, NEW)}
    return make_package(name=NAME, catalog=catalog, channels=channels, install_modes=modes)


def make_rule(package: Package, owner: User | None, path: str, **changed: Any) -> AllowRule:
    """A rule that pins everything that `ask` asks for."""
    catalog = package.catalog
    values = {
        "package": NAME,
        "versions": ">=3.0.1",
        "path": path,
        "cluster": catalog.cluster,
        "catalogs": f"other, {catalog.namespace}/{catalog.name}".replace(" /", " "),
        "namespaces": f"{NAMESPACE}, more-queues",
        "service_accounts": ACCOUNT,
        "without_approval": True,
        "saved_by": owner,
    }
    return AllowRule.objects.create(**values | changed)


def ask(package: Package, user: User, path: str, **changed: str) -> InstallRequest:
    assert package.catalog.cluster is not None
    values: dict[str, Any] = {
        "path": path,
        "version": NEW,
        "namespace": NAMESPACE,
        "reason": "Team blue",
    }
    if path == EXTENSION:
        values["service_account"] = ACCOUNT
    return install_requests.submit(
        package.catalog.cluster, package, user, **values | changed
    ).request


def test_an_extension_that_a_rule_pins_is_carried_out_as_the_owner_of_the_rule(
    extension: Package, bob: User, olivia: User, sandbox: Sandbox
) -> None:
    rule = make_rule(extension, olivia, EXTENSION)
    made = ask(extension, bob, EXTENSION)
    assert (made.state, made.decided_by, made.rule) == ("approved", olivia, rule), made.word
    action = Action.objects.get()
    assert (made.action, action.user, action.by_rule) == (action, olivia, rule.pk)
    assert carry_out(action).state == "succeeded", action.outcome


def test_a_subscription_that_a_rule_pins_waits_for_approval_of_its_install_plan(
    subscription: Package, bob: User, olivia: User
) -> None:
    make_rule(subscription, olivia, SUBSCRIPTION)
    made = ask(subscription, bob, SUBSCRIPTION)
    assert made.state == "approved", made.word
    assert carry_out(Action.objects.get()).outcome_code == "needs-approval"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"namespace": "kube-system"}, "does not pin metadata.name kube-system"),
        ({"service_account": "admin-of-another-team"}, "admin-of-another-team of the"),
    ],
)
def test_an_extension_elsewhere_or_with_another_account_waits_for_a_person(
    extension: Package, bob: User, olivia: User, changed: dict[str, str], reason: str
) -> None:
    make_rule(extension, olivia, EXTENSION)
    made = ask(extension, bob, EXTENSION, **changed)
    assert made.state == "waiting"
    assert reason in made.word
    assert not Action.objects.exists()
    client = Client()
    client.force_login(bob)
    page = assert_page(client.get(f"/activity/requests/{made.pk}"))
    assert "could not approve it: The rule does not pin" in page.text


@pytest.mark.parametrize("accounts", [ACCOUNT, ""])
def test_an_extension_without_an_account_waits_for_a_person(
    extension: Package, bob: User, olivia: User, accounts: str
) -> None:
    """The field is optional; without it OLM v1 installs the extension with its own rights."""
    make_rule(extension, olivia, EXTENSION, service_accounts=accounts)
    made = ask(extension, bob, EXTENSION, service_account="")
    assert made.state == "waiting"
    assert "The ClusterExtension names no ServiceAccount" in made.word
    assert not Action.objects.exists()


@pytest.mark.parametrize(
    ("accounts", "known", "state"),
    [
        ("", True, "approved"),
        (ACCOUNT, True, "waiting"),
        ("", False, "waiting"),  # nothing tells that the field is not there
    ],
)
def test_an_extension_without_an_account_is_pinned_where_none_can_have_any(
    extension: Package, bob: User, olivia: User, accounts: str, known: bool, state: str
) -> None:
    row = CRDState.objects.get(cluster=extension.catalog.cluster, served_kind=EXTENSION)
    fields = row.details["fields"]
    for version in fields:
        fields[version].remove("spec.serviceAccount.name")
    row.details["fields"] = fields if known else {}
    row.save()
    make_rule(extension, olivia, EXTENSION, service_accounts=accounts)
    made = ask(extension, bob, EXTENSION)
    assert made.state == state, made.word
    assert state == "approved" or "names no ServiceAccount" in made.word


def test_an_existing_namespace_that_the_rule_does_not_name_is_not_pinned_either(
    extension: Package, bob: User, olivia: User, sandbox: Sandbox
) -> None:
    make_rule(extension, olivia, EXTENSION)
    made = ask(extension, bob, EXTENSION, namespace="openshift-operators")
    assert made.state == "waiting"
    assert "openshift-operators" in made.word


def test_a_subscription_from_the_catalog_source_of_a_tenant_waits_for_a_person(
    subscription: Package, bob: User, olivia: User
) -> None:
    make_rule(subscription, olivia, SUBSCRIPTION)
    ours = subscription.catalog
    theirs = Catalog.objects.create(
        cluster=ours.cluster, name=ours.name, namespace="tenant", slug="tenant-redhat-operators",
        source_kind="CatalogSource", state="serving",
    )  # fmt: skip
    package = make_package(
        name=NAME, catalog=theirs, channels={"stable": (OLD, NEW)}, install_modes=["OwnNamespace"]
    )
    assert package.catalog.cluster is not None
    plan = plan_install(
        package.catalog.cluster, subscription, "", SUBSCRIPTION, {"namespace": NAMESPACE}
    )
    rule = AllowRule.objects.get()
    assert "tenant/redhat-operators" in authority.unpinned(rule, plan, theirs, NEW)
    assert "redhat-operators" not in authority.unpinned(rule, plan, ours, NEW)


def test_an_operator_group_for_every_namespace_is_not_pinned(
    subscription: Package, bob: User, olivia: User
) -> None:
    subscription.install_modes = ["AllNamespaces"]
    subscription.save()
    make_rule(subscription, olivia, SUBSCRIPTION, namespaces="more-queues")
    made = ask(subscription, bob, SUBSCRIPTION, namespace="more-queues")
    assert made.state == "waiting"
    assert "The OperatorGroup leaves spec.targetNamespaces open" in made.word


@pytest.mark.parametrize(
    ("spec", "status", "reason"),
    [
        ({}, [""], "selects every namespace"),
        ({}, [], "selects every namespace"),
        ({"targetNamespaces": [NAMESPACE, "kube-system"]}, [], "selects kube-system"),
        ({"targetNamespaces": [NAMESPACE]}, [NAMESPACE, "payments"], "selects payments"),
        ({"selector": {"matchLabels": {"team": "blue"}}}, [NAMESPACE], "by their labels"),
        (
            {"targetNamespaces": [NAMESPACE], "serviceAccountName": "admin-of-another-team"},
            [NAMESPACE],
            "does not pin the ServiceAccount admin-of-another-team",
        ),
        ({"targetNamespaces": [NAMESPACE], "serviceAccountName": ACCOUNT}, [NAMESPACE], ""),
        ({"targetNamespaces": [NAMESPACE, "more-queues"]}, [NAMESPACE, "more-queues"], ""),
    ],
)
def test_a_group_that_is_in_the_namespace_already_has_to_be_pinned(
    subscription: Package,
    bob: User,
    olivia: User,
    sandbox: Sandbox,
    spec: dict[str, Any],
    status: list[str],
    reason: str,
) -> None:
    """The Subscription gets the scope and the rights of that group, as no second one is made."""
    make_group(sandbox, subscription, spec, status)
    make_rule(subscription, olivia, SUBSCRIPTION)
    made = ask(subscription, bob, SUBSCRIPTION)
    assert made.state == ("waiting" if reason else "approved"), made.word
    assert reason in made.word
    assert Action.objects.exists() is not bool(reason)


def make_group(
    sandbox: Sandbox, package: Package, spec: dict[str, Any], namespaces: list[str]
) -> None:
    """Another person's OperatorGroup in NAMESPACE; `namespaces` are those of its status as the
    last sync read it."""
    sandbox.store.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    sandbox.store.put(
        {
            "apiVersion": "operators.coreos.com/v1",
            "kind": "OperatorGroup",
            "metadata": {"name": "theirs", "namespace": NAMESPACE},
            "spec": spec,
        }
    )
    assert package.catalog.cluster is not None
    sync_cluster(package.catalog.cluster)
    row = Component.objects.get(kind="OperatorGroup", name="theirs")
    row.details["namespaces"] = namespaces
    row.save()


def test_a_subscription_waits_for_a_person_where_groups_can_not_be_read(
    subscription: Package, bob: User, olivia: User
) -> None:
    """A group may be in the namespace already; the one of the plan is not made then."""
    make_rule(subscription, olivia, SUBSCRIPTION)
    groups = ResourceWatch.objects.filter(kind="OperatorGroup")
    assert groups.update(state="forbidden") == 1
    made = ask(subscription, bob, SUBSCRIPTION)
    assert made.state == "waiting"
    assert "The OperatorGroups of prod can't be read" in made.word


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("catalogs", "The rule names no catalogs."),
        ("namespaces", "The rule names no namespaces."),
        ("service_accounts", "installer"),
        ("versions", "names no versions"),
        ("path", "names no install method"),
    ],
)
def test_a_rule_that_leaves_something_open_approves_nothing_and_says_so(
    extension: Package, bob: User, olivia: User, alice: User, missing: str, reason: str
) -> None:
    """Among them every rule from before rules could pin catalogs, namespaces and accounts."""
    rule = make_rule(extension, olivia, EXTENSION)
    setattr(rule, missing, "")
    rule.save()
    made = ask(extension, bob, EXTENSION)
    assert made.state == "waiting"
    assert reason in made.word
    if missing != "service_accounts":  # a Subscription has none
        client = Client()
        client.force_login(alice)
        assert reason in client.get("/admin/installs/allowrule/").content.decode()


def test_a_rule_for_every_cluster_approves_nothing(
    extension: Package, bob: User, olivia: User
) -> None:
    make_rule(extension, olivia, EXTENSION, cluster=None)
    assert "names no cluster" in ask(extension, bob, EXTENSION).word


def test_a_platform_operator_always_waits_for_a_person(
    extension: Package, bob: User, olivia: User
) -> None:
    """It names neither catalog nor version, so nothing of it can be pinned."""
    make_rule(extension, olivia, "PlatformOperator", versions="*")
    made = ask(extension, bob, "PlatformOperator", namespace="")
    assert made.state == "waiting"
    assert "names neither catalog nor version" in made.word


def test_another_rule_may_pin_what_the_first_leaves_open(
    extension: Package, bob: User, olivia: User
) -> None:
    make_rule(extension, olivia, EXTENSION, namespaces="elsewhere")
    second = make_rule(extension, olivia, EXTENSION)
    made = ask(extension, bob, EXTENSION)
    assert (made.state, made.rule, made.word) == ("approved", second, "")


def test_a_field_that_no_rule_knows_is_not_pinned(extension: Package, olivia: User) -> None:
    rule = make_rule(extension, olivia, EXTENSION)
    plan = plan_of(extension)
    assert authority.unpinned(rule, plan, extension.catalog, NEW) == ""
    for path, value in (
        (("spec", "config"), {"inline": {"watchNamespace": "kube-system"}}),
        (("spec", "install"), {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}),
        (("metadata", "labels"), {"team": "blue"}),
        (("spec", "source", "catalog", "upgradeConstraintPolicy"), "SelfCertified"),
    ):
        step = plan_of(extension).steps[-1]
        assert isinstance(step, Apply)
        inner = step.manifest
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = value
        changed = replace(plan, steps=(*plan.steps[:-1], step))
        reason = authority.unpinned(rule, changed, extension.catalog, NEW)
        assert ".".join(path) in reason


def plan_of(package: Package) -> Plan:
    assert package.catalog.cluster is not None
    values = {"namespace": NAMESPACE, "service_account": ACCOUNT, "version": NEW}
    return plan_install(package.catalog.cluster, package, "", EXTENSION, values)


# --- the owner ----------------------------------------------------------------------------------


def switch_off(user: User) -> None:
    user.is_active = False
    user.save()


def demote(user: User, to: str = "olmweb-viewers") -> None:
    user.groups.set([Group.objects.get(name=to)])


def become_operator(user: User) -> None:
    demote(user, "olmweb-operators")


def stay_away(user: User) -> None:
    OidcIdentity.objects.create(user=user, issuer="https://idp.example", subject=user.username)
    user.last_login = timezone.now() - timedelta(days=31)
    user.save()


@pytest.mark.parametrize(
    ("loses", "reason"),
    [
        (switch_off, "olivia, who saved this rule, is disabled."),
        (demote, "olivia, who saved this rule, may not approve installs any more."),
        (become_operator, "olivia, who saved this rule, may not save rules any more."),
        (stay_away, "The last sign-in of olivia is too long ago"),
        (User.delete, "Nobody owns this rule"),
    ],
)
def test_a_rule_ends_with_the_role_of_its_owner_and_says_so(
    extension: Package, bob: User, olivia: User, alice: User, loses: Any, reason: str
) -> None:
    make_rule(extension, olivia, EXTENSION)
    loses(olivia)
    made = ask(extension, bob, EXTENSION)
    assert made.state == "waiting"
    assert reason in made.word
    client = Client()
    client.force_login(alice)
    assert reason in client.get("/admin/installs/allowrule/").content.decode()
    assert not Action.objects.exists()


def test_an_owner_who_may_not_decide_own_requests_is_not_helped_by_an_own_rule(
    extension: Package, olivia: User
) -> None:
    become_operator(olivia)
    olivia.user_permissions.add(Permission.objects.get(codename="change_allowrule"))
    make_rule(extension, olivia, EXTENSION)
    made = ask(extension, olivia, EXTENSION)
    assert made.state == "waiting"
    assert "You can't decide your own request" in made.word


@pytest.mark.parametrize(
    "change", ["deleted", "changed", "switched off", "owner disabled", "owner operator"]
)
def test_an_approved_action_is_not_sent_when_its_rule_has_ended_since(
    extension: Package, bob: User, olivia: User, alice: User, sandbox: Sandbox, change: str
) -> None:
    rule = make_rule(extension, olivia, EXTENSION)
    ask(extension, bob, EXTENSION)
    if change == "deleted":
        rule.delete()
    elif change == "changed":
        rule.namespaces = "elsewhere"
        rule.save()
    elif change == "switched off":
        AllowRule.objects.update(without_approval=False)
    elif change == "owner operator":
        become_operator(olivia)
    else:
        switch_off(olivia)
    action = carry_out(Action.objects.get())
    assert (action.state, action.outcome_code) == ("refused", "not-allowed")
    assert action.outcome.startswith("It was not applied. ")
    assert sandbox.store.get("Namespace", NAMESPACE) is None
    assert sandbox.store.get(EXTENSION, NAME) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"namespaces": "elsewhere"}, "does not pin"),
        ({"service_accounts": "another"}, "does not pin"),
        ({"catalogs": "other"}, "does not name the catalog redhat-operators"),
        ({"versions": ">=4"}, "is not about queue-demo 3.0.1"),
        ({"package": "etcd"}, "is not about queue-demo 3.0.1"),
    ],
)
def test_an_approved_action_is_not_sent_when_the_rule_does_not_pin_it_any_more(
    extension: Package,
    bob: User,
    olivia: User,
    sandbox: Sandbox,
    change: dict[str, str],
    reason: str,
) -> None:
    """The time at which the rule was saved does not tell: an update leaves it, too."""
    make_rule(extension, olivia, EXTENSION)
    assert ask(extension, bob, EXTENSION).state == "approved"
    AllowRule.objects.update(**change)
    action = carry_out(Action.objects.get())
    assert (action.state, action.outcome_code) == ("refused", "not-allowed")
    assert reason in action.outcome
    assert sandbox.store.get("Namespace", NAMESPACE) is None


def test_an_approved_action_is_not_sent_when_a_group_appears_that_the_rule_does_not_pin(
    subscription: Package, bob: User, olivia: User, sandbox: Sandbox
) -> None:
    make_rule(subscription, olivia, SUBSCRIPTION)
    assert ask(subscription, bob, SUBSCRIPTION).state == "approved"
    make_group(sandbox, subscription, {}, [""])
    action = carry_out(Action.objects.get())
    assert (action.state, action.outcome_code) == ("refused", "not-allowed")
    assert "OperatorGroup queues/theirs selects every namespace" in action.outcome
    assert sandbox.store.get(SUBSCRIPTION, NAME, NAMESPACE) is None


@pytest.mark.parametrize("change", ["narrowed", "deleted"])
def test_a_rule_that_is_changed_during_the_dry_run_approves_nothing(
    extension: Package, bob: User, olivia: User, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    rule = make_rule(extension, olivia, EXTENSION)
    dry_run = record.dry_run

    def slow(plan: Plan, user: User) -> DryRun:
        result = dry_run(plan, user)
        if change == "deleted":
            AllowRule.objects.all().delete()
        else:
            rule.namespaces = "elsewhere"
            rule.save()
        return result

    monkeypatch.setattr(record, "dry_run", slow)
    made = ask(extension, bob, EXTENSION)
    assert (made.state, made.action) == ("waiting", None)
    assert "could not approve it: The rule was changed meanwhile." in made.word
    assert not Action.objects.exists()


# --- the audit log -------------------------------------------------------------------------------


def rule_events() -> list[tuple[str, str, str]]:
    rows = AuditEvent.objects.filter(event__startswith="rule-").order_by("id")
    return [(row.event, row.username, row.actor) for row in rows]


def test_a_rule_that_is_made_changed_and_deleted_is_in_the_audit_log(
    extension: Package, olivia: User, alice: User
) -> None:
    rule = make_rule(extension, olivia, EXTENSION)
    rule.note = "the note alone"
    rule.save()
    client = Client()
    client.force_login(alice)
    address = f"/admin/installs/allowrule/{rule.pk}"
    names = ("package", "versions", "path", "catalogs", "namespaces", "service_accounts")
    form = {name: getattr(rule, name) for name in names} | {"cluster": rule.cluster_id}
    form |= {"without_approval": "on", "namespaces": "elsewhere", "note": ""}
    assert client.post(f"{address}/change/", form).status_code == 302
    client.post(f"{address}/delete/", {"post": "yes"})
    assert rule_events() == [
        ("rule-created", "olivia", ""),
        ("rule-changed", "alice", ""),
        ("rule-deleted", "alice", ""),
    ]
    changed = AuditEvent.objects.get(event="rule-changed").detail
    assert (changed["rule"], changed["package"]) == (rule.pk, NAME)
    assert changed["changed"]["namespaces"] == f"{NAMESPACE}, more-queues → elsewhere"
    assert set(changed["changed"]) == {"namespaces", "saved_by_id"}


def test_a_rule_ends_in_the_audit_log_with_its_owner_once_and_resumes(
    extension: Package, olivia: User, django_capture_on_commit_callbacks: Any
) -> None:
    make_rule(extension, olivia, EXTENSION)
    admins = Group.objects.get(name="olmweb-admins")
    for change in (
        lambda: become_operator(olivia),  # takes one role and gives another
        lambda: demote(olivia),
        lambda: switch_off(olivia),
        lambda: User.objects.get(pk=olivia.pk).groups.add(admins),
    ):
        with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
            change()
    assert [event for event, *_ in rule_events()] == ["rule-created", "rule-ended"]
    olivia.is_active = True
    with django_capture_on_commit_callbacks(execute=True):
        olivia.save()
    assert rule_events()[-1] == ("rule-resumed", "olivia", "")
    olivia.delete()
    assert [event for event, *_ in rule_events()[2:]] == ["rule-resumed", "rule-ended"]
    ended = AuditEvent.objects.filter(event="rule-ended").first()
    assert ended is not None
    assert ended.detail["reason"] == "The account olivia was deleted."


# --- the admin page ------------------------------------------------------------------------------


def test_a_rule_without_approval_is_saved_only_if_it_pins_everything(cluster: Cluster) -> None:
    with pytest.raises(ValidationError) as caught:
        AllowRule(package=NAME, without_approval=True).clean()
    needed = {"versions", "path", "cluster", "catalogs", "namespaces"}
    assert set(caught.value.message_dict) == needed
    AllowRule(package=NAME).clean()
    rule = AllowRule(
        package=NAME, versions="*", path=EXTENSION, cluster=cluster, catalogs="a, b/c",
        namespaces="*", without_approval=True,
    )  # fmt: skip
    with pytest.raises(ValidationError, match='"\\*" is not a name'):
        rule.clean()
    rule.namespaces = "queues, more-queues"
    rule.clean()
    rule.path = "PlatformOperator"
    with pytest.raises(ValidationError, match="each needs approval"):
        rule.clean()
