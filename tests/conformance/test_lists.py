"""Lists and reads: pages, expired pages, and what a resourceVersion in the query means."""

import base64
import json
from typing import Any

import pytest

from tests.conformance.server import (
    EXTENSIONS,
    SUBSCRIPTIONS,
    Answer,
    Server,
    about,
    cause,
    extension,
    subscription,
)
from tests.peers.client import wait_until

FORBIDDEN_MATCH = "resourceVersionMatch is forbidden unless resourceVersion is provided"


@pytest.fixture
def five(server: Server, ns: str) -> str:
    """The path of a namespace's list with s0 .. s4."""
    path = SUBSCRIPTIONS.format(ns)
    for number in range(5):
        parity = "odd" if number % 2 else "even"
        server.made(path, subscription(f"s{number}", labels={"parity": parity}))
    return path


def test_a_list_has_its_kind_and_a_version(server: Server, five: str) -> None:
    body = server.get(five).body
    server.same(
        (body["apiVersion"], body["kind"]), ("operators.coreos.com/v1alpha1", "SubscriptionList")
    )
    server.same(sorted(body["metadata"]), ["continue", "resourceVersion"])
    server.same(body["metadata"]["continue"], "")
    newest = max(int(item["metadata"]["resourceVersion"]) for item in body["items"])
    server.same(int(body["metadata"]["resourceVersion"]) >= newest, True)


def test_items_are_sorted_by_name_and_carry_their_kind(server: Server, five: str) -> None:
    answer = server.get(five)
    server.same(answer.names, ["s0", "s1", "s2", "s3", "s4"])
    item = answer.body["items"][0]
    server.same(
        (item["kind"], item["apiVersion"]), ("Subscription", "operators.coreos.com/v1alpha1")
    )


def test_an_empty_list_has_no_items(server: Server, ns: str) -> None:
    answer = server.get(SUBSCRIPTIONS.format(ns))
    server.same((answer.status, answer.body["items"]), (200, []))


def test_a_list_over_all_namespaces_is_sorted_by_namespace(server: Server, five: str) -> None:
    namespace = five.split("/")[-2]
    everything = server.get("/apis/operators.coreos.com/v1alpha1/subscriptions").body["items"]
    keys = [f"{i['metadata']['namespace']}/{i['metadata']['name']}" for i in everything]
    server.same(keys, sorted(keys))  # as etcd orders its keys: "a-b/" comes before "a/"
    ours = [key for key in keys if key.startswith(f"{namespace}/")]
    server.same(ours, [f"{namespace}/s{number}" for number in range(5)])


def test_the_list_of_a_namespace_that_is_not_there_is_empty(server: Server) -> None:
    answer = server.get(SUBSCRIPTIONS.format("no-such-namespace"))
    server.same((answer.status, answer.body["items"]), (200, []))


def test_pages_hold_every_item_once(server: Server, five: str) -> None:
    first = server.get(five, limit=2)
    server.same(first.names, ["s0", "s1"])
    server.same(first.body["metadata"]["remainingItemCount"], 3)
    second = server.get(five, limit=2, **{"continue": first.body["metadata"]["continue"]})
    server.same(second.names, ["s2", "s3"])
    server.same(second.body["metadata"]["remainingItemCount"], 1)
    third = server.get(five, limit=2, **{"continue": second.body["metadata"]["continue"]})
    server.same(third.names, ["s4"])
    server.same(third.body["metadata"]["continue"], "")
    server.same("remainingItemCount" in third.body["metadata"], False)


def test_pages_are_of_one_version_whatever_happens_meanwhile(server: Server, five: str) -> None:
    first = server.get(five, limit=2)
    server.made(five, subscription("s1-new"))
    server.made(five, subscription("s9"))
    server.call("DELETE", f"{five}/s3")
    server.merge(f"{five}/s4", {"spec": {"name": "changed"}})
    rest = server.get(five, **{"continue": first.body["metadata"]["continue"]})
    server.same(rest.names, ["s2", "s3", "s4"])
    server.same(rest.body["items"][2]["spec"]["name"], "etcd")
    server.same(rest.body["metadata"]["resourceVersion"], first.body["metadata"]["resourceVersion"])
    server.same(server.get(five).names, ["s0", "s1", "s1-new", "s2", "s4", "s9"])


def test_a_page_that_ends_exactly_has_no_next_one(server: Server, five: str) -> None:
    metadata = server.get(five, limit=5).body["metadata"]
    server.same((metadata["continue"], "remainingItemCount" in metadata), ("", False))


def test_pages_of_a_selection_do_not_say_how_many_remain(server: Server, five: str) -> None:
    first = server.get(five, limit=1, labelSelector="parity=even")
    server.same(first.names, ["s0"])
    server.same("remainingItemCount" in first.body["metadata"], False)
    token = first.body["metadata"]["continue"]
    rest = server.get(five, limit=5, labelSelector="parity=even", **{"continue": token})
    server.same(rest.names, ["s2", "s4"])


def test_a_limit_below_zero_is_none(server: Server, five: str) -> None:
    server.same(len(server.get(five, limit=-1).names), 5)


def test_a_limit_that_is_no_number_is_refused(server: Server, five: str) -> None:
    text = 'strconv.ParseInt: parsing "x": invalid syntax'
    server.refused(server.get(five, limit="x"), 400, "BadRequest", text)


def test_a_token_of_our_own_making_is_refused(server: Server, five: str) -> None:
    answer = server.get(five, limit=2, **{"continue": "xyz"})
    server.begins(answer, 400, "BadRequest", "invalid continue token: continue key is not valid: ")


def test_a_token_and_a_version_exclude_each_other(server: Server, five: str) -> None:
    first = server.get(five, limit=2).body["metadata"]
    token, version = first["continue"], first["resourceVersion"]
    answer = server.get(five, resourceVersion=version, **{"continue": token})
    text = "specifying resource version is not allowed when using continue"
    server.refused(answer, 400, "BadRequest", text)


def test_a_token_is_the_version_and_where_to_go_on(server: Server, five: str) -> None:
    metadata = server.get(five, limit=2).body["metadata"]
    text = metadata["continue"]
    decoded = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    server.same(decoded["rv"], int(metadata["resourceVersion"]))
    server.same((decoded["v"], decoded["start"][-3:]), ("meta.k8s.io/v1", "s1\0"))


# --- history that is gone


def expired(server: Server, path: str) -> tuple[Server, Answer]:
    """The second page of a list whose version is no longer there."""
    token = server.get(path, limit=2).body["metadata"]["continue"]
    server.made(path, subscription("s1-new"))
    server.merge(f"{path}/s4", {"spec": {"name": "changed"}})
    server.forget()
    uncached = server.uncached()
    return uncached, uncached.get(path, limit=2, **{"continue": token})


def test_an_expired_token_is_410_with_a_token_to_go_on_inconsistently(
    server: Server, five: str
) -> None:
    _server, answer = expired(server, five)
    body = answer.body
    text = (
        "The provided continue parameter is too old to display a consistent list result. You can "
        "start a new list without the continue parameter, or use the continue token in this "
        "response to retrieve the remainder of the results. Continuing with the provided token "
        "results in an inconsistent list - objects that were created, modified, or deleted "
        "between the time the first chunk was returned and now may show up in the list."
    )
    server.same((answer.status, body["code"], body["reason"]), (410, 410, "Expired"))
    server.same(body["message"], text)
    server.same(sorted(body["metadata"]), ["continue"])
    server.same("details" in body, False)


def test_the_inconsistent_token_goes_on_with_what_is_there_now(server: Server, five: str) -> None:
    uncached, answer = expired(server, five)
    token = answer.body["metadata"]["continue"]
    page = uncached.get(five, limit=2, **{"continue": token})
    server.same(page.names, ["s1-new", "s2"])
    last = uncached.get(five, limit=5, **{"continue": page.body["metadata"]["continue"]})
    server.same(last.names, ["s3", "s4"])
    server.same(last.body["items"][1]["spec"]["name"], "changed")


def test_an_exact_version_that_is_gone_is_410(server: Server, five: str) -> None:
    version = server.version(five)
    server.merge(f"{five}/s4", {"spec": {"name": "changed"}})
    server.forget()
    answer = server.uncached().get(five, resourceVersion=version, resourceVersionMatch="Exact")
    text = "The resourceVersion for the provided list is too old."
    server.refused(answer, 410, "Expired", text)


# --- resourceVersion in the query


def test_an_older_version_gives_what_is_there_now(server: Server, five: str) -> None:
    version = server.version(five)
    server.made(five, subscription("s5"))
    for query in ({"resourceVersion": version}, {"resourceVersion": "0"}, {}):
        answer = server.get(five, **query)
        server.same(len(answer.names), 6)
        server.same(int(answer.body["metadata"]["resourceVersion"]) > int(version), True)


def test_not_older_than_gives_what_is_there_now(server: Server, five: str) -> None:
    server.made(five, subscription("s5"))
    # Of an older version the watch cache of the real server may still answer without s5.
    query = {"resourceVersion": server.version(five), "resourceVersionMatch": "NotOlderThan"}
    server.same(len(server.get(five, **query).names), 6)


def test_an_exact_version_gives_what_was_there_then(server: Server, five: str) -> None:
    version = server.version(five)
    server.made(five, subscription("s5"))
    server.call("DELETE", f"{five}/s0")
    server.merge(f"{five}/s1", {"spec": {"name": "changed"}})
    answer = server.get(five, resourceVersion=version, resourceVersionMatch="Exact")
    server.same(answer.names, ["s0", "s1", "s2", "s3", "s4"])
    server.same(answer.body["items"][1]["spec"]["name"], "etcd")
    server.same(answer.body["metadata"]["resourceVersion"], version)


def test_a_version_with_a_limit_is_exact(server: Server, five: str) -> None:
    version = server.version(five)
    server.made(five, subscription("s00"))
    answer = server.get(five, resourceVersion=version, limit=2)
    server.same(answer.names, ["s0", "s1"])
    server.same(answer.body["metadata"]["resourceVersion"], version)


def test_version_zero_ignores_the_limit(server: Server, five: str) -> None:
    def whole() -> bool:
        """Whether the cache of the server, which answers this list, has all five."""
        return len(server.get(five, resourceVersion="0").names) == 5

    wait_until(whole, "five Subscriptions in the cache")
    answer = server.get(five, resourceVersion="0", limit=2)
    server.same((len(answer.names), answer.body["metadata"]["continue"]), (5, ""))


@pytest.mark.parametrize(
    ("query", "reason", "message"),
    [
        ({"resourceVersionMatch": "Exact"}, "FieldValueForbidden", f"Forbidden: {FORBIDDEN_MATCH}"),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            "FieldValueForbidden",
            'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        (
            {"resourceVersionMatch": "Bad", "resourceVersion": "7"},
            "FieldValueNotSupported",
            'Unsupported value: "Bad": supported values: "Exact", "NotOlderThan", ""',
        ),
    ],
)
def test_a_match_that_makes_no_sense_is_422(
    server: Server, five: str, query: dict[str, Any], reason: str, message: str
) -> None:
    field = "resourceVersionMatch"
    details = about("", "meta.k8s.io", "ListOptions", cause(reason, message, field))
    text = f'ListOptions.meta.k8s.io "" is invalid: {field}: {message}'
    server.refused(server.get(five, **query), 422, "Invalid", text, details)


def test_a_version_that_is_no_number_is_refused(server: Server, five: str) -> None:
    text = 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
    answer = server.get(five, resourceVersion="abc")
    server.refused(answer, 400, "BadRequest", f"invalid resource version: {text}")
    # The same fault of a read is no 400: the real server finds it further down.
    server.refused(server.get(f"{five}/s0", resourceVersion="abc"), 500, "", text)


def too_large(answer: Answer, server: Server) -> None:
    body = answer.body
    server.same((answer.status, body["reason"], body["code"]), (504, "Timeout", 504))
    server.same(
        body["details"],
        {
            "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            ],
            "retryAfterSeconds": 1,
        },
    )
    server.same(body["message"].split(", ")[0], "Timeout: Too large resource version: 99999999")


def test_a_version_of_the_future_is_a_timeout(server: Server, five: str) -> None:
    too_large(server.get(five, resourceVersion="99999999"), server)
    query = {"resourceVersion": "99999999", "resourceVersionMatch": "Exact"}
    too_large(server.get(five, **query), server)
    too_large(server.get(f"{five}/s0", resourceVersion="99999999"), server)


# --- reading one


def test_an_object_is_read_with_its_metadata(server: Server, five: str) -> None:
    item = server.get(f"{five}/s3").body
    server.same((item["kind"], item["spec"]["name"]), ("Subscription", "etcd"))
    server.same(
        sorted(item["metadata"]),
        [
            "creationTimestamp",
            "generation",
            "labels",
            "managedFields",
            "name",
            "namespace",
            "resourceVersion",
            "uid",
        ],
    )
    server.same(item, server.get(five, fieldSelector="metadata.name=s3").body["items"][0])


def test_an_object_is_read_at_no_particular_version(server: Server, five: str) -> None:
    version = server.version(five)
    whole = server.get(f"{five}/s3").body
    for requested in ("0", version):
        server.same(server.get(f"{five}/s3", resourceVersion=requested).body, whole)


def test_a_status_is_read_as_the_whole_object(server: Server, five: str) -> None:
    server.same(server.get(f"{five}/s3/status").body, server.get(f"{five}/s3").body)


def test_only_a_large_answer_is_compressed_and_only_on_request(server: Server, ns: str) -> None:
    path = SUBSCRIPTIONS.format(ns)
    server.made(path, subscription("large", annotations={"text": "x" * 200_000}))
    server.made(path, subscription("small"))
    gzip = {"Accept-Encoding": "gzip"}

    def encoding(target: str, headers: dict[str, str]) -> str | None:
        answer = server.call("GET", f"{path}{target}", headers=headers)
        server.same(answer.status, 200)
        return answer.headers.get("Content-Encoding")

    server.same(encoding("/large", gzip), "gzip")
    server.same(encoding("", gzip), "gzip")
    server.same(encoding("/small", gzip), None)
    server.same(encoding("/large", {}), None)
    whole = server.call("GET", f"{path}/large", headers=gzip).body
    server.same(whole, server.get(f"{path}/large").body)


@pytest.mark.parametrize(
    ("path", "message", "details"),
    [
        (
            f"{EXTENSIONS}/none",
            'clusterextensions.olm.operatorframework.io "none" not found',
            about("none", "olm.operatorframework.io", "clusterextensions"),
        ),
        (
            SUBSCRIPTIONS.format("default") + "/none",
            'subscriptions.operators.coreos.com "none" not found',
            about("none", "operators.coreos.com", "subscriptions"),
        ),
        ("/api/v1/namespaces/none", 'namespaces "none" not found', about("none", "", "namespaces")),
        (
            "/apis/apps/v1/namespaces/default/deployments/none",
            'deployments.apps "none" not found',
            about("none", "apps", "deployments"),
        ),
    ],
)
def test_what_is_not_there_is_404(
    server: Server, path: str, message: str, details: dict[str, Any]
) -> None:
    server.refused(server.get(path), 404, "NotFound", message, details)


def test_an_unknown_subresource_is_404_of_the_object(server: Server, name: str) -> None:
    server.made(EXTENSIONS, extension(name))
    text = f'clusterextensions.olm.operatorframework.io "{name}" not found'
    details = about(name, "olm.operatorframework.io", "clusterextensions")
    server.refused(server.get(f"{EXTENSIONS}/{name}/nope"), 404, "NotFound", text, details)
