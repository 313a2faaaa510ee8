"""Plans that change `spec.config` of an existing operator, and nothing else of it.

Rows hold no configuration, as it may have passwords: it is that of the last action, or read from
the cluster on request, as the person who requested it.
"""

from collections.abc import Mapping
from typing import Any

from catalogs.install_methods import InstallMethod
from installs.actions.objects import WRITTEN
from installs.actions.plan import Plan, known_fields
from installs.actions.plan_changes import applied_config, owned_manifest, plan_for
from installs.facts.configuration import config_schema, read_mapping, require_config_field
from installs.methods import METHODS, InstallChoice
from installs.methods.configuration import CONFIG
from installs.models import Action, Operator
from installs.models.steps import Apply
from olmweb.accounts.roles import AnyUser, impersonation_for
from olmweb.clusters import client_for, require_configured
from olmweb.errors import BadRequest, OlmwebError
from olmweb.kube.errors import KubeError
from olmweb.kube.fields import dig

TIMEOUT = (5.0, 5.0)  # seconds to connect and to wait for the answer: a person waits
_CHANGES = (
    "Only spec.config changes. The controller writes it into the operator's Deployments, so their "
    "pods are replaced."
)
_CLEARS = "spec.config is removed: the operator's Deployments are again as the bundle has them."
_EMPTY = "No configuration is requested, and the operator has none."


def configurable(operator: Operator) -> InstallChoice:
    """The operator as a choice without configuration; one query.

    Raises OlmwebError (422) for a kind without `spec.config`, and where the cluster serves none.
    """
    method = METHODS.get(operator.kind)
    if method is None:
        message = f"A {operator.kind} has no {CONFIG}."
        raise OlmwebError(message, code="no-such-field", status=422, fields={CONFIG: message})
    version = operator.cluster.kinds.get(operator.kind, {}).get("version", "")
    choice = InstallChoice(
        method=method.kind,
        package=operator.package,
        name=operator.name,
        api_version=version,
        known_fields=known_fields(operator.cluster, operator.kind, version),
    )
    require_config_field(method, choice, operator.cluster)
    return choice


def is_configurable(operator: Operator) -> bool:
    """Whether its kind has `spec.config` on the cluster; one query for a ClusterExtension.

    Every release of OLM v0 that OLM Web supports serves it for a Subscription.
    """
    if operator.kind != InstallMethod.CLUSTER_EXTENSION:
        return operator.kind == InstallMethod.SUBSCRIPTION
    try:
        configurable(operator)
    except OlmwebError:
        return False
    return True


def plan_configure(operator: Operator, config: Mapping[str, Any], *, take: bool = False) -> Plan:
    """Replaces the whole `spec.config`; an empty one is removed. `take` takes fields over from
    other managers.

    Raises OlmwebError: as `configurable`, and with `fields` for what the served schema refuses.
    """
    choice = configurable(operator)
    method = METHODS[operator.kind]
    wanted = read_mapping(config)
    if wanted:
        schema = config_schema(operator.cluster, choice.method, choice.api_version)
        problems = method.problems_of_config(wanted, schema)
        if problems:
            raise BadRequest(" ".join(problems.values()), code="invalid", **problems)
    manifest = owned_manifest(operator)
    # The other fields that OLM Web owns, as they are now: an apply without them removes them.
    method.upgrade(manifest, operator, {})
    manifest["spec"].pop(CONFIG, None)
    manifest["spec"] |= {CONFIG: wanted} if wanted else {}
    return plan_for(
        operator,
        Action.Verb.CONFIGURE,
        (Apply(manifest, main=True),),
        channel=operator.channel,
        force=take,
        consequences=(_consequence(operator, wanted),),
    )


def _consequence(operator: Operator, wanted: Mapping[str, Any]) -> str:
    if wanted:
        return _CHANGES
    return _EMPTY if applied_config(operator) == {} else _CLEARS


def read_current(operator: Operator, user: AnyUser) -> dict[str, Any]:
    """The configuration that the object has now, read as this user, who may act on clusters.

    Raises OlmwebError: 403 for other users, 409 for a removed cluster, 502 with the cluster's
    reason if it gives none.
    """
    require_configured(operator.cluster)
    as_user = impersonation_for(user)
    resource = WRITTEN[operator.kind]
    version = operator.cluster.kinds.get(operator.kind, {}).get("version", resource.versions[0])
    try:
        with client_for(operator.cluster, timeout=TIMEOUT) as client:
            there = client.get(
                resource, version, operator.name, operator.namespace, as_user=as_user
            )
    except KubeError as error:
        raise OlmwebError(error.message, code=error.code, status=502, hint=error.hint) from None
    config = dig(there, "spec", CONFIG)
    return dict(config) if isinstance(config, Mapping) else {}
