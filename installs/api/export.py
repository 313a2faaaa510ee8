"""REST route of exports: the same files as the export page gives."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from catalogs import lookup
from catalogs.install_methods import InstallMethod
from installs.export.asked import ARGOCD, KUSTOMIZE, REPOSITORY_WORDS, TYPES, WORDS, YAML
from installs.views.export import file_response
from olmweb.api.formats import refuse
from olmweb.api.lists import described

router = Router(tags=["Actions"])
FORMS = {"yaml": YAML, "kustomize": KUSTOMIZE, "argocd": ARGOCD}
PARAMETERS = {
    "path": "What installs it; the catalog's own way when absent.",
    "channel": "A channel; absent: any.",
    "version": "Version or range to choose from, in the path's own grammar.",
    "name": "Name of the object; the package's when absent.",
    "namespace": "Namespace to install into; the suggested one when absent.",
    "targets": "Namespaces that the OperatorGroup watches, with commas; * for all.",
    "approval": "Approval of a Subscription; Manual when absent, which holds it at its version.",
    "source": "CatalogSource or ClusterCatalog to name, for a catalog that is of no cluster.",
    "source_namespace": "Namespace of the CatalogSource.",
    "service_account": "ServiceAccount of a ClusterExtension, for clusters that need one.",
    "repo": "Git repository that holds the folder; needed for argocd.",
    "repo_path": "Folder in it; the object's name when absent.",
    "revision": "Branch, tag or commit; HEAD when absent.",
    "format": "yaml: one file; kustomize: a zip with a folder; argocd: an Application.",
}
_ENUMS = {
    "path": list(InstallMethod),
    "approval": ["Manual", "Automatic"],
    "format": list(FORMS),
}


@router.get(
    "/packages/{cluster}/{catalog}/{package}/export",
    openapi_extra={
        "parameters": [
            described(
                name, about, {"type": "string", "enum": _ENUMS[name]} if name in _ENUMS else {}
            )
            for name, about in PARAMETERS.items()
        ],
        "responses": {
            200: {"content": {kind: {"schema": {"type": "string"}} for kind in TYPES.values()}}
        },
    },
)
def get_export(request: HttpRequest, cluster: str, catalog: str, package: str) -> HttpResponseBase:
    """The manifests of an install as files, pinned to the resolved version. Asks no cluster."""
    known = (*WORDS, *REPOSITORY_WORDS, "format")
    for name in request.GET:
        if name not in known:
            raise refuse(
                name[:60],
                f'There is no query parameter "{name[:60]}" here; use {", ".join(known)}.',
                code="unknown-parameter",
            )
    form = request.GET.get("format", "yaml")
    if form not in FORMS:
        raise refuse("format", f'format must be one of {", ".join(FORMS)}, not "{form[:60]}".')
    found = lookup.get_package(cluster, catalog, package)
    return file_response(found, FORMS[form], request.GET.dict())
