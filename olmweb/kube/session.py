"""Opens a client from a kubeconfig context, or from the ServiceAccount of the pod we run in.

The only module that reads credentials. Its errors name files, contexts and lines, never content:
a YAML parser's own message would quote the line, which may be a token.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import structlog
import urllib3
import yaml
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader

from olmweb.kube.client import KubeClient
from olmweb.kube.errors import ConfigError

log = structlog.get_logger(__name__)
Documents = Sequence[tuple[Path, Mapping[str, Any]]]  # each kubeconfig with its path
IN_CLUSTER = "in-cluster"
CONNECTIONS = 40  # open at most: a watched cluster has one for each watched resource
_unverified: set[str] = set()  # clusters that this process has warned of


def open_client(
    context: str,
    kubeconfig: str = "",
    *,
    name: str = "",
    timeout: tuple[float, float] = (5, 30),
    abandon: Callable[[], bool] = lambda: False,
    on_counts: Callable[[Counter[tuple[str, str]]], None] | None = None,
) -> KubeClient:
    """A client for `context` (`in-cluster`: the pod's ServiceAccount; empty: the current context).

    `kubeconfig` is a path, or several joined as in KUBECONFIG; empty means `~/.kube/config`.
    `name` is the cluster's name in errors; `timeout` is (connect, read) in seconds. No request is
    made. The client reads the credentials again when the cluster refuses the current ones.
    `abandon` and `on_counts` as in KubeClient. Raises ConfigError.
    """

    def load() -> ApiClient:
        configuration = Configuration()
        # Detects a server that vanished while nothing is being sent.
        configuration.keep_alive = True
        configuration.connection_pool_maxsize = CONNECTIONS
        if context == IN_CLUSTER:
            _load_in_cluster(configuration)
        else:
            _load_context(configuration, context, kubeconfig)
        if not configuration.verify_ssl:
            _warn_unverified(name or context)
        return ApiClient(configuration)

    return KubeClient(
        load(),
        name=name or context or "",
        timeout=timeout,
        renew=load,
        abandon=abandon,
        on_counts=on_counts,
    )


def _warn_unverified(cluster: str) -> None:
    """Logs once a process that a cluster's certificate is not verified, in place of the warning
    that urllib3 prints for every request."""
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    if cluster not in _unverified:
        _unverified.add(cluster)
        log.warning(
            "certificate of the API server is not verified (insecure-skip-tls-verify)",
            cluster=cluster,
        )


def _load_in_cluster(configuration: Configuration) -> None:
    try:
        load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise ConfigError(
            "OLM Web does not run inside a cluster: there is no ServiceAccount token.",
            hint="Name a kubeconfig context in OLMWEB_CLUSTERS instead of in-cluster, or let the "
            "pod mount its ServiceAccount token.",
        ) from error


def _load_context(configuration: Configuration, context: str, kubeconfig: str) -> None:
    joined = kubeconfig or str(Path("~/.kube/config").expanduser())
    paths = [Path(part).expanduser() for part in joined.split(os.pathsep) if part]
    present = [path for path in paths if path.exists()]
    if not present:
        raise ConfigError(
            f"The kubeconfig {joined} does not exist.",
            hint="Set KUBECONFIG to the file that kubectl uses.",
        )
    documents = [(path, _read_yaml(path)) for path in present]
    contexts, current = _contexts_of(documents)
    wanted = context or current
    if wanted not in contexts:
        listed = ", ".join(sorted(contexts)) or "none"
        raise ConfigError(
            f"The kubeconfig {joined} has no context named {wanted}; it has: {listed}."
            if wanted
            else f"The kubeconfig {joined} has no current context; it has: {listed}.",
            hint="Name one of these contexts in OLMWEB_CLUSTERS.",
        )
    try:
        # Without a persister: a refreshed token is not written into the person's own file.
        loader = KubeConfigLoader(  # type: ignore[no-untyped-call]
            _merged(documents), active_context=wanted, config_base_path=None
        )
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        # Not chained: the cause's text can hold what a credential plugin printed.
        raise ConfigError(
            f"Context {wanted} of the kubeconfig {joined} can't be used: {_fault(error)}.",
            hint=f"Check it with: kubectl --context {wanted} version",
        ) from None


def _fault(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'a file that it names'}: {error.strerror or 'not readable'}"
    # The only sentence of the official client that names the file.
    if isinstance(error, ConfigException) and str(error).startswith("File does not exist: "):
        return f"the file {str(error).partition(': ')[2]} that it names does not exist"
    return "its cluster or user entry is missing or incomplete"


def _merged(documents: Documents) -> ConfigNode:
    """The kubeconfigs as one; of entries of the same name the first counts, and files that an entry
    names are beside its own.

    load_kube_config does the same with a parser written in Python: 0.1 s for fifty clusters, and a
    watcher that takes over from another one opens a client for each of them at once.
    """
    merged: dict[str, list[ConfigNode]] = {"clusters": [], "contexts": [], "users": []}
    for item, nodes in merged.items():
        names = set()
        for path, document in documents:
            for entry in document.get(item) or []:
                if entry["name"] not in names:
                    names.add(entry["name"])
                    nodes.append(ConfigNode(f"{path}/{item}", entry, str(path)))  # type: ignore[no-untyped-call]
    first = str(documents[0][0])
    return ConfigNode(first, merged, first)  # type: ignore[no-untyped-call]


def _contexts_of(documents: Documents) -> tuple[set[str], str]:
    """Names of all contexts, and the first current one."""
    names: set[str] = set()
    current = ""
    for path, document in documents:
        entries = document.get("contexts") or []
        if not isinstance(entries, list):
            raise _not_a_kubeconfig(path)
        names |= {
            entry["name"]
            for entry in entries
            if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
        }
        named = document.get("current-context")
        current = current or (named if isinstance(named, str) else "")
    return names, current


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        document = _parse(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"The kubeconfig {path} can't be read: {error.strerror}.",
            hint="Let the account that runs OLM Web read this file.",
        ) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(
            f"The kubeconfig {path} is not valid YAML{where}.",
            hint="Correct that line, or have the file written again by its tool.",
        ) from None
    if not isinstance(document, dict):
        raise _not_a_kubeconfig(path)
    return document


@lru_cache(maxsize=8)
def _parse(content: bytes) -> Any:
    """A watcher that takes over fifty clusters reads the same file for each of them at once."""
    return yaml.load(content, Loader=yaml.CSafeLoader)


def _not_a_kubeconfig(path: Path) -> ConfigError:
    return ConfigError(
        f"The file {path} is not a kubeconfig: it has no list of contexts.",
        hint="Set KUBECONFIG to the file that kubectl uses.",
    )
