"""Catalogs that a person adds: a file, folder or tar, a URL, an image. They have no cluster.

Knows no form and no command, and asks no source anything.
"""

import re

from catalogs.models import Catalog
from catalogs.sources import own
from catalogs.sources.base import SourceError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
LONGEST_SOURCE = 2000


def check_name(name: str) -> None:
    """Raises SourceError for what can't name a catalog."""
    if not _NAME.fullmatch(name):
        raise SourceError(
            f'"{name[:100]}" can\'t name a catalog: use letters, digits, "-", "_" and ".", '
            "beginning with a letter or digit.",
            code="bad-name",
        )


def check_source(kind: str, source: str) -> None:
    """Raises SourceError for what can't be a source of that kind."""
    if len(source) > LONGEST_SOURCE:
        raise SourceError(
            f"The source is longer than {LONGEST_SOURCE:,} characters.", code="bad-source"
        )
    own.own_source(kind, source)


def own_catalog(name: str, kind: str, source: str) -> Catalog:
    """The catalog of that name and no cluster, which is read from this source from now on.

    Raises SourceError for a bad name or source.
    """
    check_name(name)
    check_source(kind, source)
    catalog, created = Catalog.objects.get_or_create(
        cluster=None, slug=name, defaults={"name": name, "source_kind": kind, "source": source}
    )
    if not created and (catalog.source_kind, catalog.source) != (kind, source):
        catalog.source_kind, catalog.source = kind, source
        forget_source(catalog)
        catalog.save(update_fields=["source_kind", "source", *OF_SOURCE])
    return catalog


# What is known of the source that the content was read from, and of no other.
OF_SOURCE = ("last_modified", "synced_digest", "resolved_digest", "way", "ways")


def forget_source(catalog: Catalog) -> None:
    """Another source is read in any case; the content before stays until then."""
    catalog.last_modified = catalog.synced_digest = catalog.resolved_digest = catalog.way = ""
    catalog.ways = []
