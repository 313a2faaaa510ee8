"""Registries that refuse, are busy, redirect, lie, or never end."""

import json
from collections.abc import Iterator

import pytest

from catalogs.sources.base import SourceError
from catalogs.sources.oci.source import ImageSource, RegistryAccess
from tests.worlds.catalog_images import CATALOG, FILES, failure, files
from tests.worlds.image_registry_fake import (
    RegistryFake,
    cut,
    digest,
    endless,
    registry_fake,
    send,
    status,
)


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """Seconds that were waited between tries; none is."""
    result: list[float] = []
    monkeypatch.setattr("catalogs.sources.oci.client.time.sleep", result.append)
    return result


@pytest.fixture
def fake(waits) -> Iterator[RegistryFake]:
    with registry_fake() as running:
        running.image(CATALOG)
        yield running


def test_a_blob_that_is_redirected_is_read_without_our_credentials(fake, tmp_path):
    logins = tmp_path / "config.json"
    logins.write_text(json.dumps({"auths": {fake.host: {"username": "u", "password": "p"}}}))
    fake.users = {"Basic dTpw": "u"}
    layer = json.loads(fake.manifests["v1"][1])["layers"][0]["digest"]
    with registry_fake() as store:
        store.blobs = dict(fake.blobs)
        where = f"http://{store.host}/v2/x/blobs/{layer}?signature=hush"
        fake.wrong[layer] = status(307, Location=where)
        access = RegistryAccess(frozenset([fake.host, store.host]), logins)
        assert files(fake, access=access) == FILES
        assert ["authorization" in headers for _, _, headers in store.seen] == [False]
    assert fake.seen[-1][2]["authorization"] == "Basic dTpw"


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("http://169.254.169.254/latest/", "leads to 169.254.169.254, which may not be read"),
        ("http://127.0.0.1:1/", "leads to 127.0.0.1, which may not be read"),
        ("http://10.0.0.7/", "leads to 10.0.0.7, which may not be read"),
        ("file:///etc/passwd", "is not an http or https address"),
    ],
)
def test_a_redirect_to_what_the_registry_may_not_name_is_refused(fake, where, words):
    layer = json.loads(fake.manifests["v1"][1])["layers"][0]["digest"]
    fake.wrong[layer] = status(307, Location=where)
    error = failure(fake)
    assert (error.code, words in error.message) == ("bad-url", True)


def test_redirects_have_an_end(fake):
    fake.wrong["v1"] = status(307, Location="/v2/olm/catalog/manifests/v1")
    assert "redirects more than 5 times" in failure(fake).message


@pytest.mark.parametrize(
    ("code", "slug", "requests", "words"),
    [
        (401, "forbidden", 1, "may not be read: the registry answered 401"),
        (403, "forbidden", 1, "may not be read: the registry answered 403"),
        (404, "not-found", 1, "is not in its registry: it answered 404"),
        (429, "rate-limited", 4, "the registry answered 429, too many requests"),
        (500, "http-status", 4, "the registry answered 500"),
        (503, "http-status", 4, "the registry answered 503"),
    ],
)
def test_a_refusal_says_the_status(fake, waits, code, slug, requests, words):
    fake.wrong["v1"] = status(code)
    error = failure(fake)
    assert (error.code, error.requests) == (slug, requests)
    assert error.message.startswith(f"{fake.host}/olm/catalog:v1 ")
    assert words in error.message
    assert len(fake.seen) == requests
    assert waits == [0.5, 1.0, 2.0][: requests - 1]


def test_a_refusal_gives_the_registrys_code_and_none_of_its_text(fake):
    error = failure(fake, ":v2")
    assert "404 (NAME_UNKNOWN)" in error.message
    assert "secret" not in error.message


@pytest.mark.parametrize("code", [429, 500, 502])
def test_a_registry_that_is_busy_is_asked_again(fake, waits, code):
    fake.script = [
        status(code, Retry_After="3"),
        status(code, Retry_After="Sat, 01 Jan 2000 00:00:00 GMT"),
    ]
    assert files(fake) == FILES
    assert waits == [3.0, 1.0]


@pytest.mark.parametrize(("seconds", "shown"), [("10", "10"), ("3600", "3,600")])
def test_a_registry_that_asks_for_long_patience_is_left_to_the_next_sync(
    fake, waits, seconds, shown
):
    fake.script = [status(429, Retry_After=seconds)]
    error = failure(fake)
    assert (error.code, waits) == ("rate-limited", [])
    assert error.hint.startswith(f"It asks to wait {shown} s.")


def test_a_registry_that_does_not_answer_is_told(fake):
    fake.stop()
    error = failure(fake)
    assert error.code == "unreachable"
    assert error.message.startswith(f"{fake.host}/olm/catalog:v1 can't be read: 127.0.0.1 does not")
    fake.stop = lambda: None


def test_plain_http_is_spoken_only_where_a_setting_says_so(fake):
    with pytest.raises(SourceError) as caught:
        ImageSource(f"{fake.host}/olm/catalog:v1").fetch()
    assert caught.value.message.startswith(f"https://{fake.host}/v2/olm/catalog/manifests/v1 leads")
    assert "has to be in OLMWEB_INSECURE_REGISTRIES" in caught.value.hint
    assert fake.seen == []


@pytest.mark.parametrize("what", ["manifest", "config", "layer 1"])
def test_what_is_not_as_its_digest_says_is_refused(fake, what):
    result = fake.image(CATALOG)
    manifest = json.loads(fake.manifests["v1"][1])
    named = {
        "manifest": result,
        "config": manifest["config"]["digest"],
        "layer 1": manifest["layers"][0]["digest"],
    }[what]
    other = fake.manifests[result][1] if what == "manifest" else fake.blobs[named]
    other = (
        other.replace(b"2", b"3", 1) if what == "manifest" else other[:4] + b"?" + other[5:]
    )  # another time in gzip's header
    fake.wrong[named] = lambda request: send(request, 200, other)
    error = failure(fake, f"@{result}")
    assert (error.code, digest(other) in error.message) == ("wrong-digest", True)
    assert error.message.startswith(f"The {what} of {fake.host}/olm/catalog@{result} is not what")


def test_a_manifest_that_is_not_the_one_the_registry_names_is_refused(fake):
    reported = {"Docker-Content-Digest": "sha256:" + "1" * 64}
    fake.wrong["v1"] = lambda request: send(request, 200, fake.manifests["v1"][1], reported)
    assert failure(fake).code == "wrong-digest"


@pytest.mark.parametrize("what", ["v1", "config", "layer"])
def test_an_endless_body_is_not_read_to_its_end(fake, what):
    manifest = json.loads(fake.manifests["v1"][1])
    named = {
        "v1": "v1",
        "config": manifest["config"]["digest"],
        "layer": manifest["layers"][0]["digest"],
    }[what]
    fake.wrong[named] = endless(b"\x1f\x8b" + bytes(60_000))
    error = failure(fake)
    assert error.code in ("too-large", "broken-encoding")
    assert error.bytes_read < 10_000_000


@pytest.mark.parametrize("tenth", range(10))
def test_a_layer_that_is_cut_goes_on_where_it_stopped(fake, tenth):
    layer = json.loads(fake.manifests["v1"][1])["layers"][0]["digest"]
    data = fake.blobs[layer]
    end = len(data) * tenth // 10
    answers = [cut(data, end)]
    fake.wrong[layer] = lambda request: (
        answers.pop(0)(request) if answers else send(request, 200, data, ranges=True)
    )
    assert files(fake) == FILES
    assert [headers.get("range", "") for _, path, headers in fake.seen if layer in path] == [
        "",
        f"bytes={end}-" if end else "",
    ]


def test_a_registry_that_knows_no_ranges_sends_everything_anew(fake):
    layer = json.loads(fake.manifests["v1"][1])["layers"][0]["digest"]
    data = fake.blobs[layer]
    answers = [cut(data, len(data) // 2)]
    fake.wrong[layer] = lambda request: (
        answers.pop(0)(request) if answers else send(request, 200, data)
    )
    assert files(fake) == FILES


@pytest.mark.parametrize("answer", ["cut", "short"])
def test_a_layer_that_is_cut_again_and_again_is_told(fake, answer):
    layer = json.loads(fake.manifests["v1"][1])["layers"][0]["digest"]
    data = fake.blobs[layer]
    short = data[: len(data) // 2]
    fake.wrong[layer] = (
        cut(data, len(data) // 2)
        if answer == "cut"
        else lambda request: send(request, 200, short, ranges=True)
    )
    error = failure(fake)
    assert error.code == ("unreachable" if answer == "cut" else "cut-short")
