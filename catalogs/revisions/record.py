"""Noting, while a catalog's content is replaced, what each package was and what it becomes.

Writes PackageOutline and CatalogChange rows inside the caller's transaction. Knows rows and
outlines; not how a package is read, nor when a catalog is synced.
"""

from catalogs.models import Catalog, CatalogChange, Package, PackageOutline
from catalogs.revisions.compare import Change, compare
from catalogs.revisions.outline import Encoded, Outline, decode, encode
from catalogs.revisions.stored import outline_of_rows
from olmweb.bulk import Table

CLOSED_AT_ONCE = 500  # names in one IN (...), below every database's limit


class Recorder:
    """One replacement's notes. Per package `before` first, then `is_now`; `finish` last.

    A catalog's first content is no change: its outlines are written and nothing is told of it.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog_id = catalog.pk
        self._revision = catalog.revision + 1
        self._tells = catalog.revision > 0
        self._changes: list[Change] = []
        self._open = PackageOutline.objects.filter(catalog=catalog, last=None)
        self._stored = dict(self._open.values_list("package", "content_hash"))
        self._rebuilt: dict[str, Outline] = {}
        self._closed: list[str] = []
        self._added: set[str] = set()
        self._outlines = Table(
            PackageOutline, "catalog", "package", "first", "content_hash", "data", batch=100
        )

    def before(self, name: str, package_id: int | None) -> None:
        """Call while the rows of the package still stand: they tell what it was where a catalog was
        read before outlines were kept."""
        if package_id is not None and name not in self._stored:
            self._rebuilt[name] = outline_of_rows(package_id)

    def is_now(self, name: str, encoded: Encoded | None) -> None:
        """The package's new content; None: it is gone, or there is no such package after all."""
        if encoded and self._stored.get(name) == encoded.content_hash:
            return
        old = self._rebuilt.pop(name, None)
        if name in self._stored:
            old = decode(self._open.get(package=name).data)
            self._closed.append(name)
        if self._tells:
            outline = decode(encoded.data) if encoded else None
            self._changes += compare(name, old, outline, by_blob=True)
        if encoded:
            self._add(name, encoded)

    def finish(self, revision_id: int) -> int:
        """Writes what was noted as that of the new revision; returns the rows written.

        Packages that the replacement left alone get the outline they lack, from their rows.
        """
        known = self._stored.keys() | self._added
        for pk, name in Package.objects.filter(catalog=self._catalog_id).values_list("id", "name"):
            if name not in known:
                self._add(name, encode(outline_of_rows(pk)))
        written = 0
        old = self._open.filter(first__lt=self._revision)
        for at in range(0, len(self._closed), CLOSED_AT_ONCE):
            names = self._closed[at : at + CLOSED_AT_ONCE]
            written += old.filter(package__in=names).update(last=self._revision - 1)
        changes = Table(CatalogChange, "revision", "kind", "package", "subject", "before", "after")
        changes.extend([(revision_id, *change) for change in self._changes])
        for table in (self._outlines, changes):
            table.flush()
            written += table.written
        return written

    def _add(self, name: str, encoded: Encoded) -> None:
        self._added.add(name)
        self._outlines.add((self._catalog_id, name, self._revision, *encoded))
