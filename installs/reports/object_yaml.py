"""The YAML of one object of a cluster, read on request as the user who requested it.

Only kinds of KINDS, and of these only objects that the sync has stored, so no request names a path
of the API. Secrets are never read. A worker reads the object, the row holds its YAML for SHOWN.
`to_yaml` and `kubectl_command` are pure.
"""

import json
import shlex
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import yaml
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.utils import timezone

from catalogs.models import Catalog
from installs.models import ClusterOperator, Component, CRDState, ObjectYaml, Operator
from olmweb.accounts.roles import impersonation_for, may_read_yaml, person, sign_in_problem
from olmweb.clusters import client_for, require_configured
from olmweb.errors import Missing, OlmwebError
from olmweb.kube import resources
from olmweb.kube.errors import Forbidden, KubeError, NotFound
from olmweb.models import Cluster
from olmweb.tasks import enqueue

TASK = "installs.read_object"
SHOWN = timedelta(minutes=5)  # after the request
PATIENCE = 30  # seconds after which a request that no worker has taken is given up
TIMEOUT = (5.0, 15.0)  # seconds to connect and to wait for an answer
LIMIT = 1024 * 1024  # characters of YAML
HIDDEN_KIND = "Secret"

# All kinds of the sync but Events and Pods, of which it stores parts.
KINDS: dict[str, resources.Resource] = {
    resource.kind: resource
    for resource in resources.ALL
    if resource not in (resources.EVENTS, resources.PODS)
}


def require_stored(cluster: Cluster, kind: str, namespace: str, name: str) -> None:
    """Checks that the object is one that the sync has stored; at most two queries.

    Raises OlmwebError (403) for a Secret, Missing for any other object.
    """
    if kind == HIDDEN_KIND:
        raise OlmwebError(
            "OLM Web never reads Secrets.",
            code="not-allowed",
            status=403,
            hint="Use kubectl, if your account may read it.",
        )
    if kind in KINDS:
        named = Q(cluster=cluster, namespace=namespace, name=name)
        tables: list[QuerySet[Any]]
        if kind == resources.CLUSTER_OPERATORS.kind:
            tables = [ClusterOperator.objects.filter(named)]
        elif kind == resources.CUSTOM_RESOURCE_DEFINITIONS.kind:
            tables = [CRDState.objects.filter(named)]
        elif kind in tuple(Catalog.SourceKind):
            tables = [Catalog.objects.filter(named, source_kind=kind)]
        else:
            tables = [model.objects.filter(named, kind=kind) for model in (Operator, Component)]
        if any(rows.exists() for rows in tables):
            return
    raise Missing(
        f"OLM Web has stored no {kind[:80]} {name[:120]} of cluster {cluster}.",
        code="unknown-object",
        hint="It may have been deleted; the pages list the objects that are stored.",
    )


def current_yaml(
    user: User, cluster: Cluster, kind: str, namespace: str, name: str, now: datetime
) -> ObjectYaml | None:
    """The row of this user that is not older than SHOWN; one query."""
    rows = ObjectYaml.objects.filter(user=user, cluster=cluster, requested_at__gt=now - SHOWN)
    return rows.filter(kind=kind, namespace=namespace, name=name).first()


def is_pending(row: ObjectYaml, now: datetime) -> bool:
    """Whether a worker may still read it."""
    return row.finished_at is None and now - row.requested_at < timedelta(seconds=PATIENCE)


def request_yaml(
    user: User, cluster: Cluster, kind: str, namespace: str, name: str, now: datetime
) -> ObjectYaml:
    """Enqueues the reading of a stored object, unless this user's last request is pending.

    Raises OlmwebError: 403 for a user who may not read it, 409 for a removed cluster, and as
    `require_stored`.
    """
    acting = person(user, may_read_yaml)
    require_configured(cluster)
    require_stored(cluster, kind, namespace, name)
    row = current_yaml(acting, cluster, kind, namespace, name, now)
    if row is not None and is_pending(row, now):
        return row
    row, _ = ObjectYaml.objects.update_or_create(
        user=acting,
        cluster=cluster,
        kind=kind,
        namespace=namespace,
        name=name,
        defaults={
            "text": "",
            "error_text": "",
            "error_hint": "",
            "requested_at": now,
            "finished_at": None,
        },
    )
    enqueue(TASK, row.pk)
    return row


def read_object(row: ObjectYaml) -> None:
    """Reads the object as the user, whose rights are checked again, and completes the row."""
    ObjectYaml.objects.filter(requested_at__lt=timezone.now() - SHOWN).delete()
    reader = "the account of OLM Web"
    try:
        require_configured(row.cluster)
        require_stored(row.cluster, row.kind, row.namespace, row.name)
        as_user = impersonation_for(row.user, may_read_yaml)
        if problem := sign_in_problem(row.user):
            fail(row, problem, "")
            return
        reader = as_user.user if as_user else reader
        resource = KINDS[row.kind]
        with client_for(row.cluster, timeout=TIMEOUT) as client:
            document = client.get(
                resource,
                _version(row.cluster, resource),
                row.name,
                row.namespace,
                as_user=as_user,
            )
    except Forbidden as error:
        text = f"Cluster {row.cluster} does not let {reader} read {row.kind} {row.name}."
        fail(row, text, error.message)
        return
    except NotFound:
        text = f"Cluster {row.cluster} has no {row.kind} {row.name} any more."
        fail(row, text, "It was deleted after the last sync.")
        return
    except (KubeError, OlmwebError) as error:
        fail(row, error.message, error.hint)
        return
    text = to_yaml(document)
    if len(text) > LIMIT:
        size = f"{len(text) / LIMIT:.1f} MiB"
        fail(row, f"The YAML of {row.kind} {row.name} has {size}, more than is shown here (1 MiB).",
             "Read it with kubectl.")  # fmt: skip
        return
    row.text = text
    _finish(row)


def fail(row: ObjectYaml, text: str, hint: str) -> None:
    row.text, row.error_text, row.error_hint = "", text, hint
    _finish(row)


def _finish(row: ObjectYaml) -> None:
    """Not written over a newer request, and not made again after its user was deleted."""
    ObjectYaml.objects.filter(pk=row.pk, requested_at=row.requested_at).update(
        text=row.text,
        error_text=row.error_text,
        error_hint=row.error_hint,
        finished_at=timezone.now(),
    )


def _version(cluster: Cluster, resource: resources.Resource) -> str:
    """The version that the cluster served at the last sync, else the preferred one."""
    served = cluster.kinds.get(resource.kind, {}).get("version")
    return served if served in resource.versions else resource.versions[0]


def kubectl_command(kind: str, namespace: str, name: str) -> str:
    """The command that prints the same object; the reader's kubeconfig has contexts of its own."""
    resource = KINDS[kind]
    words = ["kubectl", "get", f"{resource.plural}.{resource.group}", name]
    words += ["-n", namespace] if namespace else []
    return shlex.join([*words, "-o", "yaml"])


def console_link(cluster: Cluster, kind: str, namespace: str, name: str) -> str:
    """The page of the object in the OpenShift Console; empty without one.

    OLMWEB_CONSOLES goes before the address that the cluster reports.
    """
    address = settings.CONSOLES.get(cluster.name) or cluster.console
    resource = KINDS.get(kind)
    if not address or resource is None:
        return ""
    place = f"ns/{quote(namespace, safe='')}" if namespace else "cluster"
    reference = f"{resource.group}~{_version(cluster, resource)}~{kind}"
    return f"{address}/k8s/{place}/{reference}/{quote(name, safe='')}"


class _Dumper(yaml.CSafeDumper):
    """Writes texts of several lines as such."""


def _text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(document: dict[str, Any]) -> str:
    """The object as `kubectl get -o yaml` prints it: without managedFields, keys sorted, in ASCII.

    The data of Secrets inside it are left out, also of those in texts of JSON: the steps of an
    InstallPlan, the annotation last-applied-configuration.
    """
    meta = document.get("metadata")
    if isinstance(meta, dict):
        meta = {key: value for key, value in meta.items() if key != "managedFields"}
        document = {**document, "metadata": meta}
    return yaml.dump(_without_secrets(document), Dumper=_Dumper, width=10**6)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    if isinstance(value, str):
        return _json_without_secrets(value)
    if not isinstance(value, dict):
        return value
    hidden = ("data", "stringData") if value.get("kind") == HIDDEN_KIND else ()
    return {key: _without_secrets(inner) for key, inner in value.items() if key not in hidden}


def _json_without_secrets(text: str) -> str:
    """The text as it is, unless it is JSON with a Secret in it."""
    if HIDDEN_KIND not in text or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value = json.loads(text)
        shown = _without_secrets(value)
    except ValueError:
        return text
    except RecursionError:  # nested too deeply to be searched
        return ""
    return text if shown == value else json.dumps(shown)
