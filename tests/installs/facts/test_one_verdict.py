"""Cards, the package page, the install form, the REST filter and the audit give one answer."""

from pathlib import Path as File

import pytest
from django.contrib.auth.models import User
from django.test import Client

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package
from catalogs.search.index import catalog_stamps, current_index
from catalogs.sync.catalog import sync_catalog
from catalogs.views.presenters import verdict_labels
from installs.actions.plan import plan_install
from installs.audit.audit import audit
from installs.facts.evaluate import refresh
from tests.factories import make_cluster, make_component, make_watch
from tests.worlds.syncing import make
from tests.worlds.verdicts import package_blobs

pytestmark = pytest.mark.django_db
LABEL = "Subscription (own namespace)"


@pytest.mark.parametrize("mode", ["OwnNamespace", "SingleNamespace", "AllNamespaces"])
def test_all_give_the_same_answer_for_a_package_whatever_namespaces_it_supports(
    mode: str, tmp_path: File, client: Client, olivia: User
) -> None:
    served = {"Subscription": {"state": "served", "version": "v1alpha1"}}
    cluster = make_cluster(name="prod", kinds=served, version="v1.30.0")
    make_watch(
        cluster=cluster, kind="CustomResourceDefinition", resource="CustomResourceDefinition"
    )
    modes = [{"type": mode, "supported": True}]
    catalog = make(tmp_path, package_blobs("etcd", "1.0.0", installModes=modes))
    Catalog.objects.filter(pk=catalog.pk).update(cluster=cluster)
    catalog.refresh_from_db()
    assert sync_catalog(catalog).outcome == "changed"
    make_component(cluster=cluster, kind="CatalogSource", name="demo", namespace="olm")
    refresh(catalog, [cluster])
    package = Package.objects.get(name="etcd")
    client.force_login(olivia)

    (row,) = current_index(catalog_stamps()).rows
    (card,) = [verdict for verdict in row.verdicts if verdict.path == "Subscription"]
    page = client.get(f"/software/prod/{catalog.slug}/etcd").context["verdicts"]
    on_page = next(verdict for verdict in page if verdict.path == InstallMethod.SUBSCRIPTION)
    form = plan_install(cluster, package, "", "Subscription", {}).verdict
    assert form is not None
    (audited,) = audit(catalog, InstallMethod.SUBSCRIPTION, cluster=cluster).rows
    answers = {
        (verdict.verdict, verdict.target, verdict.rule, verdict.label)
        for verdict in (card, on_page, form, audited.prediction)
    }
    assert len(answers) == 1, answers
    ((verdict, target, _, label),) = answers
    assert (verdict == "installable") == (mode != "SingleNamespace")
    assert (target, label == LABEL) == (("own", True) if mode == "OwnNamespace" else ("all", False))

    says = [words for said, words in verdict_labels(row.verdicts) if said == verdict]
    assert label in says[0]
    listed = client.get("/api/v1/packages", {"installable": "Subscription"}).json()
    assert bool(listed["items"]) == (verdict == "installable")
