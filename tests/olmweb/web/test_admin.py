"""Every model is in the admin; what a sync writes can be seen, not edited."""

from typing import Any

import pytest
from celery import Task
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from catalogs.models import Catalog
from installs.models import (
    AccessAnswer,
    Action,
    ActionBatch,
    ActionKey,
    AllowRule,
    CopyReport,
    CRDState,
    InstallRequest,
    Notification,
    UnknownMessage,
)
from olmweb.models import ApiToken, Cluster, OidcIdentity, Preferences
from tests.worlds.rest import BLOB, World

OURS = [
    model
    for app in ("olmweb", "catalogs", "installs")
    for model in apps.get_app_config(app).get_models()
]
MODELS = pytest.mark.parametrize("model", OURS, ids=lambda model: model.__name__)
# Catalogs that a person adds can be changed: tests/catalogs/sync/test_own_catalogs.py.
# The allow-list is kept by people: tests/installs/views/test_requests.py.
WRITTEN_BY_SYNC = pytest.mark.parametrize(
    "model",
    [model for model in OURS if model not in (Catalog, AllowRule)],
    ids=lambda model: model.__name__,
)


def address(model: Any, page: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


@pytest.fixture
def signed_in(client: Client, alice: User, world: World) -> Client:
    ApiToken.issue(alice.pk, "act")
    Preferences.objects.create(user=alice)
    OidcIdentity.objects.create(user=alice, issuer="https://idp.example", subject="s-1")
    AllowRule.objects.create(package="etcd", saved_by=alice)
    InstallRequest.objects.create(
        cluster=Cluster.objects.get(name="prod"), package="etcd", version="1.0.0", user=alice
    )
    AccessAnswer.objects.create(
        cluster=Cluster.objects.get(name="prod"), user=alice, kind="Subscription", allowed=True
    )
    ActionBatch.objects.create(cluster=Cluster.objects.get(name="prod"), user=alice)
    ActionKey.objects.create(user=alice, key="k", action=Action.objects.earliest("pk"))
    client.force_login(alice)
    return client


@MODELS
def test_every_model_can_be_listed_searched_and_seen(signed_in: Client, model: Any) -> None:
    assert model in admin.site._registry
    row = model._default_manager.first()
    assert row is not None
    listed = signed_in.get(address(model, "changelist"), {"q": "etcd"})
    assert listed.status_code == 200
    assert signed_in.get(address(model, "changelist")).status_code == 200
    seen = signed_in.get(address(model, "change", row.pk))
    assert seen.status_code == 200
    is_own = model is AllowRule or (model is Catalog and row.cluster is None)
    assert (b'name="_save"' in seen.content) is is_own


@WRITTEN_BY_SYNC
def test_no_row_can_be_added_or_changed(signed_in: Client, model: Any) -> None:
    row = model._default_manager.first()
    assert signed_in.get(address(model, "add")).status_code == 403
    assert signed_in.post(address(model, "change", row.pk), {}).status_code == 403
    deleting = signed_in.get(address(model, "delete", row.pk)).status_code
    assert deleting == (200 if model is ApiToken else 403)


@MODELS
def test_a_list_costs_a_fixed_number_of_queries(
    signed_in: Client, model: Any, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(14):
        signed_in.get(address(model, "changelist"))


@pytest.mark.parametrize("page", ["changelist", "change"])
def test_a_digest_and_binary_data_are_never_shown(signed_in: Client, page: str) -> None:
    token = ApiToken.objects.get()
    args: list[object] = [token.pk] if page == "change" else []
    assert token.digest.encode() not in signed_in.get(address(ApiToken, page, *args)).content
    blob = apps.get_model("catalogs", "Blob")
    args = [blob._default_manager.get(size=len(BLOB)).pk] if page == "change" else []
    assert b"\\x28\\xb5\\x2f" not in signed_in.get(address(blob, page, *args)).content


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
    bob.user_permissions.add(Permission.objects.get(codename="view_package"))
    client.force_login(bob)
    package = apps.get_model("catalogs", "Package")
    assert client.get(address(package, "changelist")).status_code == 200
    assert (
        client.get(address(apps.get_model("catalogs", "Bundle"), "changelist")).status_code == 403
    )


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
    assert b"1 notification(s) will be sent again." in done.content
    row.refresh_from_db()
    assert (row.state, row.error) == (Notification.State.PENDING, "")
    again = signed_in.post(address(Notification, "changelist"), chosen, follow=True)
    assert b"1 left out" in again.content


def test_admin_lists_say_what_a_person_looks_for(signed_in: Client) -> None:
    def listed(model: Any) -> str:
        return signed_in.get(address(model, "changelist")).content.decode()

    assert "prod: PlatformOperator etcd" in listed(Notification)
    assert "new → Failed" in listed(Notification)
    assert "etcd &lt;b&gt;odd&lt;/b&gt;" in listed(UnknownMessage)
    assert "crd-stored-version-gone" in listed(CRDState)
    assert ">7<" in listed(CopyReport)
