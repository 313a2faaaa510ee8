"""The feature gates in the arguments of operator-controller's Deployment. One request."""

from typing import Any

import structlog

from olmweb.kube.client import KubeClient
from olmweb.kube.errors import Forbidden, NotFound
from olmweb.kube.fields import dig, items, text, texts
from olmweb.kube.resources import DEPLOYMENTS

log = structlog.get_logger(__name__)
# In every release, whatever its namespace: olmv1-system, openshift-operator-controller.
NAME = "operator-controller-controller-manager"
FLAG = "--feature-gates"
ON = frozenset(("1", "t", "T", "TRUE", "true", "True"))  # of Go's strconv.ParseBool


def read_gates(client: KubeClient) -> dict[str, bool] | None:
    """Gate -> whether it is on, for the gates that the arguments name. None if the Deployment is
    missing, ambiguous or may not be read. Raises KubeError."""
    selector = f"metadata.name={NAME}"
    try:
        pages = list(client.list_pages(DEPLOYMENTS, "v1", field_selector=selector))
    except (Forbidden, NotFound) as error:
        log.info("gates not read", cluster=client.name, error=error.message)
        return None
    deployments = [deployment for page in pages for deployment in page.items]
    named = [
        deployment for deployment in deployments if text(deployment, "metadata", "name") == NAME
    ]
    return gates_of(named[0]) if len(named) == 1 else None


def gates_of(deployment: dict[str, Any]) -> dict[str, bool]:
    """The gates in the arguments of the containers; the last value of a repeated gate."""
    gates: dict[str, bool] = {}
    for container in items(dig(deployment, "spec", "template", "spec"), "containers"):
        words = iter((*texts(container, "command"), *texts(container, "args")))
        for word in words:
            flag, equals, value = word.partition("=")
            if flag != FLAG:
                continue
            for pair in (value if equals else next(words, "")).split(","):
                name, separator, on = pair.partition("=")
                if separator:
                    gates[name.strip()] = on.strip() in ON
    return gates
