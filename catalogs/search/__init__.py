"""The software catalog: every package of every catalog merged by name, filtered and counted.

`rows` is the index in memory, `fulltext` the database's; `matching` says which packages a search
means, `find` filters, counts and orders them. What other parts may use stands here.
"""

from catalogs.search.asked import IMAGE, MAX_WORDS, PROVIDES, Asked, take_apart
from catalogs.search.find import (
    ANSWERS,
    FAILED,
    INSTALLED,
    NOT_INSTALLED,
    PAGE_SIZE,
    SORTS,
    Filters,
    Installation,
    Match,
    Result,
    find_packages,
    installed_packages,
    nearest_names,
)
from catalogs.search.fulltext import descriptions_of
from catalogs.search.images import (
    DIGEST_START,
    BundleImages,
    bundles_with,
    digest_of,
    with_images,
)
from catalogs.search.images import packages_with as packages_with_image
from catalogs.search.images import using as using_image
from catalogs.search.matching import Hits, find_hits, unplaced_words
from catalogs.search.rows import (
    FACETS,
    NO,
    UNCOUNTED,
    YES,
    Index,
    Row,
    catalog_stamps,
    current_index,
)

__all__ = [
    "ANSWERS",
    "DIGEST_START",
    "FACETS",
    "FAILED",
    "IMAGE",
    "INSTALLED",
    "MAX_WORDS",
    "NO",
    "NOT_INSTALLED",
    "PAGE_SIZE",
    "PROVIDES",
    "SORTS",
    "UNCOUNTED",
    "YES",
    "Asked",
    "BundleImages",
    "Filters",
    "Hits",
    "Index",
    "Installation",
    "Match",
    "Result",
    "Row",
    "bundles_with",
    "catalog_stamps",
    "current_index",
    "descriptions_of",
    "digest_of",
    "find_hits",
    "find_packages",
    "installed_packages",
    "nearest_names",
    "packages_with_image",
    "take_apart",
    "unplaced_words",
    "using_image",
    "with_images",
]
