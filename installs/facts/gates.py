"""The feature gates of operator-controller, as its Deployment asks for them. One request."""

from typing import Any

import structlog

from catalogs.contents.tolerant import at, objects, text, texts
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import Forbidden, NotFound
from olmweb.kube.resources import DEPLOYMENTS

log = structlog.get_logger(__name__)
# In every release, whatever its namespace: olmv1-system, openshift-operator-controller.
NAME = "operator-controller-controller-manager"
FLAG = "--feature-gates"
ON = frozenset(("1", "t", "T", "TRUE", "true", "True"))  # of Go's strconv.ParseBool


def read_gates(client: KubeClient) -> dict[str, bool] | None:
    """Gate -> whether it is on, those alone that the arguments name. None where the Deployment is
    not there or not the only one of its name, or may not be read. Raises KubeError."""
    selector = f"metadata.name={NAME}"
    try:
        pages = list(client.list_pages(DEPLOYMENTS, "v1", field_selector=selector))
    except (Forbidden, NotFound) as error:
        log.info("gates not read", cluster=client.name, error=error.message)
        return None
    found = [each for page in pages for each in page.items]
    named = [each for each in found if text(each, "metadata", "name") == NAME]
    return gates_of(named[0]) if len(named) == 1 else None


def gates_of(deployment: dict[str, Any]) -> dict[str, bool]:
    """What the arguments of its containers say of gates; of one that is told twice the last."""
    found: dict[str, bool] = {}
    for container in objects(at(deployment, "spec", "template", "spec"), "containers"):
        words = iter((*texts(container, "command"), *texts(container, "args")))
        for word in words:
            flag, equals, value = word.partition("=")
            if flag != FLAG:
                continue
            for pair in (value if equals else next(words, "")).split(","):
                name, told, on = pair.partition("=")
                if told:
                    found[name.strip()] = on.strip() in ON
    return found
