"""The five tasks of docs/api.md on a running product with its worker: with curl, exactly as
printed, and with a Python client that was generated from the product's own OpenAPI document.
"""

import csv
import hashlib
import hmac
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from tests.e2e.product import ROOT, Product, product_folder, serve, wait_until_judged
from tests.worlds.examples import examples, run
from tests.worlds.generated_client import GeneratedClient, generated_client
from tests.worlds.webhook_receiver import Got, Receiver

pytestmark = pytest.mark.e2e
SECRET = "not-a-real-secret"
OUTCOME_SECONDS = 60
ANSWER_SECONDS = 30  # other tests may keep the machine busy
FAILING = "policy-demo"  # its webhook makes a PlatformOperator of it fail
STATUS, INSTALL, APPROVE = (
    "Status into a spreadsheet",
    "Install and wait",
    "Approve from a pipeline",
)
FOLLOW, ALERT = "Follow events", "Alert on new failures"
Curl = Callable[..., str]
T = TypeVar("T")


@pytest.fixture(scope="module")
def demo() -> Iterator[Product]:
    """Reading is not public, as on an installation that people share."""
    with product_folder() as folder:
        environment = {
            "KUBECONFIG": str(folder / "kubeconfig"),
            "OLMWEB_CLUSTERS": "sandbox=sandbox",
            "OLMWEB_STATE_POLL": "2s",
        }
        with serve(folder, environment, "--demo") as running:
            wait_until_judged(folder)
            yield running


def create_token(demo: Product, user: str) -> str:
    """With the command at the top of docs/api.md."""
    [command, *_] = re.findall(r"^olmweb (token create .*?) +#", examples("REST API")[0])
    words = command.replace("USER", user).replace("NAME", "pipeline").split()
    done = subprocess.run(
        [sys.executable, "-m", "olmweb.cli", *words, "--scope", "act"],
        cwd=ROOT, capture_output=True, text=True, check=True,
        env={"PATH": "", "OLMWEB_DATA_DIR": str(demo.folder)},
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture(scope="module")
def token(demo: Product) -> str:
    return create_token(demo, "admin")


@pytest.fixture
def curl(demo: Product, token: str, tmp_path: Path) -> Curl:
    """Runs commands of the documentation; names in capitals are their variables."""

    def call(commands: str, **values: str) -> str:
        return run(commands, demo.url, token, tmp_path, **values)

    return call


@pytest.fixture(scope="module")
def client(
    demo: Product, token: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GeneratedClient]:
    headers = {"Authorization": f"Bearer {token}"}
    address = f"{demo.url}/api/v1/openapi.json"
    document = httpx.get(address, headers=headers, timeout=ANSWER_SECONDS).content
    with generated_client(document, tmp_path_factory.mktemp("client")) as client:
        yield client


@pytest.fixture
def call(demo: Product, token: str, client: GeneratedClient) -> Iterator[Callable[..., Any]]:
    """The parsed answer of an operation of the generated client, which must be a success."""
    with client.connect(demo.url, token) as connected:

        def call(operation: str, *names: Any, **values: Any) -> Any:
            answer = client.function(operation)(*names, client=connected, **values)
            assert answer.status_code < 300, answer.content
            return answer.parsed

        yield call


def wait_for(read: Callable[[], T], done: Callable[[T], Any]) -> T:
    """What `read` returns when `done` is true of it, asked twice a second."""
    deadline = time.monotonic() + OUTCOME_SECONDS
    while not done(value := read()):
        assert time.monotonic() < deadline, value
        time.sleep(0.5)
    return value


def wait_with_curl(curl: Curl, action: dict[str, Any]) -> dict[str, Any]:
    command = examples(INSTALL)[1]
    return wait_for(
        lambda: json.loads(curl(command, ACTION=str(action["id"]))), lambda row: row["finished_at"]
    )


def wait_with_client(call: Callable[..., Any], action: Any) -> Any:
    return wait_for(lambda: call("get_action", action.id), lambda row: row.finished_at)


# -- status into a spreadsheet ---------------------------------------------------------------------


def test_status_into_a_spreadsheet(curl: Curl, call: Callable[..., Any], tmp_path: Path) -> None:
    [command] = examples(STATUS)
    curl(command)
    with (tmp_path / "operators.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    operators = call("list_operators", limit=500)
    assert operators.count == len(operators.items) == len(rows) > 80
    fields = ("cluster", "namespace", "name", "kind", "version", "health", "reason")
    assert [*rows[0]] == [*fields]
    assert rows == [{name: getattr(row, name) for name in fields} for row in operators.items]


# -- install and wait ------------------------------------------------------------------------------


def test_install_and_wait_with_curl(curl: Curl) -> None:
    ask, _ = examples(INSTALL)
    action = json.loads(curl(ask, KEY="job-1"))
    assert json.loads(curl(ask, KEY="job-1"))["id"] == action["id"], "the same job once more"
    ended = wait_with_curl(curl, action)
    assert ended["state"] == "succeeded"
    assert re.fullmatch(r"backup-demo [\d.]+ is installed\.", ended["outcome"])
    detail = examples(ALERT)[1]
    names = {"CLUSTER": "sandbox", "KIND": "PlatformOperator", "NAMESPACE": "-"}
    operator = json.loads(curl(detail, NAME="backup-demo", **names))
    assert operator["health"] == "Healthy"


def test_install_and_wait_with_the_client(
    call: Callable[..., Any], client: GeneratedClient
) -> None:
    body = client.body(
        "ActionBody", 
        cluster="sandbox", verb="install", method="Subscription", package="icon-demo",
        catalog="sandbox/openshift-marketplace.redhat-operators", namespace="icon-demo",
    )  # fmt: skip
    ended = wait_with_client(call, call("create_action", body=body, idempotency_key="client-1"))
    assert (ended.state, ended.object_.kind) == ("succeeded", "Subscription")
    operator = call("get_operator", "sandbox", "Subscription", "icon-demo", "icon-demo")
    assert operator.health == "Healthy"


# -- approve from a pipeline -----------------------------------------------------------------------


def test_an_install_plan_is_approved_with_curl_and_the_operator_upgraded(curl: Curl) -> None:
    waiting, read, approve = examples(APPROVE)[:3]
    rows = {row["name"]: row for row in json.loads(curl(waiting))["items"]}
    assert (rows["ceiling-demo"]["version"], rows["ceiling-demo"]["upgrade"]) == ("1.0.0", "1.1.0")
    plan = json.loads(curl(read))["approval"]["install_plan"]
    ended = wait_with_curl(curl, json.loads(curl(approve, INSTALL_PLAN=plan)))
    assert ended["state"] == "succeeded", ended
    operator = json.loads(curl(read))
    assert (operator["version"], operator["health"]) == ("1.1.0", "Healthy")
    assert operator["approval"] is None


def test_an_install_plan_is_approved_with_the_client(
    call: Callable[..., Any], client: GeneratedClient
) -> None:
    names = ("sandbox", "Subscription", "openshift-devspaces", "devspaces")
    needs_approval = client.model("Health").NEEDSAPPROVAL
    [row] = call("list_operators", health=[needs_approval], package=["devspaces"]).items
    assert (row.kind, row.namespace, row.name) == names[1:]
    body = client.body(
        "ActionBody", 
        cluster="sandbox", verb="approve", namespace="openshift-devspaces",
        name=call("get_operator", *names).approval.install_plan,
    )  # fmt: skip
    ended = wait_with_client(call, call("create_action", body=body))
    assert ended.state == "succeeded", ended
    assert call("get_operator", *names).version == "3.2.0"


def test_a_request_is_approved_and_its_package_installed(
    demo: Product, curl: Curl, client: GeneratedClient
) -> None:
    listed, approve = examples(APPROVE)[3:]
    body = client.body(
        "InstallRequestBody", 
        cluster="sandbox", package="markup-demo", version="1.0.0", reason="For the team.",
        method="ClusterExtension", namespace="markup-demo",
    )  # fmt: skip
    with client.connect(demo.url, create_token(demo, "viewer")) as viewer:
        made = client.function("create_request")(client=viewer, body=body)
        assert made.status_code == 201, made.content
        [row] = json.loads(curl(listed))["items"]
        assert (row["id"], row["user"], row["package"]) == (made.parsed.id, "viewer", "markup-demo")
        ended = wait_with_curl(curl, json.loads(curl(approve, REQUEST=str(row["id"]))))
        assert ended["state"] == "succeeded", ended
        decided = client.function("get_request")(row["id"], client=viewer).parsed
    assert (decided.state, decided.action) == ("approved", ended["id"])
    assert decided.comment == "Approved by the pipeline."


# -- follow events ---------------------------------------------------------------------------------


def test_events_are_followed_with_curl_and_with_the_client(
    curl: Curl, call: Callable[..., Any]
) -> None:
    [command] = examples(FOLLOW)
    ids: list[int] = []
    while items := json.loads(curl(command, AFTER=str(ids[-1] if ids else 0)))["items"]:
        ids += [item["id"] for item in items]
    assert len(ids) > 85, "the discovery of each operator"
    assert ids == sorted({*ids})
    read: list[int] = []
    while page := call("list_events", after=read[-1] if read else 0, limit=50).items:
        read += [item.id for item in page]
    assert read[: len(ids)] == ids


def test_a_stream_of_events_has_what_happens(
    demo: Product, token: str, call: Callable[..., Any], client: GeneratedClient
) -> None:
    """With the command of docs/events.md, in the background."""
    command = examples("Follow it", "events.md")[0].replace("cluster=prod", "cluster=sandbox")
    stream = subprocess.Popen(
        ["sh", "-euc", f"exec {command}"], stdout=subprocess.PIPE, text=True,
        env={"PATH": "/usr/bin:/bin", "OLMWEB": demo.url, "TOKEN": token},
    )  # fmt: skip
    try:
        assert stream.stdout is not None
        assert stream.stdout.readline().startswith("retry:")
        body = client.body(
        "ActionBody", 
            cluster="sandbox", verb="install", package="nightly-demo"
        )  # fmt: skip
        action = call("create_action", body=body)
        for line in stream.stdout:
            if line.startswith("data:"):
                event = json.loads(line.removeprefix("data:"))
                if event["type"] == "action.finished" and event["data"]["action"] == action.id:
                    break
    finally:
        stream.terminate()
        stream.communicate(timeout=10)
    assert (event["data"]["state"], event["name"]) == ("succeeded", "nightly-demo")


# -- alert on new failures -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network_address() -> str:
    """OLM Web sends nothing to loopback addresses, so a receiver listens on another one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no network but loopback")
        return str(probe.getsockname()[0])


@pytest.fixture
def receiver(demo: Product, network_address: str) -> Iterator[Receiver]:
    """A receiver of webhooks that is added in the admin pages."""
    with (
        Receiver(network_address) as running,
        httpx.Client(base_url=demo.url, timeout=ANSWER_SECONDS) as browser,
    ):
        submit(browser, "/login/", username="admin", password="demo-admin")
        submit(
            browser, "/admin/installs/webhookreceiver/add/", name="alerts", format="json",
            new_url=f"http://{running.host}/hook", new_secret=SECRET, types="operator.health",
            clusters="sandbox", enabled="on",
        )  # fmt: skip
        yield running


def submit(browser: httpx.Client, path: str, **values: str) -> None:
    """Fills in and sends the form of a page."""
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get(path).text)
    assert token, path
    answer = browser.post(path, data={"csrfmiddlewaretoken": token[1], **values})
    assert answer.status_code == 302, answer.text


def is_genuine(request: Got) -> bool:
    """What the example of docs/webhook.md says of the request."""
    [code] = examples("Signature", "webhook.md", "python")
    names: dict[str, Any] = {
        "hmac": hmac, "hashlib": hashlib, "time": time, "secret": SECRET.encode(),
        "timestamp": request.headers["olmweb-timestamp"], "body": request.raw,
        "signature": request.headers["olmweb-signature"],
    }  # fmt: skip
    exec(code, names)  # noqa: S102  # our own documentation
    return bool(names["genuine"])


def test_a_new_failure_is_an_alert_with_its_cause(
    receiver: Receiver, curl: Curl, call: Callable[..., Any], client: GeneratedClient
) -> None:
    """By polling with curl and with the client, and by a signed webhook: the same event."""
    changes, detail = examples(ALERT)
    before = [json.loads(line)["id"] for line in curl(changes, AFTER="0").splitlines()]
    after = max(before, default=0)
    body = client.body(
        "ActionBody", cluster="sandbox", verb="install", package=FAILING, anyway=True
    )
    ended = wait_with_client(call, call("create_action", body=body))
    assert ended.state == "failed", ended
    rows = [json.loads(line) for line in curl(changes, AFTER=str(after)).splitlines()]
    [alert] = [row for row in rows if row["name"] == FAILING and row["data"]["health"] == "Failed"]
    names = {"CLUSTER": alert["cluster"], "KIND": alert["kind"], "NAME": alert["name"]}
    finding = json.loads(curl(detail, NAMESPACE=alert["namespace"] or "-", **names))["finding"]
    assert finding["id"] == alert["data"]["finding"] == "webhookdefinitions-unsupported-rukpak"
    assert finding["cause"]
    assert finding["remedy"]
    events = call(
        "list_events", after=after, type_=[client.model("EventType")("operator.health")]
    ).items
    assert [event.id for event in events if event.id == alert["id"]] == [alert["id"]]
    failed = call(
        "list_operators", health=[client.model("Health")("Failed")], package=[FAILING]
    ).items
    assert [row.finding.title for row in failed] == [finding["title"]]

    def sent() -> list[dict[str, Any]]:
        return [event for body in receiver.bodies for event in body["events"]]

    wait_for(sent, lambda events: any(event["id"] == alert["id"] for event in events))
    assert all(map(is_genuine, receiver.got))
    assert not is_genuine(replace(receiver.got[0], raw=receiver.got[0].raw + b" "))
    [same] = [event for event in sent() if event["id"] == alert["id"]]
    assert {name: same[name] for name in alert} == alert
