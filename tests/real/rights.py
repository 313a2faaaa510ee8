"""The rights that the project ships, given to OLM Web's account on a real API server."""

from pathlib import Path

import yaml

from tests.peers import servers

ROOT = Path(__file__).resolve().parent.parent.parent
ACCOUNT = "olmweb"


def ship_rights(server: servers.ApiServer, kubeconfig: Path) -> str:
    """Applies the ClusterRoles and writes the account's kubeconfig; the name of its context."""
    subject = {"kind": "User", "name": ACCOUNT, "apiGroup": "rbac.authorization.k8s.io"}
    for thing in yaml.safe_load_all((ROOT / "deploy/kubernetes/rbac.yaml").read_text()):
        if thing["kind"] not in ("ClusterRole", "ClusterRoleBinding"):
            continue
        for one in thing.get("subjects", ()):
            if one["kind"] == "ServiceAccount":
                thing["subjects"] = [subject]
        server.admin.apply(thing)
    server.write_kubeconfig(kubeconfig, token=server.tokens[ACCOUNT])
    context: str = yaml.safe_load(kubeconfig.read_text())["current-context"]
    return context
