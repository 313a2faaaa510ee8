"""Catalogs that a person adds, without a cluster: a file, folder or tar, a URL, an image.

Their sources, and the form and the save that the pages, the admin pages and the command share.
"""

import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.db import IntegrityError, transaction

from catalogs.models import Catalog
from catalogs.sources import guard
from catalogs.sources.base import LIMITS, ContentSource, Limits, SourceError
from catalogs.sources.file import path_source
from catalogs.sources.http import url_source
from catalogs.sources.oci.reference import ImageReference, parse_reference
from catalogs.sources.oci.source import ImageSource, RegistryAccess
from catalogs.sources.registry_access import registry_access
from olmweb.accounts import audit
from olmweb.errors import OlmwebError
from olmweb.web.forms import clean_text

if TYPE_CHECKING:
    CatalogForm = forms.ModelForm[Catalog]
else:  # generic for the type checker only
    CatalogForm = forms.ModelForm

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
LONGEST_SOURCE = 2000
FILE, URL, IMAGE = "File", "URL", "Image"
KINDS = (FILE, URL, IMAGE)


def own_source(
    kind: str,
    source: str,
    *,
    access: Callable[[], RegistryAccess | None] = lambda: None,
    limits: Limits = LIMITS,
) -> ContentSource:
    """The source of a catalog's row, without a request. Raises SourceError if it is invalid.

    `access` is called for an image only.
    """
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
        return ImageSource(source, access=access(), limits=limits)
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
    """Raises SourceError for an invalid source of that kind, and for a URL or registry that no
    sync reads."""
    if len(source) > LONGEST_SOURCE:
        raise SourceError(
            f"The source is longer than {LONGEST_SOURCE:,} characters.", code="bad-source"
        )
    own_source(kind, source)
    if kind == URL:
        guard.check_host(guard.parse(source), source)
    if kind == IMAGE:
        _check_registry(parse_reference(source))


def _check_registry(reference: ImageReference) -> None:
    """Raises SourceError if every registry that may be asked for the image has a forbidden
    address."""
    if _is_readable(reference, settings.INSECURE_REGISTRIES):
        return
    access = registry_access()
    for endpoint in access.registries.endpoints(reference):
        host = {endpoint.reference.host} if endpoint.insecure else set()
        if _is_readable(endpoint.reference, access.insecure | host):
            return
    raise SourceError(
        f"{reference} can't be read: the registry {reference.host} is on this machine or its "
        "network link.",
        code="bad-url",
        hint="Name a registry with another address. One on this machine is read if its HOST:PORT "
        "is in OLMWEB_INSECURE_REGISTRIES.",
    )


def _is_readable(reference: ImageReference, trusted: Collection[str]) -> bool:
    url = f"https://{reference.host}"
    try:
        guard.check_host(guard.parse(url), url, trusted)
    except SourceError:
        return False
    return True


def own_catalog(name: str, kind: str, source: str) -> Catalog:
    """Creates the catalog of that name without a cluster, or changes its source.

    Raises SourceError for a bad name or source.
    """
    check_name(name)
    check_source(kind, source)
    catalog = Catalog.objects.filter(cluster=None, slug=name).first() or Catalog(name=name)
    catalog.source_kind, catalog.source = kind, source
    save_catalog(catalog)
    return catalog


# Columns about the source of the stored content.
OF_SOURCE = ("last_modified", "synced_digest", "resolved_digest", "access_method", "access_methods")
TYPED = ("source_kind", "source", "priority")


def is_own(catalog: Catalog | None) -> bool:
    """Whether a person added the catalog; those of a cluster follow its objects."""
    return catalog is not None and catalog.cluster_id is None and catalog.source_kind in KINDS


def require_own(catalog: Catalog) -> Catalog:
    """The catalog. Raises OlmwebError (409) for one of a cluster."""
    if not is_own(catalog):
        raise OlmwebError(
            f"{catalog} follows its {catalog.source_kind} in the cluster.",
            code="not-own",
            status=409,
            hint="Change or delete that object; the catalog follows with the next sync.",
        )
    return catalog


def save_catalog(catalog: Catalog) -> None:
    """Saves a new catalog, or the TYPED columns of a stored one; records it in the audit log.

    After a change of the source the next sync reads the new one. Raises SourceError for a name
    that was taken at the same moment.
    """
    try:
        with transaction.atomic():
            if catalog._state.adding:
                catalog.slug = catalog.name
                catalog.save()
                audit.record(audit.Event.CATALOG_ADDED, **describe(catalog))
                return
            before = Catalog.objects.values(*TYPED).get(pk=catalog.pk)
            changed = [name for name in TYPED if before[name] != getattr(catalog, name)]
            if not changed:
                return
            if {"source", "source_kind"} & set(changed):
                blank = Catalog()
                for name in OF_SOURCE:
                    setattr(catalog, name, getattr(blank, name))
            catalog.save(update_fields=[*TYPED, *OF_SOURCE])
            values = {name: f"{_shown(before[name])} → {_shown(getattr(catalog, name))}"
                      for name in changed}  # fmt: skip
            audit.record(audit.Event.CATALOG_CHANGED, catalog=str(catalog), changed=values)
    except IntegrityError:
        raise SourceError(_taken(catalog.name), code="name-taken") from None


def describe(catalog: Catalog) -> dict[str, str]:
    """The details of an event of the audit log about the whole catalog."""
    kind = str(catalog.source_kind)
    return {"catalog": str(catalog), "source_kind": kind, "source": _shown(catalog.source)}


def _shown(value: object) -> str:
    """Without the query of a URL, which may hold a token."""
    return str(value).partition("?")[0]


def _taken(name: str) -> str:
    return f"There is a catalog -/{name} already; choose another name."


class OwnCatalogForm(CatalogForm):
    """A catalog of no cluster; the name of a stored one can't be changed.

    `reads_files`: whether files of the server are offered as a source.
    """

    source_kind = forms.ChoiceField(
        label="Kind of source",
        choices=[
            (IMAGE, "Image in a registry"),
            (URL, "URL"),
            (FILE, "File, folder or tar on this server"),
        ],
        error_messages=dict.fromkeys(
            ("required", "invalid_choice"), "Choose one of the kinds of source."
        ),
    )
    source = forms.CharField(
        max_length=LONGEST_SOURCE,
        help_text="registry/repository:tag, https://host/catalog.json or /path/of/catalog",
        error_messages={"required": "Enter the reference of the image, the URL or the path."},
        widget=forms.TextInput(attrs={"size": 80}),
    )

    class Meta:
        model = Catalog
        fields = ("name", *TYPED)
        error_messages = {
            "name": {"required": "Enter a name, such as community."},
            "priority": {"required": "Enter a number; 0 is usual."},
        }

    def __init__(self, *args: Any, reads_files: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields.pop("name", None)
        kind = self.fields["source_kind"]
        if not reads_files:
            kind.choices = [pair for pair in kind.choices if pair[0] != FILE]  # type: ignore[attr-defined]
            self.fields["source"].help_text = "registry/repository:tag or https://host/catalog.json"

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        _check(check_name, name)
        if Catalog.objects.filter(cluster=None, slug=name).exists():
            raise forms.ValidationError(_taken(name))
        return name

    def clean_source(self) -> str:
        source = clean_text(self.cleaned_data["source"])
        if kind := self.cleaned_data.get("source_kind"):
            _check(check_source, kind, source)
        return source


def _check(check: Callable[..., None], *values: str) -> None:
    try:
        check(*values)
    except SourceError as error:
        raise forms.ValidationError(f"{error.message} {error.hint}".rstrip()) from error
