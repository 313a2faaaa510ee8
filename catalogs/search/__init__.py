"""Search over every package of every catalog, merged by name, filtered and counted.

`index` is the index in memory, `query` parses a search, `matching` scores packages, `find` filters,
counts and orders them. Public names are exported here.
"""

from catalogs.search.find import (
    ANSWERS,
    FAILED,
    INSTALLED,
    NOT_INSTALLED,
    PAGE_SIZE,
    SORTS,
    Filters,
    Installation,
    PackageMatch,
    Result,
    find_packages,
    installed_packages,
    nearest_names,
)
from catalogs.search.images import (
    DIGEST_START,
    BundleImages,
    bundles_with,
    digest_of,
    with_images,
)
from catalogs.search.images import packages_with as packages_with_image
from catalogs.search.images import using as using_image
from catalogs.search.index import (
    FACETS,
    NO,
    UNCOUNTED,
    YES,
    Index,
    Row,
    catalog_stamps,
    current_index,
)
from catalogs.search.matching import Hits, descriptions_of, find_hits, unplaced_words
from catalogs.search.query import IMAGE, MAX_WORDS, PROVIDES, SearchQuery, parse_query

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
    "BundleImages",
    "Filters",
    "Hits",
    "Index",
    "Installation",
    "Match",
    "Result",
    "Row",
    "SearchQuery",
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
    "parse_query",
    "unplaced_words",
    "using_image",
    "with_images",
]
