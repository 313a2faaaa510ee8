"""The changes that the install form shows for CRDs which the cluster has already."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.test import Client

from catalogs.contents import stored
from catalogs.contents.objects import Packed
from catalogs.models import Bundle, BundleGVK, BundleInspection, Catalog, Package
from installs.models import ClusterInventory, CRDState
from olmweb.models import Cluster
from tests.factories import (
    make_blob,
    make_catalog,
    make_cluster,
    make_component,
    make_crd,
    make_operator,
    make_package,
    make_prediction,
    make_watch,
)
from tests.installs.views.test_crd_safety import CRD, SIZE, crd, nested, ship, store
from tests.installs.views.test_install_form import KINDS
from tests.worlds.html import Page, assert_page

pytestmark = pytest.mark.django_db
FORM = "/software/prod/redhat-operators/kettle/install"
BUNDLE = "kettle.v1.1.0"
SMALL = {"type": "integer", "maximum": 5}
Form = Callable[..., Page]


@pytest.fixture
def prod() -> Cluster:
    cluster = make_cluster(kinds=KINDS)
    make_watch(cluster=cluster, kind="CustomResourceDefinition")
    return cluster


@pytest.fixture
def package(prod: Cluster) -> Package:
    """Provides Kettles; of a catalog with which every method can install it."""
    catalog = make_catalog(cluster=prod, source_kind=Catalog.SourceKind.CLUSTER_CATALOG)
    make_component(cluster=prod, kind="CatalogSource", name=catalog.name, namespace="marketplace")
    package = make_package(name="kettle", catalog=catalog, channels={"stable": ("1.0.0", "1.1.0")})
    for bundle in package.bundles.all():
        gvk = {"group": "tea.example.com", "version": "v1", "kind": "Kettle"}
        BundleGVK.objects.create(bundle=bundle, required=False, **gvk)
    return package


@pytest.fixture
def form(client: Client, olivia: Any, package: Package) -> Form:
    client.force_login(olivia)

    def show(path: str = "Subscription", **values: str) -> Page:
        return assert_page(client.get(FORM, {"path": path, **values}))

    return show


def leave(cluster: Cluster, manifest: dict[str, Any] | None, **fields: Any) -> CRDState:
    """A CRD on the cluster, with its stored schema unless `manifest` is None."""
    row = make_crd(cluster=cluster, name=CRD, **fields)
    if manifest is not None:
        store(cluster, manifest)
    return row


@pytest.mark.parametrize(
    ("path", "values", "words", "outcome"),
    [
        (
            "Subscription", {},
            f"Check the objects OLM refuses to install {BUNDLE} over the CRDs of prod if an "
            "existing object does not fit the new schema.",
            "Refused if an object does not fit",
        ),
        (
            "PlatformOperator", {},
            f"Check the objects rukpak refuses to install {BUNDLE} over the CRDs of prod if an",
            "Refused if an object does not fit",
        ),
        (
            "ClusterExtension", {},
            f"Would be refused operator-controller refuses to install {BUNDLE} over the CRDs of "
            "prod, unless spec.install.preflight.crdUpgradeSafety.enforcement",
            "Refused",
        ),
        (
            "ClusterExtension", {"crd_safety": "None"},
            "Allowed The API server allows these changes to the CRDs of prod; clients",
            "Allowed",
        ),
    ],
)  # fmt: skip
def test_the_changes_of_a_leftover_crd_are_shown_with_what_the_method_does_about_them(
    form: Form, prod: Cluster, path: str, values: dict[str, str], words: str, outcome: str
) -> None:
    ship("1.1.0", crd(SMALL))
    leave(prod, crd(SIZE))
    page = form(path, **values)
    assert words in page.text
    assert f"{CRD} v1 ^.spec.size maximum is 5 now; there was none. {outcome}" in page.text
    assert "Other owner" not in page.text
    assert "Existing objects are not checked before an install" in page.text


def test_a_stored_version_that_the_bundle_lacks_is_refused_whatever_is_enforced(
    form: Form, prod: Cluster
) -> None:
    ship("1.1.0", crd(SIZE))
    leave(prod, crd(SIZE, "v1", "v1beta1"), stored=["v1", "v1beta1"])
    page = form("ClusterExtension", crd_safety="None")
    assert f"Would be refused The API server refuses to install {BUNDLE} over" in page.text
    assert "unless" not in page.text.partition("Would be refused")[2].partition(".")[0]
    assert "Version v1beta1 is gone, and objects may be stored as v1beta1." in page.text


def test_nothing_is_said_of_crds_that_are_new_or_stay_as_they_are(
    form: Form, prod: Cluster, package: Package
) -> None:
    ship("1.1.0", crd(SMALL))
    assert "CRD changes" not in form().text
    make_crd(cluster=prod, name="cups.tea.example.com")
    elsewhere = make_cluster(name="elsewhere")
    leave(elsewhere, crd(SIZE))
    assert "CRD changes" not in form().text
    row = leave(prod, crd(SMALL))
    assert "CRD changes" not in form().text
    row.owner_kind, row.owner_name = "ClusterExtension", "kettle"
    row.save()
    assert "CRD changes" not in form("ClusterExtension").text


def test_a_cluster_whose_crds_were_not_read_is_not_taken_for_one_without_crds(
    form: Form, prod: Cluster
) -> None:
    ship("1.1.0", crd(SMALL))
    words = "The CRDs of prod were not read yet, so it is not known which of them this install"
    assert words not in form().text
    prod.watches.update(listed_at=None, state="forbidden")
    assert words in form().text


@pytest.mark.parametrize(
    ("kind", "name", "installed", "note"),
    [
        (
            "ClusterExtension", "teapot", {"name": "teapot"},
            "owned by ClusterExtension teapot",
        ),
        (
            "ClusterExtension", "teapot", {"name": "other"},
            "left over from ClusterExtension teapot, which is not installed any more",
        ),
        (
            "Operator", "teapot.tea",
            {"kind": "Subscription", "namespace": "tea", "name": "pot", "package": "teapot"},
            "owned by the Subscription of package teapot in namespace tea",
        ),
        (
            "Operator", "teapot.tea",
            {"kind": "Subscription", "namespace": "other", "name": "pot", "package": "teapot"},
            "left over from the Subscription of package teapot in namespace tea, which is "
            "not installed any more",
        ),
        ("BundleDeployment", "teapot", {"name": "x"}, "owned by BundleDeployment teapot"),
        (
            "BundleDeployment", "teapot", {"kind": "PlatformOperator", "name": "teapot"},
            "owned by PlatformOperator teapot",
        ),
    ],
)  # fmt: skip
def test_the_owner_of_an_existing_crd_is_named_if_it_is_another_operator(
    form: Form, prod: Cluster, kind: str, name: str, installed: dict[str, str], note: str
) -> None:
    ship("1.1.0", crd(SIZE))
    leave(prod, crd(SIZE), owner_kind=kind, owner_name=name)
    values: dict[str, Any] = {"kind": "ClusterExtension", **installed}
    make_operator(cluster=prod, **values)
    page = form()
    words = f"Other owner Not every CRD of {BUNDLE} that prod has already is its own:"
    assert f"{words} {CRD} {note}" in page.text
    assert "Would be refused" not in page.text


def test_a_crd_whose_schema_was_not_read_and_a_bundle_without_crds_are_not_compared(
    form: Form, prod: Cluster
) -> None:
    leave(prod, None)
    page = form()
    words = "Not compared prod has CRDs of kettle already. The catalog does not have the CRDs of"
    assert f"{words} {BUNDLE}" in page.text
    assert f"/software/prod/redhat-operators/kettle/{BUNDLE}#inspection" in page.links
    ship("1.1.0", crd(SMALL))
    text = form().text
    assert f"Not compared The schemas of these CRDs on prod were not read yet: {CRD}. Try" in text


@pytest.mark.parametrize("levels", [60, 480, 900])
def test_a_leftover_crd_that_is_nested_too_deep_is_named(
    form: Form, prod: Cluster, levels: int
) -> None:
    ship("1.1.0", crd(nested(levels)))
    leave(prod, crd(nested(levels)))
    words = "Not complete Schemas are compared to a depth of 100 levels; these are deeper:"
    assert f"{words} {CRD}." in form().text


def inspect(manifest: dict[str, Any]) -> None:
    """Stores the manifest as that of the bundle's inspected image."""
    packed = Packed([msgspec.Raw(json.dumps(manifest).encode())])
    image = Bundle.objects.get(name=BUNDLE).image
    manifests = stored.save("sha256:1", packed)
    BundleInspection.objects.create(image=image, manifests=manifests)


def test_a_catalog_with_the_csv_alone_needs_the_inspected_image(form: Form, prod: Cluster) -> None:
    owned = {"owned": [{"name": CRD, "kind": "Kettle", "version": "v1"}]}
    csv = {"kind": "ClusterServiceVersion", "spec": {"customresourcedefinitions": owned}}
    ship("1.1.0", csv)
    leave(prod, crd(SIZE))
    assert "Not compared prod has CRDs of kettle already." in form().text
    inspect(crd(SMALL))
    text = form().text
    assert "Not compared" not in text
    assert "maximum is 5 now; there was none." in text


def test_a_crd_that_only_the_inspected_image_names_is_compared(form: Form, prod: Cluster) -> None:
    BundleGVK.objects.all().delete()
    leave(prod, crd(SIZE))
    make_crd(cluster=prod, name="cups.tea.example.com")
    assert "CRD changes" not in form().text
    inspect(crd(SMALL))
    text = form().text
    assert f"{CRD} v1 ^.spec.size maximum is 5 now; there was none." in text
    assert "cups.tea.example.com" not in text
    Bundle.objects.update(image="registry.example/other@sha256:1")
    assert "CRD changes" not in form().text


@pytest.mark.parametrize("gvks", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("path", ["PlatformOperator", "ClusterExtension", "Subscription"])
@pytest.mark.parametrize("namespaces", [None, ["default"]], ids=["hidden", "listed"])
def test_the_form_with_changes_of_crds_costs_twelve_queries_at_most(
    form: Form,
    prod: Cluster,
    package: Package,
    django_assert_max_num_queries: Any,
    path: str,
    namespaces: list[str] | None,
    gvks: bool,
) -> None:
    """Of a bundle whose image was inspected, as most catalogs have no objects; also of CRDs that no
    olm.gvk property names."""
    if not gvks:
        BundleGVK.objects.all().delete()
    ClusterInventory.objects.create(cluster=prod, namespaces=namespaces)
    bundle = Bundle.objects.get(name=BUNDLE)
    data = json.dumps({"schema": "olm.bundle", "name": BUNDLE, "package": "kettle"})
    bundle.blob = make_blob(data=data.encode())
    bundle.save()
    inspect(crd(SMALL))
    make_prediction(bundle=bundle, path=path)
    leave(prod, crd(SIZE))
    form(path)
    with django_assert_max_num_queries(12):
        page = form(path)
    assert "maximum is 5 now; there was none." in page.text
