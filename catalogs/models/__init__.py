"""What catalogs hold, as the last good sync left it, and what follows for each installer."""

from catalogs.models.blobs import (
    Blob,
    BlobPack,
    BlobRef,
)
from catalogs.models.catalogs import (
    Catalog,
    CatalogChange,
    CatalogRevision,
    ContentProblem,
    PackageOutline,
)
from catalogs.models.content import (
    Bundle,
    BundleGVK,
    Channel,
    ChannelEntry,
    DigestStart,
    Icon,
    Package,
    PackageSearch,
    PackageText,
    RelatedImage,
)
from catalogs.models.inspections import (
    BundleInspection,
    BundleManifests,
)
from catalogs.models.predictions import (
    Prediction,
    PredictionRun,
)

__all__ = (
    "Blob",
    "BlobPack",
    "BlobRef",
    "Bundle",
    "BundleGVK",
    "BundleInspection",
    "BundleManifests",
    "Catalog",
    "CatalogChange",
    "CatalogRevision",
    "Channel",
    "ChannelEntry",
    "ContentProblem",
    "DigestStart",
    "Icon",
    "Package",
    "PackageOutline",
    "PackageSearch",
    "PackageText",
    "Prediction",
    "PredictionRun",
    "RelatedImage",
)
