"""Query parameters that several routes of both apps have: clusters, catalogs, install methods."""

from typing import Annotated

from django.db.models import Q
from pydantic import AfterValidator, BeforeValidator

from catalogs.install_methods import InstallMethod
from catalogs.lookup import split_reference
from olmweb.api.parameters import Values, any_of
from olmweb.models import LOCAL

CLUSTER = "Name of the cluster; `-` for catalogs that no cluster serves."
CATALOG = "Reference of the catalog: CLUSTER/NAME, or `-/NAME` without a cluster."
METHOD = "Install method: the kind of the object that installs the package."


def read_reference(value: str) -> str:
    split_reference(value)
    return value


Reference = Annotated[str, AfterValidator(read_reference)]
OptionalReference = Annotated[str, AfterValidator(lambda value: value and read_reference(value))]
References = list[Reference] | None
Method = Annotated[InstallMethod, BeforeValidator(InstallMethod.parse)]


def on_clusters(clusters: Values, prefix: str) -> Q:
    """Rows whose catalog, at `prefix`, is of one of these clusters; LOCAL stands for none."""

    def condition(name: str) -> Q:
        return Q(
            **{f"{prefix}cluster": None} if name == LOCAL else {f"{prefix}cluster__name": name}
        )

    return any_of(clusters, condition)
