"""Every way in which a cluster can fail us, seen through a real client and a real socket."""

import socket
from pathlib import Path

import pytest

from olmweb.kube import errors
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import KubeError
from olmweb.kube.resources import PLATFORM_OPERATORS as PO
from olmweb.kube.session import open_client
from tests.kubefake import TOKEN, Answer, KubeFake, status_answer, write_kubeconfig

ONE = "/apis/platform.openshift.io/v1alpha1/platformoperators/one"


def failure_of(client: KubeClient) -> KubeError:
    with pytest.raises(KubeError) as caught:
        client.get(PO, "v1alpha1", "one")
    assert TOKEN not in str(caught.value) + repr(caught.value.__dict__)
    assert caught.value.message.endswith((".", "…")) or caught.value.status
    return caught.value


@pytest.mark.parametrize(
    ("status", "kind", "code", "words"),
    [
        (401, errors.Unauthorized, "unauthorized", "did not accept our credentials"),
        (403, errors.Forbidden, "forbidden", "does not allow this"),
        (404, errors.NotFound, "not-found", "does not have this"),
        (405, errors.MethodNotAllowed, "method-not-allowed", "does not support"),
        (409, errors.Conflict, "conflict", "conflict"),
        (410, errors.Gone, "gone", "no longer has"),
        (415, errors.UnsupportedMediaType, "unsupported-media-type", "content type"),
        (418, errors.Refused, "refused", "refused the request (418)"),
        (422, errors.Invalid, "invalid", "does not accept this object"),
        (429, errors.TooMany, "too-many-requests", "is busy"),
        (302, errors.Broken, "cluster-broken", "an error (302)"),
        (500, errors.Broken, "cluster-broken", "an error (500)"),
        (503, errors.Broken, "cluster-broken", "an error (503)"),
    ],
)
def test_each_status_has_its_own_error_and_sentence(
    fake: KubeFake, client: KubeClient, status: int, kind: type[KubeError], code: str, words: str
) -> None:
    fake.script("GET", ONE, status_answer(status, "because of the moon", "Moon"))
    error = failure_of(client)
    assert type(error) is kind
    assert error.code == code
    assert error.message.startswith("Cluster prod ")
    assert words in error.message
    assert "because of the moon" in error.message
    assert (error.status, error.reason) == (status, "Moon")


def test_a_body_that_is_not_a_status_is_never_quoted(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", ONE, Answer(403, b"<html>proxy says secret-cookie</html>"))
    error = failure_of(client)
    assert isinstance(error, errors.Forbidden)
    assert "proxy" not in error.message
    assert error.message == f"Cluster prod does not allow this: GET {ONE} ended with 403."


def test_json_that_is_not_a_status_is_never_quoted(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", ONE, Answer(500, {"kind": "Other", "message": "internal-thing"}))
    assert "internal-thing" not in failure_of(client).message
    fake.script("GET", ONE, Answer(500, b'{"x":' + b"[" * 9_000 + b"]" * 9_000 + b"}"))
    assert "an error (500)" in failure_of(client).message


def test_long_and_unprintable_status_text_is_cut_to_one_line(
    fake: KubeFake, client: KubeClient
) -> None:
    fake.script("GET", ONE, status_answer(403, "a\n\x1b[31m" + "b" * 1000))
    message = failure_of(client).message
    assert message.isprintable()
    assert message.endswith("b…")
    assert len(message) < 300


def test_causes_of_a_422_name_field_message_and_reason(fake: KubeFake, client: KubeClient) -> None:
    cause = {"field": "spec.package.name", "message": "Too long", "reason": "FieldValueTooLong"}
    of_none = {"field": "<nil>", "message": "some rules were not checked", "reason": "Invalid"}
    details = {"causes": [cause, of_none]}
    fake.script("PATCH", ONE, status_answer(422, "is invalid", "Invalid", details=details))
    with pytest.raises(errors.Invalid) as caught:
        client.apply(PO, "v1alpha1", {"metadata": {"name": "one"}})
    assert caught.value.causes == (
        errors.Cause("spec.package.name", "Too long", "FieldValueTooLong"),
        errors.Cause("", "some rules were not checked", "Invalid"),
    )


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_obeyed_for_reads(fake: KubeFake, client: KubeClient, status: int) -> None:
    fake.script("GET", ONE, status_answer(status, "slow", headers={"Retry-After": "0"}))
    fake.put(PO, {"metadata": {"name": "one"}})
    assert client.get(PO, "v1alpha1", "one")["metadata"]["name"] == "one"
    assert client.requests == 2


def test_retries_of_a_busy_cluster_are_bounded(fake: KubeFake, client: KubeClient) -> None:
    busy = status_answer(429, "slow", headers={"Retry-After": "0"})
    fake.script("GET", ONE, *[busy] * 9)
    assert failure_of(client).retry_after == 0
    assert len(fake.requests) == 4


def test_a_long_retry_after_is_left_to_the_caller(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", ONE, status_answer(429, "slow", headers={"Retry-After": "120"}))
    assert failure_of(client).retry_after == 120
    assert len(fake.requests) == 1


def test_a_write_is_never_retried(fake: KubeFake, client: KubeClient) -> None:
    fake.script("DELETE", ONE, status_answer(429, "slow", headers={"Retry-After": "0"}))
    with pytest.raises(errors.TooMany):
        client.delete(PO, "v1alpha1", "one")
    assert len(fake.requests) == 1


@pytest.mark.parametrize("body", [b"<html>", b"", b"[1]", b"\xff"])
def test_an_answer_that_is_not_a_json_object_is_broken(
    fake: KubeFake, client: KubeClient, body: bytes
) -> None:
    fake.script("GET", ONE, Answer(200, body))
    error = failure_of(client)
    assert isinstance(error, errors.Broken)
    assert "JSON" in error.message


def test_silence_ends_as_a_timeout(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", ONE, Answer(200, b"{}", delay=1))
    error = failure_of(client)
    assert isinstance(error, errors.Unreachable)
    assert error.reason == "timeout"
    assert error.message == f"Can't reach cluster prod at {fake.url}: no answer in time."


def test_a_body_cut_in_the_middle_is_unreachable(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", ONE, Answer(200, b'{"kind": "PlatformOperator"}', cut=True))
    error = failure_of(client)
    assert isinstance(error, errors.Unreachable)
    assert error.reason == "cut"


def test_a_refused_connection_says_where_and_what_to_check(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", url)
    with open_client("prod", str(kubeconfig)) as client:
        error = failure_of(client)
    assert error.code == "unreachable"
    assert error.message == f"Can't reach cluster prod at {url}: connection refused."
    assert "Check" in error.hint


def test_https_spoken_to_a_plain_server_is_a_tls_fault(fake: KubeFake, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "tls", fake.url.replace("http:", "https:"))
    with open_client("prod", str(kubeconfig), timeout=(1, 1)) as client:
        error = failure_of(client)
    assert error.reason == "tls"
    assert "certificate" in error.message


def test_a_read_on_a_connection_that_died_is_tried_again_once(
    fake: KubeFake, client: KubeClient
) -> None:
    fake.put(PO, {"metadata": {"name": "one"}})
    fake.script("GET", ONE, Answer(drop=True))
    assert client.get(PO, "v1alpha1", "one")["metadata"]["name"] == "one"
    fake.script("GET", ONE, Answer(drop=True), Answer(drop=True))
    assert failure_of(client).reason == "cut"


def test_a_write_on_a_connection_that_died_is_not_tried_again(
    fake: KubeFake, client: KubeClient
) -> None:
    fake.script("DELETE", ONE, Answer(drop=True))
    with pytest.raises(errors.Unreachable):
        client.delete(PO, "v1alpha1", "one")
    assert len(fake.requests) == 1
