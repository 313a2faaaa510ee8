"""Names, labels and annotations: their syntax, their sizes, their types."""

from typing import Any

import pytest

from tests.conformance.refusals import refuse
from tests.conformance.server import EXTENSIONS, Server, about, cause, extension

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize("bad", ["Bad_Name", "-a", "a..b", "a b"])
def test_a_name_is_a_subdomain(server: Server, bad: str) -> None:
    message = f'Invalid value: "{bad}": {SUBDOMAIN}'
    expected = cause("FieldValueInvalid", message, "metadata.name")
    refuse(server, EXTENSIONS, extension(bad), bad, expected, dryRun="All")


def test_a_name_has_a_longest_length(server: Server) -> None:
    long = "a" * 254
    message = f'Invalid value: "{long}": must be no more than 253 characters'
    expected = cause("FieldValueInvalid", message, "metadata.name")
    refuse(server, EXTENSIONS, extension(long), long, expected)


def test_a_name_is_needed(server: Server) -> None:
    message = "Required value: name or generateName is required"
    expected = cause("FieldValueRequired", message, "metadata.name")
    refuse(server, EXTENSIONS, extension(""), "", expected)


def test_a_namespace_is_a_label(server: Server) -> None:
    message = (
        'Invalid value: "A_b": a lowercase RFC 1123 label must consist of lower case alphanumeric '
        "characters or '-', and must start and end with an alphanumeric character (e.g. "
        "'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    )
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "A_b"}}
    answer = server.call("POST", "/api/v1/namespaces", body)
    expected = cause("FieldValueInvalid", message, "metadata.name")
    text = f'Namespace "A_b" is invalid: metadata.name: {message}'
    server.refused(answer, 422, "Invalid", text, about("A_b", "", "Namespace", expected))


LABEL_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("labels", "value", "message"),
    [
        ({"bad key!": "x"}, "bad key!", LABEL_NAME),
        ({"key": "bad value!"}, "bad value!", LABEL_VALUE),
        ({"key": "x" * 64}, "x" * 64, "must be no more than 63 bytes"),
    ],
)
def test_labels_have_a_syntax(
    server: Server, name: str, labels: dict[str, str], value: str, message: str
) -> None:
    body = extension(name)
    body["metadata"]["labels"] = labels
    expected = cause("FieldValueInvalid", f'Invalid value: "{value}": {message}', "metadata.labels")
    refuse(server, EXTENSIONS, body, name, expected)


def test_annotations_have_a_largest_size(server: Server, name: str) -> None:
    body = extension(name)
    body["metadata"]["annotations"] = {"a": "x" * 262145}
    message = "Too long: may not be more than 262144 bytes"
    refuse(
        server, EXTENSIONS, body, name, cause("FieldValueTooLong", message, "metadata.annotations")
    )


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (3, "json: cannot unmarshal number into Go value of type v1.ObjectMeta"),
        ("x", "json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
        (
            {"labels": "x"},
            "json: cannot unmarshal string into Go struct field ObjectMeta.labels of type "
            "map[string]string",
        ),
        (
            {"labels": {"a": 1}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
        (
            {"annotations": {"a": True}},
            "json: cannot unmarshal bool into Go struct field ObjectMeta.annotations of type "
            "string",
        ),
        (
            {"finalizers": "x"},
            "json: cannot unmarshal string into Go struct field ObjectMeta.finalizers of type "
            "[]string",
        ),
    ],
)
def test_metadata_of_another_type_is_a_bad_request(
    server: Server, name: str, metadata: Any, message: str
) -> None:
    given = {"name": name, **metadata} if isinstance(metadata, dict) else metadata
    body = {**extension(name), "metadata": given}
    text = f'ClusterExtension in version "v1" cannot be handled as a ClusterExtension: {message}'
    server.refused(server.call("POST", EXTENSIONS, body), 400, "BadRequest", text)
