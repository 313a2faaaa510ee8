"""CustomResourceDefinitions on a real API server whose conversion webhook no Service answers."""

from tests.peers import servers
from tests.peers.client import ApiRefused, Object, wait_until

GROUP = "removal.example.com"
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def definition(plural: str, stored: str, conversion: Object) -> Object:
    """Two served versions, `stored` being the one that objects are written in."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": CRD[0],
        "kind": CRD[1],
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "conversion": conversion,
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == stored,
                    "schema": {"openAPIV3Schema": schema},
                }
                for version in ("v1alpha1", "v1")
            ],
        },
    }


def webhook(namespace: str) -> Object:
    service = {"namespace": namespace, "name": "kettle-service", "path": "/convert"}
    return {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": service},
        },
    }


def refusal(server: servers.ApiServer, namespace: str, plural: str, version: str) -> str:
    """Why the server does not list the objects in this version; empty when it does."""
    path = f"/apis/{GROUP}/{version}/namespaces/{namespace}/{plural}"
    try:
        server.admin.call("GET", path)
    except ApiRefused as error:
        return str(error)
    return ""


def readable(server: servers.ApiServer, namespace: str, plural: str, version: str) -> bool:
    return not refusal(server, namespace, plural, version)


def make_converted(server: servers.ApiServer, namespace: str, plural: str) -> None:
    """A CRD with an object stored as v1alpha1, whose conversion webhook no Service answers."""
    server.admin.apply(definition(plural, "v1alpha1", {"strategy": "None"}))
    wait_until(lambda: readable(server, namespace, plural, "v1alpha1"), "the CRD being served")
    path = f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}/{plural}"
    body = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": plural.capitalize(),
        "metadata": {"name": "old"},
    }
    server.admin.call("POST", path, body)
    server.admin.apply(definition(plural, "v1", webhook(namespace)))
    wait_until(
        lambda: 'service "kettle-service" not found' in refusal(server, namespace, plural, "v1"),
        "reads being refused without the webhook",
        pause=1,
    )
