"""Rows for tests, made by plain keyword-only functions with harmless defaults.

They write what a finished sync leaves behind, so that a page or a query can be tested without
one. Nothing here reads a catalog or a cluster.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

import zstandard
from django.utils import timezone

from catalogs.fbc.package_texts import Texts, document, repository_of
from catalogs.models import (
    Blob,
    BlobPack,
    Bundle,
    BundleGVK,
    Catalog,
    Channel,
    ChannelEntry,
    ContentProblem,
    Icon,
    Package,
    PackageSearch,
    PackageText,
    Prediction,
    PredictionRun,
    RelatedImage,
)
from catalogs.semver import sort_key
from installs.models import (
    Component,
    CRDState,
    Event,
    Observed,
    Operator,
    OperatorReference,
    Transition,
)
from olmweb.models import Cluster, ResourceWatch

SERVED = {
    "PlatformOperator": {"state": "served", "version": "v1alpha1"},
    "ClusterOperator": {"state": "served", "version": "v1"},
}


def make_cluster(*, name: str = "prod", reachable: bool | None = True, **fields: Any) -> Cluster:
    """A cluster that was read a moment ago and serves PlatformOperators."""
    now = timezone.now()
    defaults: dict[str, Any] = {
        "version": "v1.29.4",
        "kinds": deepcopy(SERVED),  # a test may change its cluster's kinds
        "synced_at": now,
        "checked_at": now,
    }
    return Cluster.objects.create(name=name, reachable=reachable, **{**defaults, **fields})


def make_catalog(
    *, name: str = "redhat-operators", cluster: Cluster | None = None, **fields: Any
) -> Catalog:
    """A serving catalog: a ClusterCatalog when it has a cluster, else one read from a file."""
    now = timezone.now()
    kinds = Catalog.SourceKind
    defaults: dict[str, Any] = {
        "slug": name,
        "source_kind": kinds.CLUSTER_CATALOG if cluster else kinds.FILE,
        "state": Catalog.State.SERVING,
        "content_hash": uuid4().hex,
        "revision": 1,
        "checked_at": now,
        "synced_at": now,
        "changed_at": now,
        "last_cost": "200, 35 ms",
    }
    return Catalog.objects.create(name=name, cluster=cluster, **{**defaults, **fields})


def make_icon(
    *, data: bytes = b"<svg xmlns='http://www.w3.org/2000/svg'/>", media_type: str = "image/svg+xml"
) -> Icon:
    """An icon as sync keeps it: already sniffed and scrubbed."""
    digest = sha256(data).hexdigest()
    return Icon.objects.get_or_create(
        sha256=digest, defaults={"media_type": media_type, "data": data}
    )[0]


def make_package(
    *,
    name: str = "etcd",
    catalog: Catalog | None = None,
    channels: Mapping[str, Sequence[str]] | None = None,
    bundles: Mapping[str, Mapping[str, Any]] | None = None,
    description_html: str = "",
    links: Sequence[Mapping[str, str]] = (),
    maintainers: Sequence[Mapping[str, str]] = (),
    **fields: Any,
) -> Package:
    """A package with its channels and bundles.

    `channels` maps a channel to its versions, oldest first; each replaces the one before and the
    last is the head. Bundles are called `NAME.vVERSION`. `bundles` maps a version to field values
    for its bundle. The first channel is the default one.
    """
    catalog = catalog or make_catalog()
    channels = {"stable": ("1.0.0", "1.1.0")} if channels is None else channels
    default_channel = next(iter(channels), "")
    head_version = channels[default_channel][-1] if default_channel else ""
    versions = list(dict.fromkeys(version for listed in channels.values() for version in listed))
    defaults: dict[str, Any] = {
        "content_hash": uuid4().hex,
        "display_name": name.replace("-", " ").title(),
        "default_channel": default_channel,
        "head_version": head_version,
        "head_bundle": f"{name}.v{head_version}" if head_version else "",
        "channel_count": len(channels),
        "bundle_count": len(versions),
        "install_modes": ["AllNamespaces"],
    }
    values = {**defaults, **fields}
    package = Package.objects.create(catalog=catalog, name=name, **values)
    PackageText.objects.create(
        package=package,
        description_html=description_html,
        links=list(links),
        maintainers=list(maintainers),
    )
    listed = channels.get(default_channel, ())
    make_search(
        package=package,
        bundles=bundles or {},
        upgrade_path=list(listed) if len(listed) > 1 else [],
    )
    for version in versions:
        make_bundle(package=package, version=version, **dict((bundles or {}).get(version, {})))
    for channel, listed in channels.items():
        make_channel(
            package=package, name=channel, versions=listed, is_default=channel == default_channel
        )
    # Readers tell contents apart by the catalog's revision, as after a real sync.
    catalog.revision += 1
    catalog.content_hash = uuid4().hex
    catalog.package_count += 1
    catalog.channel_count += len(channels)
    catalog.bundle_count += len(versions)
    catalog.save()
    return package


def make_search(
    *,
    package: Package,
    bundles: Mapping[str, Mapping[str, Any]],
    upgrade_path: list[str] | None = None,
) -> PackageSearch:
    """The search terms of the package; `bundles` as for `make_package`."""
    kinds = {
        version: {f"{group}/{kind}" for group, _, kind in values.get("provides", ())}
        for version, values in bundles.items()
    }
    now = kinds.pop(package.head_version, set())
    images = {image for values in bundles.values() for _, image in values.get("images", ())}
    own = f"registry.example/{package.name}@sha256:{'0' * 64}"
    images |= {values.get("image", own) for values in bundles.values()} or {own}
    texts = Texts(
        display_name=package.display_name,
        summary=package.summary,
        provider=package.provider,
        categories=package.categories,
        keywords=package.keywords,
        description_html=package.text.description_html,
    )
    return PackageSearch.objects.create(
        package=package,
        words=document(package.name, texts, [kind.rpartition("/")[2] for kind in now]),
        provides=sorted(now),
        provided_before=sorted(set().union(*kinds.values()) - now),
        repositories=sorted(map(repository_of, images)),
        upgrade_path=upgrade_path,
    )


def make_channel(
    *, package: Package, name: str = "stable", versions: Sequence[str] = (), **fields: Any
) -> Channel:
    """A channel whose entries replace one another in the order given."""
    names = [f"{package.name}.v{version}" for version in versions]
    defaults: dict[str, Any] = {
        "head": names[-1] if names else "",
        "head_version": versions[-1] if versions else "",
        "entry_count": len(names),
    }
    channel = Channel.objects.create(package=package, name=name, **{**defaults, **fields})
    ChannelEntry.objects.bulk_create(
        ChannelEntry(channel=channel, ordinal=i, name=entry, replaces=names[i - 1] if i else "")
        for i, entry in enumerate(names)
    )
    return channel


def make_bundle(
    *,
    package: Package,
    version: str = "1.0.0",
    provides: Sequence[tuple[str, str, str]] = (),
    requires: Sequence[tuple[str, str, str]] = (),
    images: Sequence[tuple[str, str]] = (),
    blob: bytes | None = None,
    **fields: Any,
) -> Bundle:
    """A bundle; `provides` and `requires` are (group, version, kind), `images` (name, image)."""
    defaults: dict[str, Any] = {
        "name": f"{package.name}.v{version}",
        "version_key": sort_key(version),
        "image": f"registry.example/{package.name}@sha256:{'0' * 64}",
        "install_modes": ["AllNamespaces"],
        "install_modes_known": True,
        "blob": make_blob(data=blob) if blob is not None else None,
    }
    bundle = Bundle.objects.create(package=package, version=version, **{**defaults, **fields})
    BundleGVK.objects.bulk_create(
        BundleGVK(bundle=bundle, group=group, version=api, kind=kind, required=required)
        for required, listed in ((False, provides), (True, requires))
        for group, api, kind in listed
    )
    RelatedImage.objects.bulk_create(
        RelatedImage(bundle=bundle, name=label, image=image) for label, image in images
    )
    return bundle


def make_blob(*, data: bytes) -> Blob:
    """A blob of FBC in a pack of its own."""
    pack = BlobPack(size=len(data), data=zstandard.compress(data))
    pack.save()
    return Blob.objects.get_or_create(
        sha256=sha256(data).hexdigest(), defaults={"size": len(data), "pack": pack}
    )[0]


def make_problem(
    *, catalog: Catalog, message: str = "no channel head found", **fields: Any
) -> ContentProblem:
    """A fault of the content; counted on its catalog, as sync does."""
    defaults: dict[str, Any] = {
        "package": "etcd",
        "code": "no-head",
        "severity": ContentProblem.Severity.ERROR,
    }
    problem = ContentProblem.objects.create(
        catalog=catalog, message=message, **{**defaults, **fields}
    )
    catalog.problem_count += 1
    catalog.save()
    return problem


def make_operator(
    *, cluster: Cluster, name: str = "etcd", since: datetime | None = None, **fields: Any
) -> Operator:
    """A healthy PlatformOperator of the package with the same name."""
    defaults: dict[str, Any] = {
        "kind": "PlatformOperator",
        "package": name,
        "version": "1.0.0",
        "bundle": f"{name}.v1.0.0",
        "health": "Healthy",
        "reason": "InstallSuccessful",
    }
    return Operator.objects.create(
        cluster=cluster, name=name, since=since or timezone.now(), **{**defaults, **fields}
    )


def make_component(
    *, operator: Operator | None = None, cluster: Cluster | None = None, **fields: Any
) -> Component:
    """An object that belongs to an operator, or to none (then with its cluster)."""
    cluster = cluster or (operator.cluster if operator else make_cluster())
    defaults: dict[str, Any] = {"uid": uuid4().hex, "created_at": timezone.now()}
    return Component.objects.create(cluster=cluster, operator=operator, **{**defaults, **fields})


def make_reference(
    *, operator: Operator, kind: str, name: str, namespace: str = ""
) -> OperatorReference:
    """The operator names this object, which may exist or not."""
    return OperatorReference.objects.create(
        cluster=operator.cluster, operator=operator, kind=kind, namespace=namespace, name=name
    )


def make_transition(*, subject: Observed, type: str, **fields: Any) -> Transition:
    """A change that we saw of one object."""
    values: dict[str, Any] = {"at": timezone.now(), **fields}
    return Transition.objects.create(
        cluster=subject.cluster,
        kind=subject.kind,
        namespace=subject.namespace,
        name=subject.name,
        type=type,
        **values,
    )


def make_event(*, subject: Operator | Component, **fields: Any) -> Event:
    """A Kubernetes Event about one object."""
    now = timezone.now()
    values: dict[str, Any] = {
        "uid": uuid4().hex,
        "type": "Normal",
        "reason": "Reconciled",
        "message": "all is well",
        "source": "operator-lifecycle-manager",
        "first_at": now,
        "last_at": now,
        **fields,
    }
    return Event.objects.create(
        cluster=subject.cluster,
        kind=subject.kind,
        namespace=subject.namespace,
        name=subject.name,
        **values,
    )


def make_watch(*, cluster: Cluster, kind: str = "Subscription", **fields: Any) -> ResourceWatch:
    """A resource that is watched, with an event a moment ago."""
    now = timezone.now()
    values: dict[str, Any] = {
        "resource": kind,
        "state": ResourceWatch.State.WATCHING,
        "resource_version": "1",
        "listed_at": now,
        "last_event_at": now,
        "lists": 1,
        "watches": 3,
        **fields,
    }
    return ResourceWatch.objects.create(cluster=cluster, kind=kind, **values)


def make_crd(*, cluster: Cluster, name: str = "widgets.example.com", **fields: Any) -> CRDState:
    """A CustomResourceDefinition whose one version is served and stored."""
    plural, _, group = name.partition(".")
    values: dict[str, Any] = {
        "kind": "CustomResourceDefinition",
        "group": group,
        "served_kind": plural.removesuffix("s").capitalize(),
        "served": ["v1"],
        "defined": ["v1"],
        "stored": ["v1"],
        **fields,
    }
    return CRDState.objects.create(cluster=cluster, name=name, **values)


def make_prediction(
    *, bundle: Bundle, rule: str = "", verdict: str = "", sentence: str = "", **fields: Any
) -> Prediction:
    """The verdict on a bundle that a PlatformOperator would take; with a `rule` that it fails."""
    verdict = verdict or ("not_installable" if rule else "installable")
    results = [{"rule": rule, "verdict": verdict, "sentence": sentence}] if rule else []
    defaults: dict[str, Any] = {"path": "PlatformOperator", "target": "all", "chosen": True}
    catalog = bundle.package.catalog
    for cluster in {catalog.cluster, fields.get("cluster")}:
        if not PredictionRun.objects.filter(catalog=catalog, cluster=cluster).exists():
            PredictionRun.objects.create(catalog=catalog, cluster=cluster, rules_version=1)
    return Prediction.objects.create(
        package=bundle.package,
        bundle=bundle,
        verdict=verdict,
        rule=rule,
        sentence=sentence,
        **{**defaults, "results": results, **fields},
    )


def require_field(cluster: Cluster, kind: str, field: str) -> None:
    """Makes the definition of this kind require a field, such as `spec.serviceAccount`."""
    row = CRDState.objects.get(cluster=cluster, served_kind=kind)
    for names in row.details["required"].values():
        names.append(field)
    row.save()
