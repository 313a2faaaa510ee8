"""What people may ask a cluster for: install and remove. Plans, tries and records; sends nothing.

Sending and following is the worker's (installs.follow). An Action row is written before anything
is sent, and at most one is open per object, so asking twice is asking once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction

from catalogs.models import Bundle, Package
from installs import manifests
from installs.diagnosis.knowledge import by_id
from installs.models import Action, Operator
from installs.refusals import explain
from installs.tasks import run_action
from olmweb.access import AnyUser, impersonation_for, person
from olmweb.clusters import client_for
from olmweb.errors import BadRequest, OlmwebError
from olmweb.kube.errors import KubeError
from olmweb.kube.resources import CLUSTER_EXTENSIONS, PLATFORM_OPERATORS
from olmweb.models import Cluster

DRY_RUN_TIMEOUT = (5.0, 5.0)  # seconds to connect and to wait for the answer: a person waits
# The only catalog that a PlatformOperator is installed from (platform-operators, sourcer).
SOURCE_CATALOG = "redhat-operators"
REMOVABLE = {one.kind: one for one in (PLATFORM_OPERATORS, CLUSTER_EXTENSIONS)}


@dataclass(frozen=True, slots=True)
class Caution:
    """Something that a plan should make a person think twice; never stops them.

    `rule` is the id of the finding that would come of it, or of our own rule; `source` is where
    the rule stands in the controllers' code.
    """

    rule: str
    text: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """An install that could be asked for. `yaml` is `manifest` as a person would write it."""

    cluster: Cluster
    package: Package
    name: str
    manifest: dict[str, Any]
    yaml: str
    warnings: tuple[Caution, ...] = ()


@dataclass(frozen=True, slots=True)
class DryRun:
    """What the cluster said when it only tried. `fields`: form or object field -> sentence."""

    ok: bool
    message: str
    fields: dict[str, str] = field(default_factory=dict)
    code: str = ""
    hint: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "message": self.message, "fields": self.fields}


def plan_install(cluster: Cluster, package: Package, name: str, user: AnyUser) -> Plan:
    """The PlatformOperator that installs this package, and what speaks against it.

    An empty `name` means the default one. Makes no request. Raises OlmwebError with `fields` for
    values that the cluster would surely refuse, and when it serves no PlatformOperators or the
    person may not act.
    """
    person(user)
    state = cluster.kinds.get(PLATFORM_OPERATORS.kind, {})
    if state.get("state") != "served":
        raise OlmwebError(
            f"Cluster {cluster.name} serves no PlatformOperators, so nothing can be installed "
            "there this way.",
            code="not-served",
            status=409,
            hint="PlatformOperators exist on OpenShift 4.12 to 4.15 with TechPreviewNoUpgrade.",
        )
    name = name.strip() or manifests.default_name(package.name)
    choice = manifests.Choice(
        path=PLATFORM_OPERATORS.kind,
        package=package.name,
        name=name,
        api_version=state.get("version") or "",
    )
    found = manifests.problems(choice)
    if found:
        raise BadRequest(" ".join(found.values()), code="invalid", **found)
    (manifest,) = manifests.objects_for(choice.path, choice)
    warnings = tuple(_cautions(cluster, package, name))
    return Plan(cluster, package, name, manifest, manifests.as_yaml(manifest), warnings)


def dry_run(plan: Plan, user: AnyUser) -> DryRun:
    """Lets the cluster try the plan without keeping it, as the person who would ask for it.

    Waits at most five seconds. Never raises for what the cluster says or for its absence.
    """
    who = impersonation_for(user)
    try:
        with client_for(plan.cluster, timeout=DRY_RUN_TIMEOUT) as client:
            client.apply(
                PLATFORM_OPERATORS,
                plan.manifest["apiVersion"].partition("/")[2],
                plan.manifest,
                dry_run=True,
                as_user=who,
            )
    except KubeError as error:
        told = explain(
            error,
            cluster=plan.cluster.name,
            as_user=who.user if who else "",
            verb="install",
            plural=f"{PLATFORM_OPERATORS.plural}.{PLATFORM_OPERATORS.group}",
        )
        return DryRun(False, told.message, told.fields, told.code, told.hint)
    return DryRun(True, f"Cluster {plan.cluster.name} would accept this.")


def request_install(
    plan: Plan, user: AnyUser, *, tried: DryRun | None = None, idempotency_key: str = ""
) -> Action:
    """Records the install and lets a worker send it.

    Asked twice, the second call returns the first one's action: while that is open, or for ever
    with the same `idempotency_key` of the same person. Raises OlmwebError when the object has
    another open action, or the person may not act.
    """
    return _request(
        plan.cluster,
        user,
        verb=Action.Verb.INSTALL,
        path=PLATFORM_OPERATORS.kind,
        name=plan.name,
        idempotency_key=idempotency_key,
        package=plan.package.name,
        catalog=plan.package.catalog.name,
        manifests=[plan.manifest],
        dry_run=tried.as_json() if tried else {},
    )


def removal_consequences(operator: Operator) -> tuple[str, ...]:
    """What else a removal does, in sentences, to be said before it is asked for."""
    return (
        f"{operator.kind} {operator.name} and every object that it installed are deleted.",
        "Its CustomResourceDefinitions go too, and with them every object of these kinds in every "
        "namespace.",
    )


def request_remove(
    cluster: Cluster, operator: Operator, user: AnyUser, *, idempotency_key: str = ""
) -> Action:
    """Records the removal of this very object (by its uid) and lets a worker send it.

    Asked twice as `request_install`. Raises OlmwebError for a kind that OLM Web does not remove.
    """
    if operator.kind not in REMOVABLE:
        raise OlmwebError(
            f"OLM Web does not remove objects of the kind {operator.kind}.",
            code="not-removable",
            status=409,
        )
    return _request(
        cluster,
        user,
        verb=Action.Verb.REMOVE,
        path=operator.kind,
        name=operator.name,
        idempotency_key=idempotency_key,
        namespace=operator.namespace,
        package=operator.package,
        catalog=operator.catalog,
        object_uid=operator.uid,
    )


def _request(
    cluster: Cluster,
    user: AnyUser,
    *,
    verb: Action.Verb,
    path: str,
    name: str,
    idempotency_key: str,
    namespace: str = "",
    **fields: Any,
) -> Action:
    acting, who = person(user), impersonation_for(user)
    if idempotency_key:
        known = Action.objects.filter(user=acting, idempotency_key=idempotency_key).first()
        if known:
            return known
    values = {
        "cluster": cluster,
        "verb": verb,
        "path": path,
        "namespace": namespace,
        "name": name,
        "user": acting,
        "as_user": who.user if who else "",
        "as_groups": list(who.groups) if who else [],
        "idempotency_key": idempotency_key,
        **fields,
    }
    for _ in range(2):
        # The open action that is in the way may be finished when we look: then ask again.
        action = _create(values) or _open_action(values)
        if action:
            return action
    raise _busy(values, "action")


def _create(values: dict[str, Any]) -> Action | None:
    """The recorded action; None when its object has an open one."""
    try:
        with transaction.atomic():
            action = Action.objects.create(**values)
            run_action.delay_on_commit(action.pk)
    except IntegrityError:
        return None
    return action


def _open_action(values: dict[str, Any]) -> Action | None:
    """The open action that the new one would double. Raises OlmwebError when it is another one."""
    identity = {key: values[key] for key in ("cluster", "path", "namespace", "name")}
    action = Action.objects.filter(**identity, state__in=Action.OPEN).first()
    if action is None:
        return None
    if action.verb == values["verb"] and action.manifests == values.get("manifests", []):
        return action
    raise _busy(values, str(action.verb))


def _busy(values: dict[str, Any], doing: str) -> OlmwebError:
    return OlmwebError(
        f"Another {doing} of {values['path']} {values['name']} on cluster "
        f"{values['cluster'].name} is not finished.",
        code="busy",
        status=409,
        retryable=True,
        hint="Wait until it is finished, then ask again.",
    )


# What speaks against a bundle: finding that it would end in, and whether its facts say so.
_BUNDLE_RULES: tuple[tuple[str, Callable[[Bundle], bool], str], ...] = (
    (
        "allnamespaces-required",
        lambda one: one.install_modes_known and "AllNamespaces" not in one.install_modes,
        "does not support the AllNamespaces install mode and would fail to unpack",
    ),
    (
        "apiservicedefinitions-unsupported-rukpak",
        lambda one: bool(one.owned_api_services),
        "owns APIServices and would fail to unpack",
    ),
    (
        "webhookdefinitions-unsupported-rukpak",
        lambda one: bool(one.webhooks),
        "declares webhooks and would fail to unpack",
    ),
)


def _cautions(cluster: Cluster, package: Package, name: str) -> list[Caution]:
    found = []
    if package.catalog.name != SOURCE_CATALOG:
        found.append(
            Caution(
                "other-catalog",
                f"PlatformOperators are installed from the catalog {SOURCE_CATALOG} only, not from "
                f"{package.catalog.name}.",
                by_id()["po-package-not-found"].source[0],
            )
        )
    # The controller takes the highest version of all channels, whatever the default channel is.
    bundle = package.bundles.order_by("-version_key", "ordinal").first()
    if bundle is not None:
        found += [
            Caution(rule, f"The bundle {bundle.name} {why}.", by_id()[rule].source[0])
            for rule, applies, why in _BUNDLE_RULES
            if applies(bundle)
        ]
    conflict = by_id()["helm-ownership-conflict"].source[0]
    others = Operator.objects.filter(
        cluster=cluster, kind=PLATFORM_OPERATORS.kind, package=package.name
    ).exclude(name=name)
    for other in others[:3]:
        text = (
            f"PlatformOperator {other.name} installs the same package; a second one would fail, "
            "because both bring the same objects."
        )
        found.append(Caution("helm-ownership-conflict", text, conflict))
    there = Operator.objects.filter(cluster=cluster, kind=PLATFORM_OPERATORS.kind, name=name)
    for row in there:
        text = f"A PlatformOperator named {name} exists already, for the package {row.package}."
        found.append(Caution("already-there", text))
    return found
