"""Catalogs that a person adds, without a cluster: a file, folder or tar, a URL, an image."""

import re

from catalogs.models import Catalog
from catalogs.sources.base import LIMITS, ContentSource, Limits, SourceError
from catalogs.sources.file import path_source
from catalogs.sources.http import url_source
from catalogs.sources.oci.source import ImageSource, RegistryAccess

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
LONGEST_SOURCE = 2000
FILE, URL, IMAGE = "File", "URL", "Image"
KINDS = (FILE, URL, IMAGE)


def own_source(
    kind: str, source: str, *, access: RegistryAccess | None = None, limits: Limits = LIMITS
) -> ContentSource:
    """The source of a catalog's row, without a request. Raises SourceError if it is invalid."""
    if kind == FILE:
        if not source.startswith("/") or "\0" in source:
            raise SourceError(
                f'"{source[:200]}" is no absolute path.',
                code="bad-path",
                hint="Write the whole path of a file or folder, beginning with /.",
            )
        return path_source(source, limits=limits)
    if kind == URL:
        return url_source(source, limits=limits)
    if kind == IMAGE:
        return ImageSource(source, access=access, limits=limits)
    raise SourceError(
        f"A source of kind {kind} can't be read.",
        code="source-kind",
        hint="A catalog of one's own is a file or folder, a URL or an image.",
    )


def check_name(name: str) -> None:
    """Raises SourceError for an invalid catalog name."""
    if not _NAME.fullmatch(name):
        raise SourceError(
            f'"{name[:100]}" can\'t name a catalog: use letters, digits, "-", "_" and ".", '
            "beginning with a letter or digit.",
            code="bad-name",
        )


def check_source(kind: str, source: str) -> None:
    """Raises SourceError for an invalid source of that kind."""
    if len(source) > LONGEST_SOURCE:
        raise SourceError(
            f"The source is longer than {LONGEST_SOURCE:,} characters.", code="bad-source"
        )
    own_source(kind, source)


def own_catalog(name: str, kind: str, source: str) -> Catalog:
    """Creates the catalog of that name without a cluster, or changes its source.

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


# Columns about the source of the stored content.
OF_SOURCE = ("last_modified", "synced_digest", "resolved_digest", "access_method", "access_methods")


def forget_source(catalog: Catalog) -> None:
    """Clears the columns of the previous source, so that the next sync reads the new one."""
    blank = Catalog()
    for name in OF_SOURCE:
        setattr(catalog, name, getattr(blank, name))
