"""Requests by ClusterExtension and by Subscription: asked, approved and carried out, declined."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from catalogs.models import Catalog, Package
from installs.models import Action, InstallRequest, Operator
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_package, make_prediction, require_field
from tests.installs.actions.test_actions_extension import catalog_of, make_cluster_read
from tests.installs.actions.test_actions_followed import carry_out
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
NAME, NAMESPACE = "queue-demo", "queues"
OLD, NEW = "3.0.0", "3.0.1"
PATHS = ("ClusterExtension", "Subscription")
REASON = "Team blue needs queues"


@pytest.fixture
def cluster(sandbox: Sandbox) -> Cluster:
    sandbox.store.delete("ClusterExtension", "queue")  # installs the same package
    return make_cluster_read()


@pytest.fixture(params=PATHS)
def package(request: Any, cluster: Cluster) -> Package:
    """Of the catalog that the path installs from; its head is predicted to fail."""
    if request.param == "ClusterExtension":
        catalog = catalog_of(cluster, "redhat-operators")
    else:
        catalog = Catalog.objects.get(
            cluster=cluster, name="redhat-operators", source_kind="CatalogSource"
        )
    made = make_package(name=NAME, catalog=catalog, channels={"stable": (OLD, NEW)})
    for target in ("", "own"):
        make_prediction(
            bundle=made.bundles.get(version=NEW),
            path=request.param,
            rule="some-rule",
            sentence="It would fail for a reason.",
            **({"target": target} if target else {}),
        )
    return made


@pytest.fixture
def path(request: Any, package: Package) -> str:
    kind = package.catalog.source_kind
    return "ClusterExtension" if kind == Catalog.SourceKind.CLUSTER_CATALOG else "Subscription"


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def ask(user: User, package: Package, path: str, version: str = NEW, **more: str) -> Any:
    url = f"/software/prod/{package.catalog.slug}/{package.name}/request"
    form = {"cluster": "prod", "path": path, "version": version, "namespace": NAMESPACE}
    if path == "ClusterExtension":
        form["service_account"] = "installer"
    return signed_in(user).post(url, form | {"reason": REASON} | more)


def asked(user: User, package: Package, path: str, version: str = NEW) -> InstallRequest:
    response = ask(user, package, path, version)
    made = InstallRequest.objects.get()
    assert response["Location"] == page_of(made)
    return made


def page_of(request: InstallRequest) -> str:
    return f"/activity/requests/{request.pk}"


def decide(client: Client, request: InstallRequest, step: str, word: str = "") -> Any:
    seen = client.get(page_of(request)).context["seen"]
    return client.post(page_of(request), {"step": step, "seen": seen, "word": word})


def test_it_is_shown_with_its_verdict_and_carried_out_as_who_approves(
    sandbox: Sandbox, package: Package, path: str, bob: User, olivia: User
) -> None:
    made = asked(bob, package, path)
    client = signed_in(olivia)
    response = client.get(page_of(made))
    page = assert_page(response)
    assert REASON in page.text
    assert f"kind: {path}" in page.text
    assert "Not installable" in page.text
    assert "It would fail for a reason." in page.text
    contents = f"/contents/prod/{package.catalog.slug}/{NAME}/{NAME}.v{NEW}"
    assert any(link.startswith(contents) for link in page.links)
    if path == "ClusterExtension":
        assert "It stays at this version" in page.text
    assert not Action.objects.exists()
    decide(client, made, "approve", "Here you are")
    action = Action.objects.get()
    assert (action.user, action.as_user, action.path) == (olivia, "olivia", path)
    carry_out(action)
    assert action.state == "succeeded", action.outcome
    if path == "Subscription":
        assert action.outcome_code == "needs-approval", "or OLM would go on to a later version"
        assert not sandbox.store.items("ClusterServiceVersion", NAMESPACE)[0]
    else:
        row = Operator.objects.get(kind=path, name=NAME)
        assert (row.health, row.version) == ("Healthy", NEW)
        assert sandbox.store.get("ServiceAccount", "installer", NAMESPACE) is not None
    told = assert_page(signed_in(bob).get(page_of(made))).text
    assert "Here you are" in told
    assert "Approved" in told
    assert f"/activity/actions/{action.pk}" in assert_page(client.get(page_of(made))).links


def test_the_version_that_was_asked_for_is_the_one_that_comes(
    sandbox: Sandbox, package: Package, path: str, bob: User, olivia: User
) -> None:
    made = asked(bob, package, path, OLD)
    decide(signed_in(olivia), made, "approve")
    action = carry_out(Action.objects.get())
    assert action.state == "succeeded", action.outcome
    item = sandbox.store.get(path, NAME, NAMESPACE if path == "Subscription" else "")
    assert item is not None
    if path == "Subscription":
        assert item["status"]["currentCSV"] == f"{NAME}.v{OLD}"
    else:
        assert item["status"]["install"]["bundle"]["version"] == OLD


def test_it_is_declined_with_a_word_and_nothing_reaches_the_cluster(
    sandbox: Sandbox, package: Package, path: str, bob: User, olivia: User
) -> None:
    made = asked(bob, package, path)
    sent = len(sandbox.script.requests)
    assert decide(signed_in(olivia), made, "decline", "Use the other one").status_code == 302
    told = assert_page(signed_in(bob).get(page_of(made))).text
    assert "Declined" in told
    assert "Use the other one" in told
    assert len(sandbox.script.requests) == sent
    assert not Action.objects.exists()
    assert sandbox.store.get("Namespace", NAMESPACE) is None


def test_a_cluster_extension_without_the_service_account_it_needs_is_told_at_its_field(
    cluster: Cluster, bob: User
) -> None:
    package = make_package(name=NAME, catalog=catalog_of(cluster, "redhat-operators"))
    require_field(cluster, "ClusterExtension", "spec.serviceAccount")
    response = ask(bob, package, "ClusterExtension", "1.1.0", service_account="")
    page = assert_page(response, 422)
    assert "Name the ServiceAccount that installs it" in page.text
    assert 'name="service_account"' in response.content.decode()
    assert not InstallRequest.objects.exists()
