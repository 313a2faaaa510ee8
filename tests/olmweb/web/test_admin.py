"""The admin lists what people manage, grouped; what a sync writes can be seen, not edited."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from axes.models import AccessAttempt
from celery import Task
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from catalogs.models import BundleInspection, Catalog, CatalogInspection
from installs.models import (
    Action,
    ActionBatch,
    AllowRule,
    CopyReport,
    InstallRequest,
    Notification,
    Operator,
    Transition,
    UnknownMessage,
    WebhookDelivery,
    WebhookReceiver,
)
from olmweb.models import NOT_CONFIGURED, ApiToken, Cluster, OidcIdentity, Preferences, SyncRun
from olmweb.web.admin import GROUPS
from tests.factories import make_cluster
from tests.worlds.rest import World

LISTED = [apps.get_model(label) for labels in GROUPS.values() for label in labels]
MODELS = pytest.mark.parametrize("model", LISTED, ids=lambda model: model.__name__)
# Accounts are Django's. Catalogs that a person adds can be changed:
# tests/catalogs/sync/test_own_catalogs.py. The inspection of a catalog is switched on and off:
# tests/catalogs/verdicts/test_catalog_inspection.py. The allow-list is edited by people:
# tests/installs/views/test_requests.py, and so are receivers of webhooks:
# tests/installs/notifications/test_receivers.py.
EDITED = (User, Group, Catalog, CatalogInspection, AllowRule, WebhookReceiver)
READ_ONLY = pytest.mark.parametrize(
    "model",
    [model for model in LISTED if model not in EDITED],
    ids=lambda model: model.__name__,
)
DELETABLE = (ApiToken, AccessAttempt, Preferences)  # to revoke, to unlock, to reset


def address(model: Any, page: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


@pytest.fixture
def signed_in(client: Client, alice: User, world: World) -> Client:
    ApiToken.issue(alice.pk, "act")
    OidcIdentity.objects.create(user=alice, issuer="https://idp.example", subject="s-1")
    Preferences.objects.create(user=alice, columns={"operators": ["name"]})
    AllowRule.objects.create(package="etcd", saved_by=alice)
    CatalogInspection.objects.create(catalog=Catalog.objects.earliest("pk"), enabled=True)
    receiver = WebhookReceiver.objects.create(name="chat", url="https://hooks.example/x")
    WebhookDelivery.objects.create(receiver=receiver, events=[1], state="sent")
    InstallRequest.objects.create(
        cluster=Cluster.objects.get(name="prod"),
        package="etcd",
        version="1.0.0",
        user=alice,
        path="Subscription",
    )
    ActionBatch.objects.create(
        cluster=Cluster.objects.get(name="prod"), user=alice, path="Subscription"
    )
    AccessAttempt.objects.create(username="mia", ip_address="192.0.2.9", failures_since_start=5)
    client.force_login(alice)
    return client


def test_each_list_is_in_one_group_and_nothing_else_is_registered() -> None:
    labels = [label for labels in GROUPS.values() for label in labels]
    assert sorted(labels) == sorted(model._meta.label for model in admin.site._registry)


def test_internal_tables_have_no_pages(signed_in: Client) -> None:
    for label in ("catalogs.blob", "catalogs.packagesearch", "catalogs.packageoutline",
                  "catalogs.prediction", "catalogs.channelentry", "installs.component",
                  "installs.operatorreference", "olmweb.lease"):  # fmt: skip
        assert signed_in.get(f"/admin/{label.replace('.', '/')}/").status_code == 404


def headings(page: str) -> list[tuple[str, list[str]]]:
    """[(group, its lists)] of the index."""
    content = page.partition('id="content-main"')[2]
    return [
        (
            re.findall(r"<caption[^>]*>([^<]+)<", group)[0],
            re.findall(r'<th scope="row">\s*<a[^>]*>([^<]+)<', group),
        )
        for group in content.partition('id="content-related"')[0].split('<div class="module">')[1:]
    ]


def test_an_inspection_without_a_choice_of_its_own_shows_that_of_the_setting(
    signed_in: Client, settings: Any
) -> None:
    CatalogInspection.objects.update(enabled=None)
    for default in (True, False):
        settings.INSPECT_CATALOGS = default
        page = signed_in.get(address(CatalogInspection, "changelist")).text
        cell = page.partition('class="field-on"')[2].partition("</td>")[0]
        assert f'alt="{default}"' in cell


def test_the_index_has_the_groups_in_their_order_with_plain_names(signed_in: Client) -> None:
    page = signed_in.get("/admin/").text
    assert headings(page) == [
        (
            "Accounts and permissions",
            ["Users", "Groups", "API tokens", "Allow rules", "OpenID Connect identities",
             "Preferences", "Failed sign-ins", "Audit events"],
        ),
        ("Catalogs", ["Catalogs", "Catalog inspections", "Image inspections"]),
        ("Clusters and operators", ["Clusters", "Installed operators"]),
        ("Installations", ["Install requests", "Actions", "Bulk actions"]),
        (
            "Operation",
            ["Sync runs", "Watched resources", "Notifications", "Webhook receivers",
             "Webhook deliveries", "Unknown messages", "Copied CSV reports"],
        ),
    ]  # fmt: skip
    assert "Sync status of each kind of each cluster." in page


def test_the_index_shows_a_role_what_it_may_open(client: Client, bob: User) -> None:
    bob.is_staff = True
    bob.save()
    client.force_login(bob)
    assert "Your role may not open any list" in client.get("/admin/").text
    bob.user_permissions.add(Permission.objects.get(codename="view_cluster"))
    page = client.get("/admin/").text
    assert headings(page) == [("Clusters and operators", ["Clusters"])]
    assert headings(client.get("/admin/olmweb/").text) == headings(page)


def test_the_admin_is_of_olm_web(signed_in: Client) -> None:
    page = signed_in.get("/admin/").text
    assert "Django" not in page
    assert "OLM Web administration" in page.partition("</title>")[0]
    assert 'href="/static/favicon.svg"' in page.replace("favicon.svg?", "favicon.svg")
    assert '<a href="/">Back to OLM Web</a>' in page
    assert 'action="/logout/"' in page
    assert "/static/admin.css" in page
    assert "/static/admin.js" in page
    assert "admin/js/theme.js" not in page
    password = signed_in.get("/admin/password_change/").text
    assert '<a href="/">Back to OLM Web</a>' in password
    assert "Log out" not in password
    signed_in.post("/logout/")
    assert signed_in.get("/admin/").status_code == 302


def test_breadcrumbs_lead_over_the_group(signed_in: Client) -> None:
    def crumbs(path: str) -> str:
        text = signed_in.get(path).text.partition('class="breadcrumbs">')[2].partition("</div>")[0]
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text)).replace("›", ">").strip()

    token = ApiToken.objects.get()
    tokens = "Administration > Accounts and permissions > API tokens"
    assert crumbs(address(ApiToken, "changelist")) == tokens
    assert crumbs(address(ApiToken, "change", token.pk)) == f"{tokens} > {token}"
    assert crumbs(address(ApiToken, "delete", token.pk)).startswith(tokens)
    assert crumbs("/admin/password_change/") == "Administration > Password change"
    users = "Administration > Accounts and permissions > Users"
    alice = User.objects.get(username="alice").pk
    assert crumbs(f"/admin/auth/user/{alice}/password/").startswith(users)
    assert crumbs(address(AllowRule, "history", AllowRule.objects.get().pk)).startswith(
        "Administration > Accounts and permissions > Allow rules"
    )


@MODELS
def test_a_list_is_headed_by_its_name_and_what_it_is_for(signed_in: Client, model: Any) -> None:
    page = signed_in.get(address(model, "changelist")).text
    name = str(model._meta.verbose_name_plural)
    assert f"<h1>{name[0].upper()}{name[1:]}</h1>" in page
    assert re.search(r'<p class="olm-about">[A-Z][^<]+\.</p>', page)


@MODELS
def test_every_list_can_be_opened_searched_and_its_rows_seen(signed_in: Client, model: Any) -> None:
    row = model._default_manager.first()
    assert row is not None
    listed = signed_in.get(address(model, "changelist"), {"q": "etcd"})
    assert listed.status_code == 200
    assert signed_in.get(address(model, "changelist")).status_code == 200
    seen = signed_in.get(address(model, "change", row.pk))
    assert seen.status_code == 200
    is_own = model in (User, Group, AllowRule, CatalogInspection, WebhookReceiver) or (
        model is Catalog and row.cluster is None
    )
    assert (b'name="_save"' in seen.content) is is_own


@READ_ONLY
def test_no_row_can_be_added_or_changed(signed_in: Client, model: Any) -> None:
    row = model._default_manager.first()
    assert signed_in.get(address(model, "add")).status_code == 403
    assert signed_in.post(address(model, "change", row.pk), {}).status_code == 403
    deleting = signed_in.get(address(model, "delete", row.pk)).status_code
    assert deleting == (200 if model in DELETABLE else 403)


@MODELS
def test_a_list_costs_a_fixed_number_of_queries(
    signed_in: Client, model: Any, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(14):
        signed_in.get(address(model, "changelist"))


def test_lists_of_accounts_cost_the_same_for_more_of_them(
    signed_in: Client,
) -> None:
    def queries(model: Any) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert signed_in.get(address(model, "changelist")).status_code == 200
        return len(captured)

    before = {model: queries(model) for model in (User, Group)}
    for number in range(5):
        group = Group.objects.create(name=f"team-{number}")
        User.objects.create_user(f"person-{number}").groups.add(group)
    assert {model: queries(model) for model in (User, Group)} == before


def test_an_account_shows_its_groups_and_a_group_its_role(signed_in: Client) -> None:
    User.objects.get(username="alice").groups.add(Group.objects.get(name="olmweb-admins"))
    assert ">olmweb-admins</td>" in signed_in.get(address(User, "changelist")).text
    row = signed_in.get(address(Group, "changelist")).text.partition("olmweb-admins</a>")[2]
    assert re.findall(r">([^<]*)</td>", row.partition("</tr>")[0]) == ["admin", "1"]
    form = signed_in.get(address(User, "change", User.objects.get(username="alice").pk)).text
    assert "admin with olmweb-admins" in form
    assert "Grants nothing else." in form


@pytest.mark.parametrize("page", ["changelist", "change"])
def test_a_digest_is_never_shown(signed_in: Client, page: str) -> None:
    token = ApiToken.objects.get()
    args: list[object] = [token.pk] if page == "change" else []
    assert token.digest.encode() not in signed_in.get(address(ApiToken, page, *args)).content


@MODELS
def test_admin_pages_have_no_inline_script_or_style(signed_in: Client, model: Any) -> None:
    row = model._default_manager.first()
    for path in (address(model, "changelist"), address(model, "change", row.pk)):
        text = signed_in.get(path).content.decode()
        assert "<style" not in text
        for script in text.split("<script")[1:]:
            attributes = script.partition(">")[0]
            assert "src=" in attributes or 'type="application/json"' in attributes


def test_view_permission_is_enough_to_see(client: Client, bob: User, world: World) -> None:
    bob.is_staff = True
    bob.save()
    bob.user_permissions.add(Permission.objects.get(codename="view_operator"))
    client.force_login(bob)
    assert client.get(address(Operator, "changelist")).status_code == 200
    assert client.get(address(Cluster, "changelist")).status_code == 403


def test_a_page_without_permission_names_whom_to_ask_for_it(client: Client, world: World) -> None:
    client.force_login(User.objects.create_user("mia", is_staff=True))
    page = client.get(address(Cluster, "changelist")).text
    assert "Your account may not open this page or do this." in page
    assert "Ask an administrator of OLM Web for the permission" in page
    assert "pf-v6-c-empty-state__icon" in page
    assert "reload" not in page.lower()


def test_titles_of_rows_name_their_object(signed_in: Client) -> None:
    cluster = make_cluster(name="titled")
    report = CopyReport.objects.create(cluster=cluster, state="failed")
    transition = Transition.objects.create(
        cluster=cluster, kind="ClusterExtension", name="weather", type="Health"
    )
    notification = Notification.objects.create(transition=transition, state="given-up")
    delivery = WebhookDelivery.objects.latest("pk")

    def title(row: Any) -> str:
        page = signed_in.get(address(type(row), "change", row.pk)).text
        return page.partition("<title>")[2].partition("·")[0].strip()

    assert title(report) == "copied CSVs of titled: failed"
    assert title(notification) == "ClusterExtension weather: given up"
    assert title(delivery) == "chat: 1 event, Sent"


def test_a_rule_names_serviceaccounts_as_kubernetes_does(signed_in: Client) -> None:
    page = signed_in.get(address(AllowRule, "add")).text
    assert "ServiceAccounts:" in page
    assert "Service accounts" not in page


def test_json_is_shown_in_words(signed_in: Client) -> None:
    run = SyncRun.objects.create(target="prod", counts={"rows_written": 3, "requests": 1})
    page = signed_in.get(address(SyncRun, "change", run.pk)).text
    assert "Counts:" in page
    assert "requests: 1; rows written: 3" in page
    CatalogInspection.objects.update(failed={"unreachable": 18})
    row = CatalogInspection.objects.get()
    for page in (address(CatalogInspection, "changelist"),
                 address(CatalogInspection, "change", row.pk)):  # fmt: skip
        assert "unreachable: 18" in signed_in.get(page).text
    CatalogInspection.objects.update(failed={})
    page = signed_in.get(address(CatalogInspection, "changelist")).text
    assert '<td class="field-failed">-</td>' in page


def test_the_error_of_a_receiver_is_its_problem_as_in_other_lists(signed_in: Client) -> None:
    row = WebhookReceiver.objects.get()
    for page in ("changelist", "change"):
        text = signed_in.get(address(WebhookReceiver, page, *[row.pk] * (page == "change"))).text
        assert re.search(r">\s*Problem:?\s*<", text), page
        assert not re.search(r">\s*Error:?\s*<", text), page


@pytest.mark.parametrize(
    ("label", "task", "queue"),
    [("olmweb.Cluster", "installs.sync_cluster", "sync"),
     ("catalogs.Catalog", "catalogs.sync_catalog", "sync")],
)  # fmt: skip
def test_sync_now_sends_the_task_after_commit(
    signed_in: Client,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
    label: str,
    task: str,
    queue: str,
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(
        Task, "apply_async", lambda self, args, kwargs: sent.append((self.name, args, self.queue))
    )
    model = apps.get_model(label)
    row = model._default_manager.first()
    chosen = {"action": "sync_now", "_selected_action": [row.pk]}
    with django_capture_on_commit_callbacks(execute=True):
        signed_in.post(address(model, "changelist"), chosen)
        assert sent == []
    assert sent == [(task, (row.pk,), queue)]


def test_sync_now_leaves_out_removed_clusters(
    signed_in: Client, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(Task, "apply_async", lambda self, *args, **more: sent.append(self.name))
    row = make_cluster(name="gone", error_code=NOT_CONFIGURED)
    chosen = {"action": "sync_now", "_selected_action": [row.pk]}
    with django_capture_on_commit_callbacks(execute=True):
        page = signed_in.post(address(Cluster, "changelist"), chosen, follow=True)
    assert sent == []
    assert b"1 cluster removed from the configuration: no sync." in page.content
    assert b"requested." not in page.content


@pytest.mark.parametrize("label", ["olmweb.Cluster", "catalogs.Catalog"])
def test_seeing_the_rows_is_not_enough_to_sync_them(
    client: Client, bob: User, world: World, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(Task, "apply_async", lambda self, *args: sent.append(self.name))
    model = apps.get_model(label)
    bob.is_staff = True
    bob.save()
    bob.user_permissions.add(Permission.objects.get(codename=f"view_{model._meta.model_name}"))
    client.force_login(bob)
    row = model._default_manager.first()
    chosen = {"action": "sync_now", "_selected_action": [row.pk]}
    client.post(address(model, "changelist"), chosen)
    assert sent == []


def test_a_notification_that_was_given_up_can_be_sent_again(signed_in: Client) -> None:
    row = Notification.objects.get()
    chosen = {"action": "send_again", "_selected_action": [row.pk]}
    done = signed_in.post(address(Notification, "changelist"), chosen, follow=True)
    assert b"1 notification will be sent again." in done.content
    row.refresh_from_db()
    assert (row.state, row.error) == (Notification.State.PENDING, "")
    again = signed_in.post(address(Notification, "changelist"), chosen, follow=True)
    assert b"1 not sent again" in again.content


def test_the_admin_shows_times_as_the_other_pages(signed_in: Client) -> None:
    at = datetime(2026, 3, 9, 15, 4, 5, tzinfo=UTC)
    Action.objects.update(created_at=at)
    page = signed_in.get(address(Action, "change", Action.objects.latest("pk").pk))
    assert "2026-03-09 15:04:05 UTC" in page.content.decode()


def test_admin_lists_say_what_a_person_looks_for(signed_in: Client) -> None:
    def listed(model: Any) -> str:
        return signed_in.get(address(model, "changelist")).content.decode()

    assert "prod: PlatformOperator etcd" in listed(Notification)
    assert "new → Failed" in listed(Notification)
    assert "etcd &lt;b&gt;odd&lt;/b&gt;" in listed(UnknownMessage)
    assert ">7<" in listed(CopyReport)
    for model in (Action, InstallRequest, ActionBatch, AllowRule, Operator):
        page = listed(model)
        assert "Install method" in page
        assert "By path" not in page
        assert "By kind" not in page
    assert "By last seen" in listed(UnknownMessage)
    assert "By requested" in listed(BundleInspection)
    assert "By valid until" in listed(ApiToken)
    assert "By action" in listed(Action)


def test_the_sync_of_a_catalog_without_a_cluster_has_its_name_alone(signed_in: Client) -> None:
    run = SyncRun.objects.create(kind="catalog", target="-/team-catalog", outcome="unchanged")
    for page in (address(SyncRun, "changelist"), address(SyncRun, "change", run.pk)):
        text = signed_in.get(page).content.decode()
        assert "team-catalog" in text
        assert "-/team-catalog" not in text


def test_an_account_with_preferences_can_be_deleted(signed_in: Client) -> None:
    noa = User.objects.create_user("noa")
    Preferences.objects.create(user=noa)
    signed_in.post(address(User, "delete", noa.pk), {"post": "yes"})
    assert not User.objects.filter(pk=noa.pk).exists()
    assert not Preferences.objects.filter(user_id=noa.pk).exists()


def test_an_account_is_deleted_with_its_identity(signed_in: Client) -> None:
    noa = User.objects.create_user("noa")
    identity = OidcIdentity.objects.create(user=noa, issuer="https://idp.example", subject="s-2")
    assert signed_in.get(address(OidcIdentity, "delete", identity.pk)).status_code == 403
    signed_in.post(address(User, "delete", noa.pk), {"post": "yes"})
    assert not User.objects.filter(pk=noa.pk).exists()
    assert not OidcIdentity.objects.filter(pk=identity.pk).exists()


def test_bulk_actions_say_what_they_do(signed_in: Client) -> None:
    ActionBatch.objects.update(verb="remove")
    assert ">Bulk removal</td>" in signed_in.get(address(ActionBatch, "changelist")).text
    row = ActionBatch.objects.latest("pk")
    assert "Bulk removal" in signed_in.get(address(ActionBatch, "change", row.pk)).text


def test_bulk_actions_cost_the_same_for_more_of_them(signed_in: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert signed_in.get(address(ActionBatch, "changelist")).status_code == 200
        return len(captured)

    before = queries()
    row = ActionBatch.objects.latest("pk")
    for number in range(4):
        ActionBatch.objects.create(
            cluster=row.cluster, user=row.user, path=row.path, idempotency_key=f"key-{number}"
        )
    assert queries() == before


def test_a_page_of_a_row_leads_to_its_page_in_olm_web(signed_in: Client) -> None:
    for model in (Cluster, Operator, InstallRequest, Action, ActionBatch, Catalog):
        row = model._default_manager.first()
        assert row is not None
        page = signed_in.get(address(model, "change", row.pk)).text
        link = re.search(r'href="([^"]+)" class="viewsitelink">Open in OLM Web<', page)
        assert link, model
        assert signed_in.get(link[1]).status_code == 200


def test_syncs_are_requested_in_plain_words(signed_in: Client) -> None:
    for model, number, words in ((Cluster, 2, "2 clusters"), (Catalog, 1, "1 catalog")):
        rows = [row.pk for row in model._default_manager.all()[:number]]
        chosen = {"action": "sync_now", "_selected_action": rows}
        done = signed_in.post(address(model, "changelist"), chosen, follow=True)
        assert f"Sync of {words} requested." in done.text
