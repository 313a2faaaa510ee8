"""Decodes OLM v1: ClusterExtension, its revisions, ClusterCatalog."""

from installs.state.decode.common import (
    LISTED,
    DecodedObject,
    component_columns,
    controller,
    decoded_object,
    labelled_owner,
)
from olmweb.kube.fields import Object, dig, items, number, text, texts

CATALOG_LABEL = "olm.operatorframework.io/metadata.name"
OLM_V1 = "olm.operatorframework.io"


def cluster_extension(obj: Object) -> DecodedObject | None:
    catalog = dig(obj, "spec", "source", "catalog")
    bundle = dig(obj, "status", "install", "bundle")
    return decoded_object(
        obj,
        "ClusterExtension",
        {
            "package": text(catalog, "packageName", limit=253),
            "catalog": text(catalog, "selector", "matchLabels", CATALOG_LABEL, limit=253),
            "channel": ", ".join(texts(catalog, "channels", limit=LISTED))[:300],
            "version_asked": text(catalog, "version", limit=200),
            "version": text(bundle, "version", limit=200),
            "bundle": text(bundle, "name", limit=1000),
        },
        {
            "namespace": text(obj, "spec", "namespace", limit=63),
            "policy": text(catalog, "upgradeConstraintPolicy", limit=60),
            "revisions": [
                text(revision, "name", limit=253)
                for revision in items(obj, "status", "activeRevisions", limit=LISTED)
            ],
            "config_type": text(obj, "spec", "config", "configType", limit=60),
        },
    )


def cluster_object_set(obj: Object) -> DecodedObject | None:
    """Revision of a ClusterExtension, which owns it by label and by reference."""
    owner = labelled_owner(obj, OLM_V1)
    if not owner[2]:
        owner = controller(obj)
    notes = dig(obj, "metadata", "annotations")
    details = {
        "revision": number(obj, "spec", "revision"),
        "lifecycle": text(obj, "spec", "lifecycleState", limit=60),
        "bundle": text(notes, f"{OLM_V1}/bundle-name", limit=1000),
        "version": text(notes, f"{OLM_V1}/bundle-version", limit=200),
    }
    owner = owner[0] or "ClusterExtension", "", owner[2]
    return decoded_object(obj, "ClusterObjectSet", component_columns(obj, owner), details)


def catalog(obj: Object, kind: str = "ClusterCatalog") -> DecodedObject | None:
    """A ClusterCatalog, or Catalog, its former name. The app `catalogs` reads its content and gets
    the object itself. Where v1 has `status.urls.base`, v1alpha1 had `status.contentURL`."""
    image = dig(obj, "status", "resolvedSource", "image")
    base = text(obj, "status", "urls", "base", limit=2000)
    details = {
        "image": text(obj, "spec", "source", "image", "ref", limit=1000),
        "priority": number(obj, "spec", "priority"),
        "availability": text(obj, "spec", "availabilityMode", limit=60) or "Available",
        "digest": text(image, "resolvedRef", limit=1000) or text(image, "ref", limit=1000),
        "base_url": base or text(obj, "status", "contentURL", limit=2000),
        "last_unpacked": text(obj, "status", "lastUnpacked", limit=60),
    }
    return decoded_object(obj, kind, component_columns(obj), details, source=obj)
