"""Label and field selectors of lists."""

from typing import Any

import pytest

from tests.conformance.server import EXTENSIONS, SUBSCRIPTIONS, Server, subscription

NAMESPACE_EVENTS = "/api/v1/namespaces/{}/events"


@pytest.fixture
def labelled(server: Server, ns: str) -> str:
    """The path of a list: a has n=1 and tier=front, b n=2 and tier=back, c n=3, d nothing."""
    path = SUBSCRIPTIONS.format(ns)
    for name, labels in (
        ("a", {"n": "1", "olm.example.com/tier": "front"}),
        ("b", {"n": "2", "olm.example.com/tier": "back"}),
        ("c", {"n": "3", "empty": ""}),
        ("d", {}),
    ):
        server.made(path, subscription(name, labels=labels))
    return path


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("n=1", "a"),
        ("n==2", "b"),
        ("n!=1", "bcd"),
        ("n in (1,3)", "ac"),
        ("n in (1, 3)", "ac"),
        ("n notin (1,3)", "bd"),
        ("n", "abc"),
        ("!n", "d"),
        ("! n", "d"),
        ("n,n!=2", "ac"),
        ("n in (1,2),olm.example.com/tier=back", "b"),
        ("olm.example.com/tier", "ab"),
        ("!olm.example.com/tier", "cd"),
        ("olm.example.com/tier notin (front),n", "bc"),
        ("empty=", "c"),
        ("empty", "c"),
        ("n in (1,)", "a"),
        ("n in ()", ""),
        ("n>1", "bc"),
        ("n<2", "a"),
        (" n = 1 ", "a"),
        ("", "abcd"),
    ],
)
def test_a_label_selector_chooses(server: Server, labelled: str, selector: str, names: str) -> None:
    server.same(server.get(labelled, labelSelector=selector).names, list(names))


EXPECTED_START = "expected: !, identifier, or 'end of string'"


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("n in 1", "unable to parse requirement: found '1' expected: '('"),
        ("n=1 2", "found '2', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("==", f"found '==', {EXPECTED_START}"),
        (",", f"found ',', {EXPECTED_START}"),
        ("!n!", "found '!', expected: ',' or 'end of string'"),
        (
            "n>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' "
            "operators, the value must be an integer",
        ),
        (
            "-n=1",
            'unable to parse requirement: <nil>: Invalid value: "-n": name part must consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
            "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
    ],
)
def test_a_label_selector_that_cannot_be_read_is_refused(
    server: Server, labelled: str, selector: str, message: str
) -> None:
    server.refused(server.get(labelled, labelSelector=selector), 400, "BadRequest", message)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=b", "b"),
        ("metadata.name==b", "b"),
        ("metadata.name!=b", "acd"),
        ("metadata.name!=a,metadata.name!=b", "cd"),
        ("metadata.name=none", ""),
    ],
)
def test_a_field_selector_chooses_by_name(
    server: Server, labelled: str, selector: str, names: str
) -> None:
    server.same(server.get(labelled, fieldSelector=selector).names, list(names))


def test_a_field_selector_chooses_by_namespace(server: Server, labelled: str) -> None:
    namespace = labelled.split("/")[-2]
    everywhere = "/apis/operators.coreos.com/v1alpha1/subscriptions"
    selected = server.get(everywhere, fieldSelector=f"metadata.namespace={namespace}")
    server.same(selected.names, ["a", "b", "c", "d"])
    both = f"metadata.namespace={namespace},metadata.name=c"
    server.same(server.get(everywhere, fieldSelector=both).names, ["c"])


def test_selectors_of_both_sorts_go_together(server: Server, labelled: str) -> None:
    query = {"labelSelector": "n", "fieldSelector": "metadata.name!=a"}
    server.same(server.get(labelled, **query).names, ["b", "c"])


@pytest.mark.parametrize(
    ("path", "selector", "message"),
    [
        (EXTENSIONS, "spec.namespace=x", "field label not supported: spec.namespace"),
        (EXTENSIONS, "metadata.namespace=x", "field label not supported: metadata.namespace"),
        (EXTENSIONS, "x", "invalid selector: 'x'; can't understand 'x'"),
        (
            EXTENSIONS,
            "metadata.name in (a)",
            "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'",
        ),
        ("/api/v1/events", "spec.x=1", "field label not supported: spec.x"),
        ("/api/v1/pods", "type=Warning", "field label not supported: type"),
        ("/api/v1/namespaces", "spec.x=1", "field label not supported: spec.x"),
        (
            "/apis/apps/v1/deployments",
            "spec.x=1",
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "spec.x=1",
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_a_field_that_cannot_be_selected_is_refused(
    server: Server, path: str, selector: str, message: str
) -> None:
    server.refused(server.get(path, fieldSelector=selector), 400, "BadRequest", message)


def event(name: str, kind: str, api_version: str, reason: str, type_: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {
            "kind": kind,
            "apiVersion": api_version,
            "name": f"of-{name}",
            "uid": f"uid-{name}",
        },
        "reason": reason,
        "message": "something happened",
        "type": type_,
        "source": {"component": "olm"},
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "count": 1,
    }


@pytest.fixture
def events(server: Server, ns: str) -> str:
    """The path of events: a of a Subscription, b of a CSV, c of a Pod."""
    path = NAMESPACE_EVENTS.format(ns)
    for name, kind, version, reason, type_ in (
        ("a", "Subscription", "operators.coreos.com/v1alpha1", "Resolved", "Normal"),
        ("b", "ClusterServiceVersion", "operators.coreos.com/v1alpha1", "Failing", "Warning"),
        ("c", "Pod", "v1", "BackOff", "Warning"),
    ):
        body = event(name, kind, version, reason, type_)
        body["involvedObject"]["namespace"] = ns
        server.made(path, body)
    return path


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("involvedObject.kind=Pod", "c"),
        ("involvedObject.kind!=Pod", "ab"),
        ("involvedObject.apiVersion=operators.coreos.com/v1alpha1", "ab"),
        ("involvedObject.apiVersion=v1", "c"),
        ("involvedObject.name=of-b", "b"),
        ("involvedObject.uid=uid-a", "a"),
        ("involvedObject.namespace=elsewhere", ""),
        ("type=Warning", "bc"),
        ("reason=BackOff", "c"),
        ("source=olm", "abc"),
        ("type=Warning,involvedObject.apiVersion=operators.coreos.com/v1alpha1", "b"),
        ("metadata.name=a", "a"),
        ("involvedObject.fieldPath=", "abc"),
    ],
)
def test_events_are_selected_by_their_object(
    server: Server, events: str, selector: str, names: str
) -> None:
    server.same(server.get(events, fieldSelector=selector).names, list(names))


def test_events_of_a_namespace_are_selected_by_that_of_their_object(
    server: Server, events: str
) -> None:
    namespace = events.split("/")[-2]
    selector = f"involvedObject.namespace={namespace},involvedObject.kind=Subscription"
    server.same(server.get("/api/v1/events", fieldSelector=selector).names, ["a"])


def test_namespaces_are_selected_by_phase(server: Server, ns: str) -> None:
    answer = server.get("/api/v1/namespaces", fieldSelector="status.phase=Active")
    server.same(ns in answer.names, True)
    answer = server.get("/api/v1/namespaces", labelSelector=f"kubernetes.io/metadata.name={ns}")
    server.same(answer.names, [ns])
