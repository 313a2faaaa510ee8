"""Bodies and media types that no kind takes."""

import pytest

from tests.conformance.server import (
    EXTENSIONS,
    STRATEGIC,
    Server,
    about,
    cause,
    extension,
)

OF_TYPE = "the object provided is unrecognized (must be of type ClusterExtension): "
ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize("body", [b'{"a":', b"[1]", b"7", b'"x"'])
def test_a_body_that_is_no_object_is_refused(server: Server, body: bytes) -> None:
    answer = server.call("POST", EXTENSIONS, body)
    text = f"{OF_TYPE}couldn't get version/kind; json parse error: "
    server.begins(answer, 400, "BadRequest", text)


def test_a_body_names_its_kind(server: Server, name: str) -> None:
    answer = server.call("POST", EXTENSIONS, b"{}")
    server.refused(answer, 400, "BadRequest", f"{OF_TYPE}Object 'Kind' is missing in '{{}}' ({{}})")
    body = extension(name)
    del body["kind"]
    answer = server.call("POST", EXTENSIONS, body)
    server.begins(answer, 400, "BadRequest", f"{OF_TYPE}Object 'Kind' is missing in '")


def test_a_built_in_body_may_leave_its_kind_out(server: Server, name: str) -> None:
    answer = server.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    server.same((answer.status, answer.body["kind"]), (201, "Namespace"))


def test_a_body_of_another_kind_is_422(server: Server, name: str) -> None:
    answer = server.call("POST", EXTENSIONS, {**extension(name), "kind": "Other"})
    message = 'Invalid value: "Other": must be ClusterExtension'
    expected = cause("FieldValueInvalid", message, "kind")
    text = f'Other.olm.operatorframework.io "{name}" is invalid: kind: {message}'
    details = about(name, "olm.operatorframework.io", "Other", expected)
    server.refused(answer, 422, "Invalid", text, details)


def test_a_body_of_another_version_is_a_bad_request(server: Server, name: str) -> None:
    body = {**extension(name), "apiVersion": "olm.operatorframework.io/v9"}
    text = (
        "the API version in the data (olm.operatorframework.io/v9) does not match the expected "
        "API version (olm.operatorframework.io/v1)"
    )
    server.refused(server.call("POST", EXTENSIONS, body), 400, "BadRequest", text)


def test_yaml_bodies_are_read(server: Server, name: str) -> None:
    text = f"""
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata: {{name: {name}}}
spec:
  namespace: somewhere
  source: {{sourceType: Catalog, catalog: {{packageName: etcd}}}}
"""
    answer = server.call("POST", EXTENSIONS, text.encode(), type="application/yaml")
    server.same((answer.status, answer.body["metadata"]["name"]), (201, name))
    answer = server.call("POST", EXTENSIONS, b"a: [b", type="application/yaml")
    server.begins(answer, 400, "BadRequest", OF_TYPE)


def test_a_body_of_an_unknown_media_type_is_415(server: Server, name: str) -> None:
    answer = server.call("POST", EXTENSIONS, extension(name), type="text/plain")
    text = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ACCEPTED
    )
    server.refused(answer, 415, "UnsupportedMediaType", text)


@pytest.mark.parametrize("type_", [STRATEGIC, "application/json", "text/plain"])
def test_a_custom_object_takes_three_sorts_of_patch(server: Server, name: str, type_: str) -> None:
    server.made(EXTENSIONS, extension(name))
    answer = server.call("PATCH", f"{EXTENSIONS}/{name}", {}, type=type_)
    text = (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )
    server.refused(answer, 415, "UnsupportedMediaType", text)


def test_a_body_that_is_too_large_is_413(server: Server) -> None:
    # The server may answer before it has read the whole body, so only a little more is sent.
    body = b'{"a":"' + b"x" * 3145728 + b'"}'
    answer = server.call("POST", EXTENSIONS, body)
    text = "Request entity too large: limit is 3145728"
    server.refused(answer, 413, "RequestEntityTooLarge", text)


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain",
        "application/xml",
        "application/json;as=Nope;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
    ],
)
def test_an_answer_in_an_unknown_media_type_is_406(server: Server, accept: str) -> None:
    answer = server.call("GET", EXTENSIONS, accept=accept)
    text = f"only the following media types are accepted: {ACCEPTED}"
    server.refused(answer, 406, "NotAcceptable", text)


@pytest.mark.parametrize(
    "accept",
    ["*/*", "application/*", "application/json;q=0.9, */*;q=0.1", "text/plain, application/json"],
)
def test_json_is_the_answer_to_everything_wide_enough(server: Server, accept: str) -> None:
    answer = server.call("GET", EXTENSIONS, accept=accept, limit=1)
    server.same(answer.headers["Content-Type"], "application/json")
    server.same(answer.body["kind"], "ClusterExtensionList")


def test_refusals_are_json(server: Server) -> None:
    answer = server.call("GET", f"{EXTENSIONS}/none")
    server.same(answer.headers["Content-Type"], "application/json")
