"""The pod with which OLM looks for a newer image of a catalog, while another pod serves it.

Below the knowledge base, which reads its facts; catalog_pods.py is above it.
"""

from collections.abc import Mapping

# Start of the error of a step of OLM with that pod (operator-lifecycle-manager
# pkg/controller/registry/reconciler/grpc.go) -> sentence for the cause.
_STEPS = {
    "creating update catalog source pod: ": (
        "OLM makes this pod to look for a newer image of the catalog; the pod that serves the "
        "catalog is another one and stays."
    ),
    "error deleting failed catalog polling pod: ": (
        "OLM wanted to delete the pod with which it looked for a newer image of the catalog, as "
        "that had failed to start; the pod that serves the catalog is another one and stays."
    ),
    "duplicate catalog polling pod: ": (
        "OLM wanted to delete the pod with which it had looked for a newer image of the catalog, "
        "and there was none; the pod that serves the catalog is another one and stays."
    ),
}
_FACT = "polling_step"
_SERVING, _POLLING = "the pod that serves the catalog", "the second pod of the catalog"
_NAMING_IT = ("newer image", " OLM polled the image")


def of_polling_pod(text: str, kind: str) -> dict[str, str]:
    """`polling_step`: the step of OLM with the polling pod that a message of a CatalogSource
    names; empty for other messages."""
    if kind != "CatalogSource":
        return {}
    return next(({_FACT: step.strip(": ")} for step in _STEPS if step in text), {})


def with_polling_pod(cause: str, facts: Mapping[str, str]) -> str:
    """The cause with a sentence on the pod that failed, if `facts` have a step of OLM with the
    polling pod and the cause does not name that pod."""
    sentence = _STEPS.get(f"{facts.get(_FACT, '')}: ")
    if sentence is None or any(words in cause for words in _NAMING_IT):
        return cause
    return f"{cause.replace(_SERVING, _POLLING)} {sentence}"
