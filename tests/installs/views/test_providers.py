"""Where an API is missing, the page links to the packages of its cluster that provide it."""

import pytest
from django.test import Client

from catalogs.models import Catalog
from installs.diagnosis.knowledge import Finding, finding_for
from installs.queries.providers import MissingApi, api_of_crd, missing_api, provider_searches
from olmweb.models import Cluster
from tests.factories import make_catalog, make_cluster, make_package
from tests.worlds.html import Page, assert_page
from tests.worlds.subscriptions import NAMESPACE, make_unmet_requirements

pytestmark = pytest.mark.django_db
CRD = "certificates.cert-manager.io"
SEARCH = "/software/?q=provides%3Acert-manager.io%2FCertificate&cluster=prod"


def make_provider(cluster: Cluster, *kinds: str, group: str = "cert-manager.io") -> Catalog:
    catalog = make_catalog(name="community", cluster=cluster)
    provides = [(group, "v1", kind) for kind in kinds]
    make_package(name="provider", catalog=catalog, bundles={"1.1.0": {"provides": provides}})
    return catalog


def page_of(reader: Client) -> Page:
    make_unmet_requirements(Cluster.objects.get(name="prod"))
    return assert_page(reader.get(f"/operators/prod/Subscription/{NAMESPACE}/tempo"))


def searched(cluster: Cluster, crd: str) -> str:
    api = api_of_crd(crd)
    found = provider_searches(cluster, [api]).get(api)
    return found.words if found else ""


def finding(id_: str, **facts: str) -> Finding:
    found = finding_for(id_, facts, {"name": "x", "namespace": "y"})
    assert found is not None
    return found


def test_a_definition_that_is_missing_links_to_the_packages_that_provide_it(
    reader: Client, prod: Cluster
) -> None:
    make_provider(prod, "Certificate", "Issuer")
    page = page_of(reader)
    assert page.links.count(SEARCH) == 2, "at its row and at the step that says to find it"
    assert "Missing" in page.text
    assert "Who provides it : cert-manager.io/Certificate" in page.text
    make_package(name="other", catalog=make_catalog(name="others", cluster=prod))
    links = assert_page(reader.get(SEARCH)).links
    assert "/software/prod/community/provider" in links
    assert "/software/prod/others/other" not in links


def test_the_step_that_says_to_find_it_says_where_nothing_is_to_be_found(
    reader: Client, prod: Cluster
) -> None:
    catalog = make_provider(prod, "Certificate")
    page = page_of(reader)
    assert "continues automatically. Find cert-manager.io/Certificate" in page.text
    Catalog.objects.filter(pk=catalog.pk).update(state=Catalog.State.DISABLED)
    url = f"/operators/prod/Subscription/{NAMESPACE}/tempo"
    page = assert_page(reader.get(url))
    assert "continues automatically. No catalog of prod offers one." in page.text
    assert SEARCH not in page.links


def test_another_clusters_catalog_does_not_count(reader: Client, prod: Cluster) -> None:
    make_provider(make_cluster(name="lab"), "Certificate")
    assert searched(prod, CRD) == ""


@pytest.mark.parametrize(
    ("crd", "words"),
    [
        ("certificates.cert-manager.io", "cert-manager.io/Certificate"),
        ("prometheuses.cert-manager.io", "cert-manager.io/Prometheus"),
        ("policies.cert-manager.io", "cert-manager.io/Policy"),
        ("oddities.cert-manager.io", "cert-manager.io"),  # of the group, whatever its plural
        ("things.example.com", ""),
        ("nogroup", ""),
    ],
)
def test_the_kind_of_a_definition_is_told_by_its_plural(
    prod: Cluster, crd: str, words: str
) -> None:
    make_provider(prod, "Certificate", "Prometheus", "Policy", "Odd")
    assert searched(prod, crd) == words


def test_what_a_finding_misses_is_read_from_its_facts() -> None:
    assert missing_api(finding("csv-req-crd-missing", crd=CRD)) == MissingApi(
        "cert-manager.io", plural="certificates"
    )
    monitor = MissingApi("monitoring.coreos.com", kind="ServiceMonitor")
    gv = "monitoring.coreos.com/v1"
    assert missing_api(finding("plan-api-missing", object_kind="ServiceMonitor", gv=gv)) == monitor
    assert (
        missing_api(finding("no-matches-for-kind", object_kind="ServiceMonitor", version=gv))
        == monitor
    )
    assert missing_api(finding("no-matches-for-kind", object_kind="Pod", version="v1")) is None
    assert missing_api(finding("csv-req-crd-missing")) is None


def test_a_kind_that_is_known_is_not_guessed(prod: Cluster) -> None:
    make_provider(prod, "Certificate")
    assert provider_searches(prod, [MissingApi("cert-manager.io", kind="Issuer")]) == {}
    assert provider_searches(prod, []) == {}
