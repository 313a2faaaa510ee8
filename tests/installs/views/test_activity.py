"""Activity: actions and sync runs, and one action followed until its end."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from installs.actions import follow, record
from installs.actions.objects import DryRun
from installs.actions.plan_changes import plan_upgrade
from installs.models import Action, ActionBatch, Component, InstallRequest, Operator
from installs.models.steps import Apply, to_json
from olmweb.models import Cluster, SyncRun
from olmweb.web.pagination import PAGE_SIZE
from tests.factories import make_catalog, make_component, make_operator, make_package
from tests.worlds.html import assert_fragment, assert_page
from tests.worlds.operators import MODE, make_action, make_failing
from tests.worlds.subscriptions import make_pending_approval, make_subscription

pytestmark = pytest.mark.django_db
EVIL = '"><img src=x onerror=alert(1)>'
POLL = {"HX-Request": "true"}


def run(**fields: Any) -> SyncRun:
    values = {"kind": "cluster", "target": "prod", "outcome": "changed", **fields}
    return SyncRun.objects.create(finished_at=timezone.now(), **values)


def test_before_anything_was_asked_it_says_what_will_be_here(reader: Client) -> None:
    assert "No actions yet" in assert_page(reader.get("/activity/")).text
    syncs = assert_page(reader.get("/activity/", {"show": "syncs"})).text
    assert "No sync run yet" in syncs
    assert "The overview shows the steps to the first one. To the overview" in syncs


def test_a_hint_stands_once_a_page_for_each_target(reader: Client) -> None:
    failed = {"outcome": "failed", "error_text": "no pod", "error_hint": "Look at the pods."}
    for target in ("prod", "prod", "lab"):
        run(target=target, **failed)
    text = assert_page(reader.get("/activity/", {"show": "syncs"})).text
    assert (text.count("no pod"), text.count("Look at the pods.")) == (3, 2)


def test_what_people_did_is_not_public(
    client: Client, prod: Cluster, alice: Any, settings: Any
) -> None:
    settings.PUBLIC_READ = True
    action = make_action(prod, "etcd", user=alice, as_user="alice@corp")
    batch = ActionBatch.objects.create(cluster=prod, path=action.path, user=alice)
    asked = InstallRequest.objects.create(
        cluster=prod, package="etcd", path=action.path, reason="for the payroll", user=alice
    )
    private = [
        "/activity/?show=actions", "/activity/requests/", f"/activity/requests/{asked.pk}",
        f"/activity/actions/{action.pk}", f"/activity/bulk-installs/{batch.pk}",
    ]  # fmt: skip
    for address in private:
        assert client.get(address)["Location"].startswith("/login/?next="), address
    for name in ("actions", f"actions/{action.pk}", "requests", f"requests/{asked.pk}",
                 f"bulk-installs/{batch.pk}"):  # fmt: skip
        assert client.get(f"/api/v1/{name}").status_code == 401, name
    for address in ("/", "/activity/", "/operators/", "/metrics"):
        text = client.get(address).content.decode()
        assert "alice" not in text, address
        assert "payroll" not in text, address
    assert "No sync run yet" in assert_page(client.get("/activity/")).text


def test_actions_say_what_who_as_whom_and_how_it_ended(
    reader: Client, prod: Cluster, alice: Any
) -> None:
    now = timezone.now()
    make_action(
        prod, "etcd", user=alice, as_user="alice@corp", state="failed",
        outcome="It failed to unpack.",
        created_at=now - timedelta(seconds=20), finished_at=now,
    )  # fmt: skip
    page = assert_page(reader.get("/activity/"))
    assert "Install etcd" in page.text
    assert "It failed to unpack." in page.text
    assert "alice as alice@corp" in page.text
    assert "20 s" in page.text


def test_sync_runs_say_what_they_did_or_why_they_failed(reader: Client, prod: Cluster) -> None:
    run(counts={"rows_written": 93, "requests": 9, "kinds": {"a": 1}, "bytes_read": 0})
    run(counts={"rows_written": 1, "bytes_read": 132_120_576, "seconds": 285.312})
    run(outcome="failed", error_text="connection refused", error_hint="Is it up?")
    page = assert_page(reader.get("/activity/", {"show": "syncs"}))
    assert "rows written 93" in page.text
    assert "requests 9" in page.text
    assert page.text.count("bytes read") == 1
    assert "bytes read 126 MiB" in page.text
    assert "rows written 1 " in page.text
    assert "285.312" not in page.text, "the duration has a column"
    assert "connection refused Is it up?" in page.text


def test_a_sync_run_of_a_catalog_without_cluster_names_the_catalog(reader: Client) -> None:
    run(kind="catalog", target="-/team-catalog", cluster=None)
    page = assert_page(reader.get("/activity/", {"show": "syncs"}))
    assert "team-catalog catalog, no cluster" in page.text
    assert "-/team-catalog" not in page.text


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"state": "failed"}, "1 action"),
        ({"cluster": "prod"}, "2 actions"),
        ({"cluster": "nope"}, "0 actions"),
        ({"q": "etc"}, "1 action"),
        ({"user": "olivia"}, "2 actions"),
        ({"user": "nobody"}, "0 actions"),
        ({"show": "syncs", "outcome": "failed"}, "1 sync run"),
        ({"show": "syncs", "q": "refused"}, "1 sync run"),
        ({"show": "syncs", "cluster": "prod"}, "2 sync runs"),
    ],
)
def test_filters_narrow(
    reader: Client, prod: Cluster, params: dict[str, str], expected: str
) -> None:
    make_action(prod, "etcd")
    make_action(prod, "other", state="failed")
    run()
    run(outcome="failed", error_text="connection refused")
    assert expected in assert_page(reader.get("/activity/", params)).text


@pytest.mark.parametrize(
    "params",
    [{"show": "odd"}, {"state": "odd"}, {"show": "syncs", "outcome": "odd"}, {"q": "\x00"},
     {"sort": "colour"}],
)  # fmt: skip
def test_what_can_not_be_read_is_refused(reader: Client, params: dict[str, str]) -> None:
    assert_page(reader.get("/activity/", params), 400)


def test_old_actions_are_on_the_next_page(reader: Client, prod: Cluster) -> None:
    for number in range(PAGE_SIZE + 10):
        make_action(prod, f"op-{number}", state="succeeded")
    first = assert_page(reader.get("/activity/"))
    following = [link for link in first.links if "page=2" in link]
    second = assert_page(reader.get("/activity/" + following[0]))
    actions = [
        {link for link in page.links if link.startswith("/activity/actions/")}
        for page in (first, second)
    ]
    assert len(actions[0]) == PAGE_SIZE
    assert len(actions[1]) == 10
    assert not actions[0] & actions[1]


def test_lists_cost_at_most_twelve_queries_and_polls_little(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        make_action(prod, f"op-{number}")
        run()
    for show in ("actions", "syncs"):
        with django_assert_max_num_queries(12):
            response = reader.get("/activity/", {"show": show}, headers=POLL)
        assert_fragment(response)
        rev = response.content.decode().split("rev=")[1][:18]
        with django_assert_max_num_queries(4):
            same = reader.get("/activity/", {"show": show, "rev": rev}, headers=POLL)
        assert same.status_code == 204
        run()
        make_action(prod, f"new-{show}")
        changed = reader.get("/activity/", {"show": show, "rev": rev}, headers=POLL)
        assert changed.status_code == 200


# --- one action --------------------------------------------------------------------------------


def test_an_action_under_way_shows_what_was_sent_and_is_followed(
    reader: Client, prod: Cluster
) -> None:
    action = make_action(prod, "etcd")
    page = assert_page(reader.get(f"/activity/actions/{action.pk}"))
    assert "OLM Web follows it" in page.text
    assert "kind: PlatformOperator" in page.text
    assert "olivia" in page.text
    assert "Dry run Accepted" in page.text
    assert "data-live" in reader.get(f"/activity/actions/{action.pk}").content.decode()


def test_an_action_in_progress_has_no_healthy_badge_and_says_that_its_operator_is_healthy(
    reader: Client, prod: Cluster
) -> None:
    operator = make_operator(cluster=prod, uid="u-1")
    action = make_action(prod, verb="upgrade", object_uid="u-1", target="etcd.v1.1.0")
    url = f"/activity/actions/{action.pk}"
    earlier = assert_page(reader.get(url))
    assert "OLM Web follows it until etcd is healthy or fails." in earlier.text
    Action.objects.update(target="etcd.v1.0.0")
    reached = assert_page(reader.get(url))
    outcome = "etcd is healthy. OLM Web records the outcome at its next check, within seconds."
    assert outcome in reached.text
    for page in (earlier, reached):
        assert "In progress" in page.text
        assert "View operator etcd Healthy" not in page.text
    operator.health = "Failed"
    operator.save()
    Cluster.objects.update(revision=7)
    failing = assert_page(reader.get(url)).text
    assert "View why etcd fails Failed" in failing
    Action.objects.update(state="succeeded")
    operator.health = "Healthy"
    operator.save()
    Cluster.objects.update(revision=8)
    ended = assert_page(reader.get(url)).text
    assert "View operator etcd Healthy" in ended


def test_an_action_that_no_worker_takes_says_what_to_check(
    reader: Client, prod: Cluster, settings: Any
) -> None:
    settings.EMBEDDED = False
    action = make_action(prod, state="pending", sent_at=None)
    url = f"/activity/actions/{action.pk}"
    page = reader.get(url)
    assert "A worker applies it to the cluster next." in assert_page(page).text
    Action.objects.update(created_at=timezone.now() - timedelta(minutes=5))
    polled = reader.get(url, {"rev": page.context["rev"]}, headers={"HX-Request": "true"})
    assert polled.status_code == 200
    text = assert_page(reader.get(url)).text
    assert "no worker has applied it for 5 min . Check that a worker of the queue actions" in text
    assert "15 minutes after the request" in text


def test_an_embedded_server_is_not_sent_to_workers_and_redis(
    reader: Client, prod: Cluster, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.EMBEDDED = True
    monkeypatch.setattr(follow, "ACTION_TIMEOUT", timedelta(minutes=20))
    action = make_action(prod, state="pending", sent_at=None)
    Action.objects.update(created_at=timezone.now() - timedelta(minutes=5))
    text = assert_page(reader.get(f"/activity/actions/{action.pk}")).text
    assert "The log of OLM Web says more" in text
    assert "Redis" not in text
    assert "20 minutes after the request" in text


def test_following_ends_with_286_and_the_cause(reader: Client, prod: Cluster) -> None:
    action = make_action(prod, "mode-00")
    path = f"/activity/actions/{action.pk}"
    rev = reader.get(path).content.decode().split("rev=")[1][:18]
    assert reader.get(path, {"rev": rev}, headers=POLL).status_code == 204
    make_failing(prod, "mode-00", MODE)
    Cluster.objects.update(revision=5)
    moving = reader.get(path, {"rev": rev}, headers=POLL)
    page = assert_fragment(moving)
    assert "BundleDeployment failed" in page.text
    Action.objects.update(
        state="failed", outcome="mode-00 failed.", finding="allnamespaces-required",
        finished_at=timezone.now(),
    )  # fmt: skip
    ended = reader.get(path, {"rev": rev}, headers=POLL)
    page = assert_fragment(ended, 286)
    assert page.text.count("AllNamespaces install mode required by PlatformOperator") == 1
    assert "kubectl delete platformoperator mode-00" in page.text
    assert "data-live" not in ended.content.decode()
    assert_page(reader.get(path))


def test_the_page_of_an_approval_follows_to_the_installplan_of_the_next_version(
    client: Client, prod: Cluster, olivia: Any
) -> None:
    grafana = make_pending_approval(prod)
    now = timezone.now()
    action = make_action(
        prod, "install-1", verb="approve", path="InstallPlan", namespace=grafana.namespace,
        target="grafana.v1.0.0", state="succeeded", finished_at=now,
    )  # fmt: skip
    Operator.objects.filter(pk=grafana.pk).update(
        health="Healthy", details={"installed_csv": "grafana.v1.0.0"}
    )
    client.force_login(olivia)
    path = f"/activity/actions/{action.pk}"
    rev = client.get(path).content.decode().split("rev=")[1][:18]
    assert client.get(path, {"rev": rev}, headers=POLL).status_code == 204
    grafana.details["installed_csv"] = "grafana.v1.0.0"
    grafana.save()
    Cluster.objects.update(revision=5)
    followed = client.get(path, {"rev": rev}, headers=POLL)
    text = assert_fragment(followed).text
    assert "Approve InstallPlan install-grafana: 2 operators" in text
    assert "olm-approve-next" in followed.content.decode(), "a second click does not confirm it"
    Action.objects.update(finished_at=now - timedelta(minutes=2))
    assert client.get(path, {"rev": rev}, headers=POLL).status_code == 286


def test_after_the_last_approval_the_page_says_that_the_version_is_the_newest(
    reader: Client, prod: Cluster
) -> None:
    grafana = make_subscription(prod)
    action = make_action(
        prod, "install-1", verb="approve", path="InstallPlan", namespace=grafana.namespace,
        target="grafana.v1.0.0", state="succeeded",
    )  # fmt: skip
    path = f"/activity/actions/{action.pk}"
    newest = "1.0.0 is the newest version of channel stable."
    assert newest not in assert_page(reader.get(path)).text, "the catalog was not read"
    catalog = make_catalog(
        cluster=prod, name=grafana.catalog, namespace=grafana.catalog_namespace,
        source_kind="CatalogSource",
    )  # fmt: skip
    package = make_package(catalog=catalog, name="grafana", channels={"stable": ("1.0.0",)})
    assert newest in assert_page(reader.get(path)).text
    package.channels.update(head="grafana.v1.1.0")
    assert newest not in assert_page(reader.get(path)).text


def test_a_refused_action_shows_the_clusters_words(reader: Client, prod: Cluster) -> None:
    action = make_action(
        prod, state="refused", outcome="olivia may not create this.", outcome_hint="Ask for RBAC.",
        outcome_code="forbidden", sent_at=None, finished_at=timezone.now(),
        dry_run={"ok": False, "message": "forbidden", "fields": {}},
    )  # fmt: skip
    page = assert_page(reader.get(f"/activity/actions/{action.pk}"))
    assert "olivia may not create this." in page.text
    assert "Ask for RBAC." in page.text
    assert "Refused forbidden" in page.text


def test_a_removal_that_left_something_links_to_the_leftovers(
    reader: Client, prod: Cluster
) -> None:
    action = make_action(
        prod, verb="remove", path="Subscription", namespace="apps", state="succeeded",
        outcome="Subscription etcd is removed.", finished_at=timezone.now(), stored_steps=[],
        outcome_hint="Left on the cluster: OperatorGroup apps in namespace apps.",
    )  # fmt: skip
    path = f"/activity/actions/{action.pk}"
    words = "View and clean up leftovers"
    response = reader.get(path)
    assert f"OperatorGroup apps in namespace apps. {words}" in assert_page(response).text
    link = f'<a href="/operators/prod/Subscription/apps/etcd">{words}</a>'
    assert link in response.content.decode()
    assert "View the history" not in assert_page(response).text, "it is the same page"
    Action.objects.update(outcome_hint="")
    text = assert_page(reader.get(path)).text
    assert words not in text
    assert "View the history of etcd" in text


def test_a_removal_names_what_it_deletes(reader: Client, prod: Cluster) -> None:
    action = make_action(prod, verb="remove", stored_steps=[])
    assert (
        "Deleted resources PlatformOperator etcd"
        in assert_page(reader.get(f"/activity/actions/{action.pk}")).text
    )


def test_an_action_leads_to_the_approval_that_its_operator_requires(
    client: Client, prod: Cluster, olivia: Any, bob: Any
) -> None:
    grafana = make_pending_approval(prod)
    action = make_action(
        prod, grafana.name, path="Subscription", namespace=grafana.namespace, state="succeeded"
    )
    plan = grafana.details["plan"]
    approval = f"/installplans/prod/{grafana.namespace}/{plan}/approve"
    client.force_login(olivia)
    response = client.get(f"/activity/actions/{action.pk}")
    page = assert_page(response)
    assert f"InstallPlan {plan} requires approval" in page.text
    assert "upgrades grafana.v1.0.0 to grafana.v1.1.0" in page.text, (
        "what it changes, at the button"
    )
    assert f'action="{approval}"' in response.content.decode()
    assert f"{approval}?continued={action.pk}" in page.links
    assert client.get(approval).status_code == 200
    assert f"/operators/prod/Subscription/{grafana.namespace}/grafana" in page.links
    client.force_login(bob)
    assert approval not in client.get(f"/activity/actions/{action.pk}").content.decode()


def test_the_button_on_the_page_of_an_action_approves_what_is_shown_beside_it(
    client: Client, prod: Cluster, olivia: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "dry_run", lambda *_: DryRun(True, "would be accepted"))
    grafana = make_pending_approval(prod)
    action = make_action(
        prod, grafana.name, path="Subscription", namespace=grafana.namespace, state="succeeded"
    )
    client.force_login(olivia)
    form = client.get(f"/activity/actions/{action.pk}").context["next_steps"][0][1]
    address = f"/installplans/prod/{grafana.namespace}/{grafana.details['plan']}/approve"
    sent = {"key": form.key, "reviewed": form.reviewed, "step": "confirm"}

    plan = Component.objects.get(kind="InstallPlan")
    Component.objects.filter(pk=plan.pk).update(
        details=plan.details | {"csvs": [*plan.details["csvs"], "tempo.v3.0.0"]}
    )
    changed = assert_page(client.post(address, sent), 422)
    assert "Form changed, nothing applied. Review again." in changed.text
    assert Action.objects.count() == 1
    plan.save()

    response = client.post(address, sent)
    assert response.status_code == 303
    approval = Action.objects.get(verb="approve")
    assert response["Location"] == f"/activity/actions/{approval.pk}"
    assert approval.target == "grafana.v1.1.0,loki.v2.1.0"
    assert client.post(address, sent)["Location"] == response["Location"], "pressed twice"
    assert Action.objects.count() == 2


def make_waiting_installation(prod: Cluster) -> tuple[Operator, Action]:
    """A Subscription that requires approval, and the action that installed it."""
    grafana = make_pending_approval(prod)
    action = make_action(
        prod, grafana.name, path="Subscription", namespace=grafana.namespace, state="succeeded",
        package=grafana.package, outcome_code="needs-approval",
        outcome=f"grafana is subscribed; InstallPlan {grafana.details['plan']} requires approval.",
        finished_at=timezone.now() - timedelta(hours=1),
    )  # fmt: skip
    return grafana, action


def test_the_page_of_a_waiting_installation_says_once_that_it_requires_approval(
    client: Client, prod: Cluster, olivia: Any
) -> None:
    _grafana, action = make_waiting_installation(prod)
    client.force_login(olivia)
    response = client.get(f"/activity/actions/{action.pk}")
    text = assert_page(response).text
    assert text.count("requires approval") == 1
    assert text.count("Needs approval") == 1
    assert "Review InstallPlan" not in text, "the first one is shown with its button"


def test_after_an_approval_the_next_installplan_is_shown_as_the_first(
    client: Client, prod: Cluster, olivia: Any
) -> None:
    grafana, action = make_waiting_installation(prod)
    approval = make_action(
        prod, "install-1", verb="approve", path="InstallPlan", namespace=grafana.namespace,
        target="grafana.v1.0.0", package=grafana.package, state="succeeded",
    )  # fmt: skip
    client.force_login(olivia)
    plan = grafana.details["plan"]
    for row in (action, approval):
        content = client.get(f"/activity/actions/{row.pk}").content.decode()
        assert "Review InstallPlan" not in content
        assert "What the InstallPlan changes" in content
        assert content.count(f'id="approve-{plan}"') == 1, "once, though it is about two operators"
        assert f"Next: InstallPlan {plan} requires approval" in " ".join(content.split())


def test_an_approval_is_followed_on_the_page_where_it_was_requested(
    client: Client, prod: Cluster, olivia: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "dry_run", lambda *_: DryRun(True, "would be accepted"))
    grafana, action = make_waiting_installation(prod)
    client.force_login(olivia)
    path = f"/activity/actions/{action.pk}"
    response = client.get(path)
    assert 'hx-target="#live"' in response.content.decode()
    form = response.context["next_steps"][0][1]
    address = f"/installplans/prod/{grafana.namespace}/{grafana.details['plan']}/approve"
    sent = {"key": form.key, "reviewed": form.reviewed, "step": "confirm"}

    here = POLL | {"HX-Current-URL": f"http://testserver{path}", "HX-Target": "live"}
    approved = client.post(address, sent | {"continued": str(action.pk)}, headers=here)
    assert (approved.status_code, approved["Location"]) == (303, f"{path}?rev=")
    approval = Action.objects.get(verb="approve")
    followed = client.get(approved["Location"], headers=here)
    page = assert_fragment(followed)
    assert "HX-Push-Url" not in followed
    assert "data-focus" in followed.content.decode(), "the outcome is the news"
    assert "data-live" in followed.content.decode()
    assert f"{approval.title} requested" in page.text
    assert "Before that Succeeded Install grafana" in page.text
    assert "Approve InstallPlan" not in page.text, "it is under way"
    assert "data-focus" not in client.get(path).content.decode()
    # From another page, and without JavaScript, the page of the installation is opened.
    sent["continued"] = str(action.pk)
    elsewhere = client.post(address, sent, headers=POLL)
    assert elsewhere["HX-Redirect"] == path
    plain = client.post(address, sent)
    assert (plain.status_code, plain["Location"]) == (303, path)
    assert Action.objects.count() == 2


def test_the_page_of_an_installation_is_final_after_its_last_approval(
    client: Client, prod: Cluster, olivia: Any
) -> None:
    grafana, action = make_waiting_installation(prod)
    client.force_login(olivia)
    path = f"/activity/actions/{action.pk}"

    def approve(name: str, target: str, **fields: Any) -> Action:
        return make_action(
            prod, name, verb="approve", path="InstallPlan", namespace=grafana.namespace,
            target=target, package=grafana.package, **fields,
        )  # fmt: skip

    assert client.get(path, {"rev": "old"}, headers=POLL).status_code == 286
    ended = timezone.now() - timedelta(hours=1)
    approve(
        "install-1", "grafana.v1.0.0", state="succeeded", finished_at=ended, outcome="The first."
    )
    last = approve("install-2", "grafana.v1.1.0", outcome="The second.")
    moving = client.get(path, {"rev": "old"}, headers=POLL)
    page = assert_fragment(moving)
    assert page.text.index("The second.") < page.text.index("Before that")
    assert page.text.index("Before that") < page.text.index("The first.")
    assert page.text.index("The first.") < page.text.index("grafana is subscribed")
    assert "Manifests of “Install grafana”" in page.text
    rev = moving.content.decode().split("rev=")[1][:18]
    assert client.get(path, {"rev": rev}, headers=POLL).status_code == 204
    Action.objects.filter(pk=last.pk).update(
        state="failed", finding="allnamespaces-required", finished_at=ended
    )
    failed = client.get(path, {"rev": rev}, headers=POLL)
    assert (
        "AllNamespaces install mode required by PlatformOperator"
        in assert_fragment(failed, 286).text
    )
    # The page of the first approval shows the same; approvals after a removal are of another one.
    first = Action.objects.get(name="install-1")
    page = assert_page(client.get(f"/activity/actions/{first.pk}"))
    assert "AllNamespaces install mode required by PlatformOperator" in page.text
    assert "View operator grafana" in page.text or "View why grafana fails" in page.text
    make_action(
        prod, "grafana", verb="remove", path="Subscription", namespace=grafana.namespace,
        package=grafana.package, state="succeeded",
    )  # fmt: skip
    approve("install-3", "grafana.v1.1.0", outcome="Of another installation.")
    assert "Of another installation" not in assert_page(client.get(path)).text


def test_the_removal_on_the_page_of_an_action_is_followed_there(
    client: Client, prod: Cluster, olivia: Any, bob: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "dry_run", lambda *_: DryRun(True, "would be accepted"))
    grafana = make_subscription(prod, installed="1.0.0", current="1.0.0")
    action = make_action(
        prod, grafana.name, path="Subscription", namespace=grafana.namespace, state="succeeded",
        package=grafana.package, finished_at=timezone.now(),
    )  # fmt: skip
    client.force_login(bob)
    path = f"/activity/actions/{action.pk}"
    assert "Remove grafana" not in assert_page(client.get(path)).text
    client.force_login(olivia)
    assert "Remove grafana" in assert_page(client.get(path)).text
    address = f"/operators/prod/Subscription/{grafana.namespace}/grafana/remove"
    assert f'hx-get="{address}?continued={action.pk}"' in client.get(path).content.decode()
    opened = client.get(address, {"continued": action.pk}, headers=POLL)
    assert "What will be deleted" in assert_fragment(opened).text
    assert f'name="continued" value="{action.pk}"' in opened.content.decode()

    sent = {name: opened.context[name] for name in ("key", "reviewed", "continued")}
    here = POLL | {"HX-Current-URL": f"http://testserver{path}", "HX-Target": "form"}
    unsure = client.post(address, sent, headers=here)
    assert "Tick the box" in assert_fragment(unsure, 422).text
    removed = client.post(address, sent | {"sure": "yes"}, headers=here)
    assert removed["HX-Redirect"] == path
    Action.objects.filter(verb="remove").update(
        state="succeeded", outcome="Subscription grafana is removed.",
        outcome_hint="Left on the cluster: Namespace apps.", finished_at=timezone.now(),
    )  # fmt: skip
    Operator.objects.all().delete()
    page = assert_page(client.get(path))
    assert "Succeeded Latest step: Remove grafana requested" in page.text
    heading = client.get(path).content.decode().partition("<h1")[2].partition("</h1>")[0]
    assert "Remove grafana" in heading, "grafana is not installed any more"
    assert "Details of “Install grafana”" in page.text
    assert "Left on the cluster: Namespace apps. View and clean up leftovers" in page.text
    assert "Before that Succeeded Install grafana" in page.text
    assert client.get(path).context["final"], "nothing changes any more"


def test_a_removal_that_failed_ends_no_installation(
    client: Client, prod: Cluster, olivia: Any
) -> None:
    grafana, action = make_waiting_installation(prod)
    of = {"namespace": grafana.namespace, "package": grafana.package}
    make_action(prod, "grafana", verb="remove", path="Subscription", state="refused", **of)
    make_action(
        prod, "install-1", verb="approve", path="InstallPlan", state="succeeded",
        target="grafana.v1.0.0", **of,
    )  # fmt: skip
    client.force_login(olivia)
    page = assert_page(client.get(f"/activity/actions/{action.pk}"))
    assert (
        "Succeeded Latest step: Approve grafana 1.0.0 (InstallPlan install-1) requested"
        in page.text
    )
    plan = grafana.details["plan"]
    assert f"InstallPlan {plan} requires approval." in page.text, "another one was approved"
    Action.objects.filter(name="install-1").update(name=plan)
    page = assert_page(client.get(f"/activity/actions/{action.pk}"))
    assert f"grafana is subscribed; InstallPlan {plan} was approved later." in page.text
    assert "needs-approval" not in page.text
    assert "Refused Remove grafana" in page.text


def test_an_approval_is_named_by_what_it_installs(reader: Client, prod: Cluster) -> None:
    titles = {
        "kettle.v1.2.0": "Approve kettle 1.2.0 (InstallPlan install-gnbql)",
        "kettle": "Approve kettle (InstallPlan install-gnbql)",
        "kettle.v1.2.0,tea.v1": "Approve 2 operators (InstallPlan install-gnbql)",
        "": "Approve InstallPlan install-gnbql",
    }
    for target, title in titles.items():
        action = make_action(
            prod, "install-gnbql", verb="approve", path="InstallPlan", target=target,
            state="succeeded",
        )  # fmt: skip
        page = assert_page(reader.get(f"/activity/actions/{action.pk}"))
        assert f"<title>{title} ·" in reader.get(f"/activity/actions/{action.pk}").content.decode()
        assert title in page.text
        assert title in assert_page(reader.get("/activity/")).text


def test_an_approval_that_the_page_would_not_list_is_followed_on_its_own(
    client: Client, prod: Cluster, olivia: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "dry_run", lambda *_: DryRun(True, "would be accepted"))
    grafana, action = make_waiting_installation(prod)
    other = make_action(prod, "etcd", state="succeeded")
    client.force_login(olivia)
    form = client.get(f"/activity/actions/{action.pk}").context["next_steps"][0][1]
    address = f"/installplans/prod/{grafana.namespace}/{grafana.details['plan']}/approve"
    sent = {"key": form.key, "reviewed": form.reviewed, "step": "confirm"}
    for continued in (str(other.pk), "4711", "9" * 20, "x", "²", ""):
        answer = client.post(address, sent | {"continued": continued})
        approval = Action.objects.get(verb="approve")
        assert answer["Location"] == f"/activity/actions/{approval.pk}", continued


def test_a_refused_approval_keeps_the_page_that_it_continues(
    client: Client, prod: Cluster, olivia: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = DryRun(False, "olivia may not patch this.")
    monkeypatch.setattr(record, "dry_run", lambda *_: refused)
    grafana, action = make_waiting_installation(prod)
    client.force_login(olivia)
    path = f"/activity/actions/{action.pk}"
    form = client.get(path).context["next_steps"][0][1]
    address = f"/installplans/prod/{grafana.namespace}/{grafana.details['plan']}/approve"
    sent = {"key": form.key, "reviewed": form.reviewed, "step": "confirm"}
    here = POLL | {"HX-Current-URL": f"http://testserver{path}"}
    answer = client.post(address, sent | {"continued": str(action.pk)}, headers=here)
    page = assert_fragment(answer, 422)
    assert "olivia may not patch this." in page.text
    html = answer.content.decode()
    assert f'<input type="hidden" name="continued" value="{action.pk}">' in html
    assert 'id="form"' in html


def test_what_can_have_resolved_a_blocker_leads_back_to_upgrade_readiness(
    reader: Client, prod: Cluster
) -> None:
    done = make_action(prod, "install-1", verb="approve", state="succeeded", of_blocker=True)
    failed = make_action(prod, "etcd", verb="remove", state="failed", of_blocker=True)
    other = make_action(prod, "install-2", verb="approve", state="succeeded")
    for action in (done, failed, other):
        page = assert_page(reader.get(f"/activity/actions/{action.pk}"))
        assert ("/readiness/?cluster=prod" in page.links) == (action == done)


def test_readiness_is_shown_on_the_page_of_a_change_of_a_blocker_only(
    reader: Client, prod: Cluster, olivia: Any
) -> None:
    prod.kinds["ClusterVersion"] = {"state": "served", "version": "v1"}
    prod.version = "4.16.3"
    prod.save()
    details = {"version": "4.16.3"}
    make_component(cluster=prod, kind="ClusterVersion", name="version", details=details)
    blocking = {"max_openshift": ["4.16"], "min_kube": ""}
    for name in ("grafana", "loki"):
        operator = make_subscription(prod, name)
        make_component(
            operator=operator,
            kind="ClusterServiceVersion",
            namespace=operator.namespace,
            name=operator.bundle,
            details=blocking if name == "loki" else {"max_openshift": [], "min_kube": ""},
        )
        action = record.request(plan_upgrade(operator, {"channel": "candidate"}), olivia)
        assert action.of_blocker == (name == "loki")
        Action.objects.filter(pk=action.pk).update(state="succeeded")
        page = assert_page(reader.get(f"/activity/actions/{action.pk}"))
        verdict = "Blocked The update can't start: 1 blocker for OpenShift 4.17."
        assert (verdict in page.text) == (name == "loki")
        assert ("Upgrade readiness of prod" in page.text) == (name == "loki")


def test_an_installation_that_waits_for_an_approval_is_not_shown_as_succeeded(
    reader: Client, prod: Cluster
) -> None:
    action = make_action(prod, "etcd", state="succeeded", outcome_code="needs-approval")
    page = reader.get(f"/activity/actions/{action.pk}").content.decode()
    outcome = page.split('aria-label="Outcome"')[1].split("</section>")[0]
    assert "Needs approval" in outcome
    assert "Succeeded" not in outcome


def test_an_approval_leads_to_every_operator_of_its_plan(reader: Client, prod: Cluster) -> None:
    grafana = make_pending_approval(prod)
    action = make_action(
        prod, grafana.details["plan"], verb="approve", path="InstallPlan",
        namespace=grafana.namespace, target="grafana.v1.1.0,loki.v2.1.0",
    )  # fmt: skip
    page = assert_page(reader.get(f"/activity/actions/{action.pk}"))
    for name in ("grafana", "loki"):
        assert f"View operator {name}" in page.text
        assert f"/operators/prod/Subscription/{grafana.namespace}/{name}" in page.links


def test_a_failed_action_leads_to_the_failing_step(reader: Client, prod: Cluster) -> None:
    make_failing(prod, "mode-00", MODE)
    action = make_action(prod, "mode-00", state="failed", finding="allnamespaces-required")
    page = assert_page(reader.get(f"/activity/actions/{action.pk}"))
    assert "View why mode-00 fails" in page.text
    link = "/operators/prod/PlatformOperator/-/mode-00#install-progress"
    assert link in page.links
    assert 'id="install-progress"' in reader.get(link).content.decode()


@pytest.mark.parametrize("pk", ["4711", str(2**63), "9" * 40])
def test_an_unknown_action_is_not_found(reader: Client, pk: str) -> None:
    assert "There is no action" in assert_page(reader.get(f"/activity/actions/{pk}"), 404).text


def test_hostile_texts_are_escaped(reader: Client, prod: Cluster) -> None:
    action = make_action(
        prod, EVIL, state="failed", outcome=EVIL, outcome_hint=EVIL, as_user=EVIL,
        stored_steps=to_json([Apply({"a": EVIL}, main=True)]), finding="no-such-finding",
    )  # fmt: skip
    for path in ("/activity/", f"/activity/actions/{action.pk}"):
        page = assert_page(reader.get(path))
        assert "img" not in page.tags[page.tags.index("main") :]


def test_the_page_of_an_action_keeps_its_title_when_others_continue_it(
    client: Client, prod: Cluster, olivia: Any
) -> None:
    grafana, action = make_waiting_installation(prod)
    client.force_login(olivia)
    path = f"/activity/actions/{action.pk}"
    later = make_action(
        prod, "install-1", verb="approve", path="InstallPlan", namespace=grafana.namespace,
        target="grafana.v1.1.0", package=grafana.package, state="succeeded",
    )  # fmt: skip
    update = client.get(path, {"rev": "old"}, headers=POLL)
    assert "<title" not in update.content.decode(), "a live update leaves the title"
    assert f"Succeeded Latest step: {later.title} requested" in assert_fragment(update, 286).text
    page = client.get(path)
    assert f"<title>{action.title} · OLM Web</title>" in page.content.decode()
    heading = page.content.decode().partition("<h1")[2].partition("</h1>")[0]
    assert action.title in heading
    assert "Manifests of “Install grafana”" in assert_page(page).text
