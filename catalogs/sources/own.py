"""Sources that a person names, not a cluster: a path, a URL, an image."""

from catalogs.sources.base import LIMITS, Limits, Source, SourceError
from catalogs.sources.file import path_source
from catalogs.sources.oci.source import Access as Access
from catalogs.sources.oci.source import ImageSource
from catalogs.sources.url import url_source

FILE, URL, IMAGE = "File", "URL", "Image"
KINDS = (FILE, URL, IMAGE)


def own_source(
    kind: str, source: str, *, access: Access | None = None, limits: Limits = LIMITS
) -> Source:
    """Source for what a catalog's row names. Nothing is asked or opened yet, but SourceError is
    raised for a name that can't be one of its kind."""
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
