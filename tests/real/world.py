"""A cluster with real OLM v0 on it, and what a person with kubectl does there.

Every test takes a namespace of its own. There is no node: `play_node` says of Deployments what a
kubelet and a scheduler would, and nobody else does.
"""

import itertools
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.peers import servers
from tests.peers.client import Client, Object, wait_until
from tests.peers.controllers import OlmV0, Opm, ensure_namespace, olm_v0, opm_serve
from tests.peers.processes import Server, folder
from tests.real.bundles import Bundle, write_catalog

V1ALPHA1 = "operators.coreos.com/v1alpha1"
V1 = "operators.coreos.com/v1"
CATALOG = "harbour"
# A limit for OLM on a busy machine; it needs seconds. The resolver comes by every few seconds.
SECONDS = 90
AGAIN_SECONDS = 5  # in which OLM's caches have what was created
BUNDLES = (
    Bundle("anchor", "1.0.0"),
    Bundle("anchor", "1.1.0", replaces="anchor.v1.0.0"),
    Bundle("mooring", "1.0.0", modes=("OwnNamespace", "SingleNamespace")),
    Bundle("beacon", "1.0.0", requires=("lamps",)),
    Bundle("winch", "1.0.0"),
    Bundle("gull", "1.0.0"),
    Bundle("tern", "1.0.0"),
    Bundle("lantern", "1.0.0", owns=False),
)


class World:
    """OLM v0 with the global CatalogSource `harbour`, which `opm` serves."""

    def __init__(self, server: servers.ApiServer, olm: OlmV0, opm: Opm) -> None:
        self.server = server
        self.olm = olm
        self.opm = opm
        self._numbers = itertools.count(1)

    @property
    def kubectl(self) -> Client:
        return self.server.admin

    def namespace(self, prefix: str) -> str:
        """A new namespace, without an OperatorGroup."""
        name = f"{prefix}-{next(self._numbers)}"
        ensure_namespace(self.kubectl, name)
        return name

    def own_namespace(self, prefix: str) -> str:
        """A new namespace with an OperatorGroup for itself.

        Stories may share a package then: OLM refuses the same APIs from two operators only where
        their groups overlap.
        """
        name = self.namespace(prefix)
        self.operator_group(name, [name])
        return name

    def all_namespaces(self, prefix: str) -> str:
        """A new namespace with an OperatorGroup for all; needs a package of the story's own."""
        name = self.namespace(prefix)
        self.operator_group(name)
        return name

    def operator_group(
        self, namespace: str, targets: Sequence[str] = (), name: str = "group"
    ) -> Object:
        meta = {"name": name, "namespace": namespace}
        spec = {"targetNamespaces": list(targets)} if targets else {}
        return self.kubectl.create(
            {"apiVersion": V1, "kind": "OperatorGroup", "metadata": meta, "spec": spec}
        )

    def group_of(self, namespace: str) -> Object:
        return self.kubectl.get(V1, "OperatorGroup", "group", namespace)

    def catalog_source(self, name: str, namespace: str, address: str) -> Object:
        """Creates a CatalogSource and waits until OLM has connected to it."""
        created = self.kubectl.create(
            {
                "apiVersion": V1ALPHA1,
                "kind": "CatalogSource",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "sourceType": "grpc",
                    "address": address,
                    "displayName": name.title(),
                    "publisher": "OLM Web",
                },
            }
        )

        def is_ready() -> bool:
            seen = self.kubectl.get(V1ALPHA1, "CatalogSource", name, namespace)
            state = seen.get("status", {}).get("connectionState", {})
            return state.get("lastObservedState") == "READY"

        wait_until(is_ready, f"CatalogSource {name} READY", SECONDS)
        return created

    @contextmanager
    def dead_catalog(self, name: str, namespace: str, *bundles: Bundle) -> Iterator[None]:
        """A CatalogSource that was READY once and whose server is gone; deleted at the end."""
        with folder("dead-catalog") as catalog:
            write_catalog(catalog, bundles)
            with opm_serve(catalog) as opm:
                source = self.catalog_source(name, namespace, opm.address)
        try:
            yield
        finally:
            # OLM would go on trying, and write of every attempt.
            self.kubectl.delete(source)

    def subscribe(self, namespace: str, package: str, **spec: Any) -> Object:
        """Creates a Subscription named after its package; `spec` overrides its fields."""
        wanted = {
            "name": package,
            "channel": "stable",
            "source": CATALOG,
            "sourceNamespace": self.olm.namespace,
            "installPlanApproval": "Automatic",
        }
        meta = {"name": package, "namespace": namespace}
        return self.kubectl.create(
            {
                "apiVersion": V1ALPHA1,
                "kind": "Subscription",
                "metadata": meta,
                "spec": wanted | spec,
            }
        )

    def subscription(self, namespace: str, name: str) -> Object:
        return self.kubectl.get(V1ALPHA1, "Subscription", name, namespace)

    def condition(self, namespace: str, name: str, type_: str) -> Object | None:
        """One condition of a Subscription, when it has it."""
        conditions = self.subscription(namespace, name).get("status", {}).get("conditions") or []
        return next((c for c in conditions if c["type"] == type_), None)

    def tied(self, namespace: str, name: str, csv: str) -> None:
        """Waits until the Subscription names the CSV, which OLM writes seconds after that."""

        def names_it() -> bool:
            status = self.subscription(namespace, name).get("status", {})
            return status.get("currentCSV") == csv

        wait_until(names_it, f"Subscription {name} naming {csv}", SECONDS)

    def install_plan(self, namespace: str, csv: str) -> Object:
        """The InstallPlan for a CSV, as soon as OLM has made it and written its first status.

        An approval before that is lost: it makes OLM's own write a conflict, and OLM then makes a
        second plan, which waits for approval again.
        """

        def look() -> Object | None:
            for plan in self.kubectl.list(V1ALPHA1, "InstallPlan", namespace):
                named = csv in plan["spec"]["clusterServiceVersionNames"]
                if named and plan.get("status", {}).get("phase"):
                    return plan
            return None

        return wait_until(look, f"an InstallPlan for {csv}", SECONDS)

    def approve(self, plan: Object) -> None:
        self.kubectl.merge(plan, {"spec": {"approved": True}})

    def csv(self, namespace: str, name: str, phase: str, reason: str = "") -> Object:
        """The CSV as soon as it is in `phase`, for `reason` when one is given."""
        status: Object = {}

        def look() -> Object | None:
            found = self.kubectl.find(V1ALPHA1, "ClusterServiceVersion", name, namespace)
            status.clear()
            status.update((found or {}).get("status", {}))
            is_there = status.get("phase") == phase and reason in ("", status.get("reason"))
            return found if is_there else None

        try:
            return wait_until(look, f"{name} {phase} {reason}", SECONDS)
        except TimeoutError as error:
            said = [status.get(key) for key in ("phase", "reason", "message")]
            raise TimeoutError(f"{error}; it is {said}") from None

    def csv_again(self, namespace: str, name: str) -> None:
        """Lets OLM look at the CSV once more, a moment from now."""
        time.sleep(AGAIN_SECONDS)
        csv = self.kubectl.get(V1ALPHA1, "ClusterServiceVersion", name, namespace)
        self.kubectl.merge(csv, {"metadata": {"annotations": {"olmweb.dev/looked": "again"}}})

    @contextmanager
    def paused(self, *programs: Server) -> Iterator[None]:
        """OLM, or only these of its programs, do nothing meanwhile, as where pods can't run."""
        processes = [one.process for one in programs or (self.olm.olm, self.olm.catalog)]
        for process in processes:
            assert process
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                assert process
                process.send_signal(signal.SIGCONT)

    def play_node(self, namespace: str, available: bool = True) -> None:
        """Every Deployment of the namespace gets the pods that it asks for, or loses them."""

        def look() -> list[Object]:
            return self.kubectl.list("apps/v1", "Deployment", namespace)

        for one in wait_until(look, "a Deployment", SECONDS):
            wanted = one["spec"]["replicas"]
            running = wanted if available else 0
            reason = "MinimumReplicasAvailable" if available else "MinimumReplicasUnavailable"
            condition = {
                "type": "Available",
                "status": str(available),
                "reason": reason,
                "message": "Played by a test.",
            }
            self.kubectl.set_status(
                {"apiVersion": "apps/v1", "kind": "Deployment", **one},
                {
                    "observedGeneration": one["metadata"]["generation"],
                    "replicas": wanted,
                    "updatedReplicas": wanted,
                    "readyReplicas": running,
                    "availableReplicas": running,
                    "unavailableReplicas": wanted - running,
                    "conditions": [condition],
                },
            )


@contextmanager
def world(etcd: servers.Etcd) -> Iterator[World]:
    """An API server of its own with OLM v0, opm and the global catalog connected."""
    with ExitStack() as stack:
        server = stack.enter_context(servers.apiserver(etcd, audit_log=True))
        servers.apply_crds(server)
        catalog = stack.enter_context(folder("catalog"))
        write_catalog(catalog, BUNDLES)
        opm = stack.enter_context(opm_serve(catalog))
        olm = stack.enter_context(olm_v0(server))
        running = World(server, olm, opm)
        running.catalog_source(CATALOG, olm.namespace, opm.address)
        yield running
