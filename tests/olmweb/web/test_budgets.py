"""The budgets of every page, queries and bytes of HTML, with the cluster of the demo and with fifty
that are stale.

The cluster has 84 operators, and 87 packages in its catalogs.
"""

import gzip
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver, resolve

from catalogs.models import Catalog
from catalogs.sync.catalog import sync_catalog
from installs.facts.evaluate import refresh
from installs.models import ActionBatch, InstallRequest, Operator
from installs.state.full_sync import sync_cluster
from olmweb.models import ApiToken, Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.conftest import ROOT
from tests.e2e.screenshots import ACCOUNT_PAGES
from tests.e2e.screenshots import PAGES as READ_PAGES
from tests.factories import make_crd
from tests.worlds.many_clusters import copy_cluster
from tests.worlds.operators import make_action

pytestmark = [pytest.mark.django_db, pytest.mark.revisions]
MAX_QUERIES, MAX_BYTES = 12, 60_000
# Bytes of CSS and JavaScript, compressed. The last two hundred keep a chosen filter focused
# and the number of packages in sight.
MAX_ASSETS = 42_200
BYTES = {"api-docs": 220_000}  # every endpoint of the REST API
CLUSTERS = 50
# Names of routes that answer with a file, a fragment, a redirect, or to a POST.
NOT_PAGES = {
    *("all-changes-feed", "bell", "cancel", "changes-feed", "columns", "events", "export-file"),
    *(
        "graph-mermaid",
        "graph-svg",
        "icon",
        "inspection",
        "livez",
        "logout",
        "metrics",
        "batch-stop",
    ),
    *("oidc_authentication_callback", "oidc_start", "problem-report", "progress", "readyz"),
    *("inspect-images", "sync-now"),
}


@pytest.fixture
def sandbox(whole_scenario: None, tmp_path: Path, settings: Any) -> Iterator[Sandbox]:
    """As the demo's, with controllers that stand still."""
    server = Sandbox(step_seconds=3600)
    server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig", context="sandbox")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    yield server
    server.stop()


@pytest.fixture
def cluster(sandbox: Sandbox) -> Cluster:
    row = Cluster.objects.create(name="sandbox", context="sandbox")
    assert sync_cluster(row).error == ""
    row.refresh_from_db()
    for catalog in Catalog.objects.filter(cluster=row):
        if sync_catalog(catalog).outcome == "changed":
            refresh(catalog, [row])
    assert Operator.objects.filter(cluster=row).count() >= 84
    return row


def pages_of_records(cluster: Cluster, user: Any) -> dict[str, str]:
    """Pages of what people did, with rows for them."""
    waiting = Operator.objects.get(cluster=cluster, name="devspaces", kind="Subscription")
    action = make_action(
        cluster, waiting.name, user=user, path="Subscription", namespace=waiting.namespace,
        state="succeeded",
    )  # fmt: skip
    batch = ActionBatch.objects.create(cluster=cluster, path="PlatformOperator", user=user)
    request = InstallRequest.objects.create(
        cluster=cluster, package="tracing-demo", path="PlatformOperator", reason="x", user=user,
        catalog=Catalog.objects.get(cluster=cluster, slug="redhat-operators"),
    )  # fmt: skip
    plan = waiting.details["plan"]
    make_crd(
        cluster=cluster, name="etcds.example.com", owner_kind="Operator", owner_name="etcd.gone"
    )
    catalog = Catalog.objects.create(
        name="own", slug="own", source_kind=Catalog.SourceKind.URL, source="https://example.com"
    )
    _token, token = ApiToken.issue(user.pk, "read")
    return {
        "token-revoke": f"/account/tokens/{token.pk}/revoke",
        "action": f"/activity/actions/{action.pk}",
        "batch": f"/activity/bulk-installs/{batch.pk}",
        "request": f"/activity/requests/{request.pk}",
        "approve": f"/installplans/sandbox/{waiting.namespace}/{plan}/approve",
        "clean-up": "/leftovers/sandbox/Subscription/gone/etcd/clean-up",
        "notifications": "/notifications/",
        "catalog-edit": f"/catalogs/-/{catalog.slug}/edit",
        "catalog-delete": f"/catalogs/-/{catalog.slug}/delete",
    }


def measured(client: Client, path: str) -> tuple[int, int]:
    """Queries and bytes of the page, whose rows, caches and verdicts are read already."""
    client.get(path)
    with CaptureQueriesContext(connection) as queries:
        response = client.get(path)
    assert response.status_code in (200, 404), path
    return len(queries), len(response.content)


def test_every_page_keeps_to_its_queries_and_bytes(
    client: Client, cluster: Cluster, alice: Any, olivia: Any
) -> None:
    pages = READ_PAGES | ACCOUNT_PAGES | pages_of_records(cluster, olivia)
    assert not over_budget(client, pages, alice, olivia)
    shown = {resolve(path.partition("?")[0]).url_name for path in pages.values()}
    assert shown >= page_names(), f"without a budget: {page_names() - shown}"


def test_every_page_keeps_to_them_with_fifty_stale_clusters(
    client: Client, cluster: Cluster, alice: Any, olivia: Any
) -> None:
    copy_cluster(cluster, CLUSTERS - 1)
    assert Operator.objects.count() >= 84 * CLUSTERS
    Cluster.objects.update(synced_at=F("synced_at") - timedelta(hours=1))
    pages = READ_PAGES | ACCOUNT_PAGES | pages_of_records(cluster, olivia)
    assert not over_budget(client, pages, alice, olivia)


def over_budget(client: Client, pages: dict[str, str], alice: Any, olivia: Any) -> dict[str, str]:
    """Name -> what the page takes, of those that take more than they may."""
    admins = {"catalog-new", "catalog-edit", "catalog-delete"}
    over = {}
    for name, path in pages.items():
        client.force_login(alice if name in admins else olivia)
        if name == "login":
            client.logout()
        queries, size = measured(client, path)
        if queries > MAX_QUERIES or size > BYTES.get(name, MAX_BYTES):
            over[name] = f"{queries} queries, {size} bytes"
    return over


def page_names() -> set[str]:
    """Names of the routes that show a page."""
    names = set()
    for pattern in get_resolver().url_patterns:
        if getattr(pattern, "namespace", None) in ("admin", "api"):
            continue
        for route in getattr(pattern, "url_patterns", [pattern]):
            names.add(route.name)
    files = {name for name in names if name and name.endswith(("-export", "-columns"))}
    return {name for name in names if name} - files - NOT_PAGES


def test_styles_and_scripts_of_a_page_keep_to_their_bytes() -> None:
    dist = ROOT / "static" / "dist"
    names = ("olmweb.css", "olmweb.js", "theme.js")
    if not all((dist / name).exists() for name in names):
        pytest.skip("the assets are not built (make static/dist/.built)")
    import django_htmx

    htmx = Path(django_htmx.__file__).parent / "static" / "django_htmx" / "htmx-2.min.js"
    files = [*(dist / name for name in names), htmx]
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < MAX_ASSETS
