"""Recorded operators as images in a real registry: what a run pulls, and what it settles.

The verdicts are compared with those that the objects themselves give, by the refusals in the
sources of rukpak (internal/convert/registryv1.go) and operator-controller
(internal/operator-controller/applier/provider.go, resolve/validation.go and
rukpak/render/registryv1/validators/validator.go), without the product's rules.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from catalogs.contents.bulk_inspection import inspect_images
from catalogs.contents.bundle_facts import ApiKind
from catalogs.models import BundleInspection, Catalog, Prediction
from catalogs.semver import parse
from catalogs.sync.catalog import sync_catalog
from catalogs.verdicts.facts import NO_CLUSTER, ClusterFacts, built_in
from catalogs.verdicts.settle import images_to_inspect
from catalogs.verdicts.store import VerdictContext, evaluate_catalog
from installs.facts.cluster_facts import market_of
from olmweb.models import Cluster
from tests.peers.controllers import Registry, registry
from tests.worlds.recorded_bundles import RecordedBundle, catalog_lines, recorded_bundles

pytestmark = [pytest.mark.peers, pytest.mark.data, pytest.mark.django_db]
YES, NO = "installable", "not_installable"
# A cluster whose operator-controller has certificates for webhooks.
GATES = {"WebhookProviderOpenshiftServiceCA": True, "WebhookProviderCertManager": False}
BUNDLE_KINDS = frozenset(
    (
        *("ClusterServiceVersion", "CustomResourceDefinition", "Secret", "ConfigMap", "Service"),
        *("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        *("PrometheusRule", "ServiceMonitor", "PodMonitor", "PodDisruptionBudget"),
        *("PriorityClass", "VerticalPodAutoscaler", "NetworkPolicy", "ConsolePlugin"),
        *("ConsoleYAMLSample", "ConsoleQuickStart", "ConsoleCLIDownload", "ConsoleLink"),
    )
)
DEPENDENCIES = {"olm.package.required", "olm.gvk.required", "olm.constraint"}


@dataclass(frozen=True, slots=True)
class Pushed:
    """The recorded bundles in a registry, with the references of their images."""

    images: Registry
    bundles: list[tuple[RecordedBundle, str]]
    needed: int  # bytes of the layers with manifests and metadata


@pytest.fixture(scope="module")
def pushed(catalogd_is_built: None, shared_data: Path) -> Iterator[Pushed]:
    with registry() as images:
        bundles, needed = [], 0
        for bundle in recorded_bundles(shared_data):
            reference, size = bundle.push(images)
            bundles.append((bundle, reference))
            needed += size
        yield Pushed(images, bundles, needed)


@pytest.fixture
def catalog(pushed: Pushed, settings: Any, tmp_path: Path) -> Catalog:
    settings.INSECURE_REGISTRIES = frozenset([pushed.images.host])
    settings.REGISTRY_RATE = 1000
    file = tmp_path / "catalog.jsonl"
    file.write_bytes(b"".join(catalog_lines(pushed.bundles)))
    made = Catalog.objects.create(name="c", slug="c", source_kind="File", source=str(file))
    assert sync_catalog(made).outcome == "changed"
    return made


def verdicts(catalog: Catalog, facts: ClusterFacts = NO_CLUSTER) -> dict[str, dict[str, str]]:
    """Install method -> package -> the verdict on the bundle that it chooses, on a cluster or from
    the catalog alone."""
    market = market_of(catalog, None)
    contexts = [VerdictContext(None, NO_CLUSTER, market)]
    if facts is not NO_CLUSTER:
        cluster, _ = Cluster.objects.get_or_create(name=facts.name)
        contexts.append(VerdictContext(cluster.pk, facts, market))
    evaluate_catalog(catalog, contexts)
    result: dict[str, dict[str, str]] = {}
    rows = Prediction.objects.filter(chosen=True, package__catalog=catalog).exclude(target="own")
    if facts is NO_CLUSTER:
        rows = rows.filter(cluster=None)
    # Those of the cluster replace those of the catalog alone.
    for method, package, verdict, _ in sorted(
        rows.values_list("path", "package__name", "verdict", "cluster"),
        key=lambda row: row[3] is not None,
    ):
        result.setdefault(method, {})[package] = verdict
    return result


def cluster_that_serves(bundles: list[tuple[RecordedBundle, str]]) -> ClusterFacts:
    """An empty cluster that serves all kinds in the bundles, whose operator-controller has
    certificates for webhooks."""
    served = set(built_in())
    for bundle, _ in bundles:
        for found in bundle.objects:
            group, _, version = found["apiVersion"].rpartition("/")
            served.add(ApiKind(group, version, found["kind"]))
    return ClusterFacts(
        "prod",
        served=frozenset(served),
        crds={},
        namespaces={},
        roles={},
        shared={},
        kube_version=parse("1.36.3"),
        foreign_apis=frozenset(),
        gates=GATES,
    )


def counted(found: dict[str, dict[str, str]]) -> dict[str, Counter[str]]:
    return {method: Counter(by_package.values()) for method, by_package in found.items()}


def test_a_run_leaves_nothing_unknown_and_a_second_one_asks_for_nothing(
    pushed: Pushed, catalog: Catalog
) -> None:
    count = len(pushed.bundles)
    before = counted(verdicts(catalog))
    assert before["PlatformOperator"]["unknown"] > 100
    assert before["ClusterExtension"]["unknown"] > 100
    images = images_to_inspect(catalog, all_versions=True)
    assert len(images) == count == 166
    run = inspect_images(images)
    assert (run.inspected, run.failed, run.left) == (count, {}, 0)
    assert run.requests == 5 * count  # HEAD and GET of the manifest, config, two layers
    assert run.bytes <= 1.1 * pushed.needed
    after = counted(verdicts(catalog))
    assert after["PlatformOperator"]["unknown"] == after["Subscription"]["unknown"] == 0
    # Whether a ClusterExtension may have webhooks is a fact of a cluster.
    open_questions = Prediction.objects.filter(cluster=None, chosen=True, verdict="unknown")
    assert set(open_questions.values_list("path", "rule")) <= {("ClusterExtension", "ce-webhook")}
    on_cluster = counted(verdicts(catalog, cluster_that_serves(pushed.bundles)))
    assert {method: counts["unknown"] for method, counts in on_cluster.items()} == {
        "PlatformOperator": 0,
        "ClusterExtension": 0,
        "Subscription": 0,
    }
    print(f"{run.bytes:,} bytes for {pushed.needed:,} needed; {before} -> {after} -> {on_cluster}")
    again = inspect_images(images_to_inspect(catalog, all_versions=True))
    assert (again.reused, again.requests, again.bytes) == (count, 0, 0)


def test_the_verdicts_are_those_of_the_objects(pushed: Pushed, catalog: Catalog) -> None:
    inspect_images(images_to_inspect(catalog))
    assert not BundleInspection.objects.exclude(state=BundleInspection.State.READ).exists()
    found = verdicts(catalog, cluster_that_serves(pushed.bundles))
    for method, refusals in (
        ("PlatformOperator", refused_by_rukpak),
        ("ClusterExtension", refused_by_operator_controller),
    ):
        expected = {b.package: list(refusals(b)) for b, _ in pushed.bundles}
        wrong = {
            package: (found[method][package], reasons)
            for package, reasons in expected.items()
            if found[method][package] != (NO if reasons else YES)
        }
        assert wrong == {}, method
        assert 20 < sum(map(bool, expected.values())) < 150


def modes_of(bundle: RecordedBundle) -> set[str]:
    modes = bundle.csv["spec"].get("installModes") or ()
    return {mode["type"] for mode in modes if mode.get("supported")}


def owned_api_services(bundle: RecordedBundle) -> list[Any]:
    return (bundle.csv["spec"].get("apiservicedefinitions") or {}).get("owned") or []


def refused_by_rukpak(bundle: RecordedBundle) -> Iterator[str]:
    if "AllNamespaces" not in modes_of(bundle):
        yield "install mode"
    if bundle.csv["spec"].get("webhookdefinitions"):
        yield "webhooks"
    if owned_api_services(bundle):
        yield "APIServices"
    if any(not (found.get("metadata") or {}).get("name") for found in bundle.objects):
        yield "an object without a name"


def refused_by_operator_controller(bundle: RecordedBundle) -> Iterator[str]:
    modes = modes_of(bundle)
    webhooks = bundle.csv["spec"].get("webhookdefinitions") or ()
    if DEPENDENCIES & {found["type"] for found in bundle.properties}:
        yield "dependencies"
    if "AllNamespaces" not in modes:
        yield "install mode"
    if owned_api_services(bundle):
        yield "APIServices"
    if {found["kind"] for found in bundle.objects} - BUNDLE_KINDS:
        yield "kinds"
    if any(hook["type"] == "ConversionWebhook" for hook in webhooks) and modes != {"AllNamespaces"}:
        yield "conversion webhook"
    groups = {
        group
        for hook in webhooks
        for rule in hook.get("rules") or ()
        for group in rule.get("apiGroups") or ()
    }
    if groups & {"*", "operators.coreos.com"}:
        yield "a webhook for everything, or for OLM"
    yield from contradictions(bundle)


def contradictions(bundle: RecordedBundle) -> Iterator[str]:
    """Names that are there twice or not at all."""
    spec = bundle.csv["spec"]
    deployments = [d["name"] for d in spec["install"]["spec"].get("deployments") or ()]
    crds = [o["metadata"]["name"] for o in bundle.objects if o["kind"].startswith("CustomRes")]
    owned = (spec.get("customresourcedefinitions") or {}).get("owned") or ()
    hooks = spec.get("webhookdefinitions") or ()
    names = [(h["type"] == "ConversionWebhook", h["type"], h.get("generateName")) for h in hooks]
    if len(set(deployments)) < len(deployments) or len(set(crds)) < len(crds):
        yield "a name twice"
    if {crd["name"] for crd in owned} - set(crds):
        yield "an owned CRD that is not there"
    if {hook.get("deploymentName") for hook in hooks} - set(deployments):
        yield "a webhook without its Deployment"
    if any(count > 1 for name, count in Counter(names).items() if not name[0]):
        yield "a webhook twice"
