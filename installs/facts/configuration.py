"""What a cluster serves as `spec.config` of its operators, and the refusals of values for it."""

from collections.abc import Iterable, Mapping
from typing import Any

from catalogs.install_methods import InstallMethod
from installs.methods import METHODS
from installs.methods.base import CONFIG_FIELD, InstallChoice, Method
from installs.methods.configuration import CONFIG, normalized, read_config, schema_for
from installs.methods.configuration_fields import from_values
from installs.models import CRDState
from olmweb.errors import BadRequest, OlmwebError
from olmweb.kube.fields import dig
from olmweb.models import Cluster


def config_schema(cluster: Cluster, method: InstallMethod, version: str) -> dict[str, Any] | None:
    """The schema that `spec.config` of this kind is checked against; None if the cluster serves
    none, or one that is not stored. One query of some 25 kB."""
    resources = {kind: METHODS[kind].resource for kind in (method, InstallMethod.SUBSCRIPTION)}
    names = {f"{resource.plural}.{resource.group}": kind for kind, resource in resources.items()}
    rows = CRDState.objects.filter(cluster=cluster, name__in=names)
    stored = {names[name]: of for name, of in rows.values_list("name", "config_schemas")}
    served = dig(stored.get(method), version)
    if not isinstance(served, Mapping):
        return None
    subscriptions = (stored.get(InstallMethod.SUBSCRIPTION) or {}).values()
    return dict(schema_for(method, served, next(filter(None, subscriptions), None)))


def read_mapping(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The normalized configuration. Raises BadRequest."""
    try:
        return normalized(config or {})
    except ValueError as error:
        raise _invalid(error) from None


def read_values(
    method: InstallMethod, values: Mapping[str, str], offered: Iterable[str]
) -> dict[str, Any]:
    """The configuration of a form with the `offered` fields. Raises BadRequest, whose `fields` are
    those of the form."""
    read = from_values(method, {name: values[name] for name in offered})
    if read.problems:
        raise BadRequest(" ".join(read.problems.values()), code="invalid", **read.problems)
    return read.config


def read_text(text: str) -> dict[str, Any]:
    """The configuration in a YAML or JSON text. Raises BadRequest."""
    try:
        return read_config(text)
    except ValueError as error:
        raise _invalid(error) from None


def _invalid(error: ValueError) -> BadRequest:
    return BadRequest(str(error), code="invalid", **{CONFIG: str(error)})


def require_config_field(rules: Method, choice: InstallChoice, cluster: Cluster | None) -> None:
    """Raises OlmwebError (422) for a method without `spec.config`, and for a cluster that is not
    known to serve it."""
    if CONFIG_FIELD not in rules.fields:
        raise _no_config(
            f"A {rules.kind} has no {CONFIG}.", "Leave it out, or choose another method."
        )
    if cluster is None or choice.has(CONFIG_FIELD):
        return
    if choice.known_fields is None:
        raise _no_config(
            f"The CustomResourceDefinition of {rules.kind}s on cluster {cluster.name} is not "
            f"known, so {CONFIG} can't be checked.",
            "Wait for the next sync of the cluster, or leave the configuration out.",
        )
    raise _no_config(
        f"Cluster {cluster.name} serves {rules.kind}s without {CONFIG_FIELD}.", rules.config_hint
    )


def _no_config(message: str, hint: str) -> OlmwebError:
    return OlmwebError(
        message, code="no-such-field", status=422, hint=hint, fields={CONFIG: message}
    )
