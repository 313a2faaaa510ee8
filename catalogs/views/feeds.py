"""Atom feeds of changes: an entry for each revision, of one catalog or of all."""

from uuid import NAMESPACE_URL, uuid5

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from catalogs import lookup
from catalogs.models import CatalogRevision
from catalogs.revisions.effects import installed_from
from catalogs.revisions.report import PackageEntry, RevisionChanges, changes_of_revisions
from olmweb.api.formats import finish, make_etag, not_modified
from olmweb.models import Cluster
from olmweb.web.forms import clean_text

ENTRIES = 30
PACKAGES = 20  # named in one entry, besides those that concern somebody
ITEMS = 10  # of one kind of change in one package


@require_safe
def catalog_changes(request: HttpRequest, cluster: str, catalog: str) -> HttpResponseBase:
    catalog_row = lookup.get_catalog(cluster, catalog)
    page = reverse("catalogs:catalog", args=(catalog_row.cluster_name, catalog_row.slug))
    title = f"Changes of catalog {catalog_row}"
    return _answer(request, title, f"{page}?tab=changes", catalog_row.revisions.all())


@require_safe
def all_changes(request: HttpRequest) -> HttpResponseBase:
    revisions = CatalogRevision.objects.order_by("-created_at", "-id")
    return _answer(request, "Changes of all catalogs", reverse("catalogs:catalog-list"), revisions)


def _answer(
    request: HttpRequest, title: str, page: str, revisions: QuerySet[CatalogRevision]
) -> HttpResponseBase:
    """The feed; 304 for a reader that has it, which costs two queries."""
    newest = revisions.select_related("catalog__cluster")[:ENTRIES]
    shown = list(newest)
    clusters = list(Cluster.objects.order_by("id").values_list("name", "revision"))
    etag = make_etag(
        request, [(revision.pk, str(revision.catalog)) for revision in shown], clusters
    )
    unchanged = not_modified(request, etag)
    if unchanged is not None:
        return unchanged
    feed = Atom1Feed(
        title=clean_text(title),
        link=request.build_absolute_uri(page),
        description=None,
        language="en",
        author_name="OLM Web",
        feed_url=request.build_absolute_uri(request.path),
        feed_guid=_stable_id(request.path),
    )
    catalogs = {revision.catalog_id: revision.catalog for revision in shown}
    installed = {pk: installed_from(catalog) for pk, catalog in catalogs.items()}
    for changes in changes_of_revisions(shown, installed, most=PACKAGES):
        _add(feed, request, changes)
    response = HttpResponse(feed.writeString("utf-8"), content_type=feed.content_type)
    return finish(response, etag)


# XML has no place for control characters, and catalogs may hold any: `clean_text` removes them.
def _add(feed: Atom1Feed, request: HttpRequest, changes: RevisionChanges) -> None:
    revision, catalog = changes.revision, changes.revision.catalog
    page = reverse("catalogs:catalog", args=(catalog.cluster_name, catalog.slug))
    words = changes.sentence
    if not words:
        words = "first read" if changes.first else "no package differs"
    feed.add_item(
        title=clean_text(f"{catalog}, revision {revision.number}: {words}"),
        link=request.build_absolute_uri(f"{page}?tab=changes&revision={revision.number}"),
        description=clean_text(_summary(changes)),
        unique_id=_stable_id(catalog, revision.number, revision.created_at.isoformat()),
        pubdate=revision.created_at,
        updateddate=revision.created_at,
    )


def _stable_id(*parts: object) -> str:
    """An identifier that does not depend on the host name of this server."""
    return uuid5(NAMESPACE_URL, f"olmweb:{' '.join(map(str, parts))}").urn


def _summary(changes: RevisionChanges) -> SafeString:
    """Affected installations and packages as escaped HTML: a feed entry has no template."""
    counts = changes.revision.counts
    size = f"{counts.get('packages', 0)} packages, {counts.get('bundles', 0)} bundles."
    concerned = format_html_join(
        "",
        "<li>Affects you: {} on {}: {}</li>",
        (
            (effect.installed.name, effect.installed.cluster, effect.text)
            for effect in changes.effects
        ),
    )
    packages = format_html_join("", "<li>{}: {}</li>", map(_package, changes.entries))
    more = format_html("<p>And {} more packages.</p>", changes.more) if changes.more > 0 else ""
    return format_html(
        "<p>{}</p>{}{}{}",
        f"{changes.sentence[:1].upper()}{changes.sentence[1:]}. {size}"
        if changes.sentence
        else size,
        format_html("<ul>{}</ul>", concerned) if concerned else "",
        format_html("<ul>{}</ul>", packages) if packages else "",
        more,
    )


def _package(entry: PackageEntry) -> tuple[str, str]:
    sentences = []
    for line in entry.lines:
        items = ", ".join(line.items[:ITEMS])
        rest = len(line.items) - ITEMS
        sentences.append(f"{line.title}: {items}{f' and {rest} more' if rest > 0 else ''}")
    return entry.package, "; ".join(sentences)
