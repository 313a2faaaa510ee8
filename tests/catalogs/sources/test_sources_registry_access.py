"""Names of images, logins, and the ways in which a registry wants to be asked."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalogs.sources.base import SourceError
from catalogs.sources.oci import client
from catalogs.sources.oci.auth import Challenge, Credentials, credentials_for, read_challenge
from catalogs.sources.oci.reference import parse_reference
from catalogs.sources.oci.source import RegistryAccess
from tests.worlds.catalog_images import CATALOG, FILES, failure, files, source
from tests.worlds.image_registry_fake import RegistryFake, registry_fake, send, status

DIGEST = "sha256:" + "a" * 64
DEEP = b'{"x":' + b"[" * 9_000 + b"]" * 9_000 + b"}"


@pytest.fixture
def fake() -> Iterator[RegistryFake]:
    with registry_fake() as running:
        running.image(CATALOG)
        yield running


@pytest.mark.parametrize(
    ("text", "whole", "host"),
    [
        ("etcd", "docker.io/library/etcd:latest", "registry-1.docker.io"),
        ("team/catalog:v1", "docker.io/team/catalog:v1", "registry-1.docker.io"),
        ("docker.io/a/b", "docker.io/a/b:latest", "registry-1.docker.io"),
        ("index.docker.io/a/b", "docker.io/a/b:latest", "registry-1.docker.io"),
        ("quay.io/a/b/c:v4.20", "quay.io/a/b/c:v4.20", "quay.io"),
        ("localhost/a", "localhost/a:latest", "localhost"),
        ("registry:5000/a", "registry:5000/a:latest", "registry:5000"),
        ("[::1]:5000/a:x", "[::1]:5000/a:x", "[::1]:5000"),
        (f"quay.io/a@{DIGEST}", f"quay.io/a@{DIGEST}", "quay.io"),
        (f" quay.io/a:v1@{DIGEST} ", f"quay.io/a:v1@{DIGEST}", "quay.io"),
        ("quay.io/a__b/c-d.e", "quay.io/a__b/c-d.e:latest", "quay.io"),
    ],
)
def test_a_reference_has_a_registry_a_repository_and_a_tag_or_digest(text, whole, host):
    result = parse_reference(text)
    assert (str(result), result.host) == (whole, host)
    assert result.wanted == (DIGEST if "@" in text else result.tag)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("docker://quay.io/a", "begins with docker://"),
        ("https://quay.io/a", "begins with https://"),
        ("quay.io/a@", "has no valid digest after its @"),
        ("quay.io/a@sha256:abc", "has no valid digest after its @"),
        ("quay.io/a@md5:" + "a" * 32, "has no valid digest after its @"),
        ("quay.io/a:", 'has the tag "", which is none'),
        ("quay.io/a:-x", 'has the tag "-x", which is none'),
        ("quay.io/a:" + "x" * 129, "which is none"),
        ("quay.io/A/b", "holds capital letters"),
        ("quay.io/", 'names "", which is no repository'),
        ("", 'names "library/", which is no repository'),
        ("quay.io/a//b", "is no repository"),
        ("quay.io/../b", "is no repository"),
        ("quay.io/a b", "is no repository"),
        ("quay_.io:x/a", "which is no host"),
        ("me@quay.io/a", "has no valid digest"),
        ("quay.io/" + "a" * 300, "is no repository"),
    ],
)
def test_a_reference_that_names_no_image_is_refused(text, words):
    with pytest.raises(SourceError) as caught:
        parse_reference(text)
    assert caught.value.code == "bad-reference"
    assert words in caught.value.message
    assert caught.value.hint


def login(user: str = "u", **more: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:p".encode()).decode(), **more}


def written(folder: Path, **config: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize(
    ("auths", "user"),
    [
        ({"quay.io": login("host")}, "host"),
        ({"https://quay.io/v2/": login("old")}, "old"),
        ({"quay.io/team": login("team"), "quay.io": login("host")}, "team"),
        ({"quay.io/team/catalog": login("image"), "quay.io/team": login("team")}, "image"),
        ({"quay.io/other": login("other")}, ""),
        ({"quay.io/tea": login("other")}, ""),
        ({"other.io": login("other")}, ""),
        ({"quay.io": {"username": "plain", "password": "p"}}, "plain"),
        ({"quay.io": {}}, ""),
    ],
)
def test_the_login_of_the_longest_path_wins(tmp_path, auths, user):
    result = credentials_for(
        parse_reference("quay.io/team/catalog"), written(tmp_path, auths=auths)
    )
    assert (result.user, result.complete) == (user, bool(user))


def test_docker_hub_is_known_by_its_old_name(tmp_path):
    path = written(tmp_path, auths={"https://index.docker.io/v1/": login("hub")})
    assert credentials_for(parse_reference("team/catalog"), path).user == "hub"


def test_a_login_is_shown_nowhere(tmp_path):
    path = written(
        tmp_path, auths={"quay.io": {"username": "u", "password": "hush", "identitytoken": "hush"}}
    )
    result = credentials_for(parse_reference("quay.io/a"), path)
    assert result.password == result.identity == "hush"
    assert "hush" not in repr(result)


def test_no_file_and_a_file_that_is_not_there_hold_no_login(tmp_path):
    assert credentials_for(parse_reference("quay.io/a"), None) == Credentials()
    assert not credentials_for(parse_reference("quay.io/a"), tmp_path / "no").complete


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is no such file"),
        (DEEP.decode(), "is no such file"),
        ('{"auths": {"quay.io": {"auth": 5}}}', "is no such file"),
        ('{"auths": {"quay.io": {"auth": "%%"}}}', 'has an "auth" for quay.io that is no base64'),
    ],
)
def test_a_file_of_logins_that_is_none_is_told_without_its_content(tmp_path, content, words):
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(SourceError) as caught:
        credentials_for(parse_reference("quay.io/a"), path)
    assert caught.value.code == "credentials-file"
    assert str(path) in caught.value.message
    assert words in caught.value.message
    with pytest.raises(SourceError, match="can't be read: Is a directory"):
        credentials_for(parse_reference("quay.io/a"), tmp_path)


@pytest.mark.parametrize(
    ("header", "challenge"),
    [
        (
            'Bearer realm="https://auth.example/token",service="r.example",scope="a:b:c,d"',
            Challenge("bearer", "https://auth.example/token", "r.example"),
        ),
        ('Basic realm="x"', Challenge("basic", "x")),
        ("basic", Challenge("basic")),
        (
            'Basic realm="x", Bearer realm="https://t",service=s',
            Challenge("bearer", "https://t", "s"),
        ),
        ('Bearer realm="https://t", Basic realm="x"', Challenge("bearer", "https://t")),
        ("Negotiate abc", Challenge("")),
        ("", Challenge("")),
    ],
)
def test_the_challenge_of_a_401_is_read(header, challenge):
    assert read_challenge(header) == challenge


def with_logins(fake: RegistryFake, folder: Path, **config: object) -> RegistryAccess:
    return RegistryAccess(frozenset([fake.host]), written(folder, **config))


def test_a_registry_of_basic_authentication_is_read(fake, tmp_path):
    fake.users = {"Basic dTpw": "u"}
    access = with_logins(fake, tmp_path, auths={fake.host: login()})
    assert files(fake, access=access) == FILES
    assert len(fake.seen) == 4  # one 401, then everything with the password
    assert source(fake, access=access).resolve().startswith("sha256:")


def test_a_registry_of_tokens_is_read_without_a_login(fake):
    fake.bearer = True
    assert files(fake) == FILES
    assert list(fake.tokens.values()) == ["fake repository:olm/catalog:pull"]
    assert [path.partition("?")[0].rpartition("/")[2] for _, path, _ in fake.seen[:3]] == [
        *("v1", "token", "v1")
    ]


@pytest.mark.parametrize(
    ("entry", "known"),
    [(login(), "Basic dTpw"), ({"identitytoken": "refresh"}, "refresh")],
    ids=["password", "identity token"],
)
def test_a_login_is_given_for_a_token_and_not_to_the_registry(fake, tmp_path, entry, known):
    fake.bearer, fake.users = True, {known: "u"}
    access = with_logins(fake, tmp_path, auths={f"{fake.host}/olm": entry})
    assert files(fake, access=access) == FILES
    sent = {headers.get("authorization", "") for _, path, headers in fake.seen if "v2" in path}
    assert sent == {"", "Bearer token-0"}


def test_a_token_that_ran_out_is_fetched_anew(fake):
    fake.bearer = True
    layer = json.loads(fake.manifests["v1"][1])["layers"][0]["digest"]
    data = fake.blobs[layer]

    def forget(request) -> None:
        fake.tokens.clear()
        fake.wrong.clear()
        challenge = f'Bearer realm="http://{fake.host}/token",service="fake"'
        send(request, 401, b"{}", {"WWW-Authenticate": challenge})

    fake.wrong[layer] = forget
    assert files(fake) == FILES
    assert data in fake.blobs.values()


@pytest.mark.parametrize("bearer", [False, True])
@pytest.mark.parametrize(
    ("config", "hint"),
    [
        ({"auths": {"HOST": login("wrong")}}, "does not accept the credentials for HOST in FILE"),
        ({"credHelpers": {"HOST": "ecr-login"}}, "FILE names the credential helper ecr-login for"),
        ({"credsStore": "desktop"}, "FILE names the credential helper desktop for HOST, and no"),
        ({}, "FILE has no credentials for HOST: add them with docker login"),
    ],
)
def test_a_refused_login_says_what_to_do(fake, tmp_path, bearer, config, hint):
    fake.users, fake.bearer = {"Basic dTpw": "u"}, bearer
    config = json.loads(json.dumps(config).replace("HOST", fake.host))
    access = with_logins(fake, tmp_path, **config)
    error = failure(fake, access=access)
    assert (error.code, "the registry answered 401" in error.message) == ("forbidden", True)
    wanted = hint.replace("HOST", fake.host).replace("FILE", str(tmp_path / "config.json"))
    assert wanted in error.hint


@pytest.mark.parametrize(
    ("realm", "words"),
    [
        ("http://169.254.169.254/token", "leads to 169.254.169.254"),
        ("http://127.0.0.1:1/token", "leads to 127.0.0.1"),
        ("ftp://x/token", "is not an http or https address"),
        ("", "is not an http or https address"),
    ],
)
def test_a_token_server_that_may_not_be_asked_is_refused(fake, realm, words):
    fake.bearer, fake.realm = True, realm or " "
    error = failure(fake)
    assert (error.code, words in error.message) == ("bad-url", True)


@pytest.mark.parametrize(
    ("registry", "server", "sent"),
    [
        ("registry-1.docker.io", "auth.docker.io", True),
        ("registry.gitlab.com", "gitlab.com", True),
        ("quay.io", "quay.io", True),
        ("localhost", "localhost", True),
        ("quay.io", "evil.io", False),
        ("quay.io", "quay.io.evil.example", False),
        ("10.0.0.1", "10.1.0.1", False),
        ("localhost", "evil", False),
        ("fd00::1", "fd00::2", False),
    ],
)
def test_credentials_go_to_token_servers_of_the_same_domain_only(
    registry, server, sent, monkeypatch
):
    requested: list[str] = []

    def fetch(challenge, *_, **__):
        requested.append(challenge.realm)
        return 200, "token"

    monkeypatch.setattr(client, "fetch_token", fetch)
    host = f"[{registry}]" if ":" in registry else registry
    reference = parse_reference(f"{'docker.io' if 'docker' in host else host}/team/catalog:v1")
    reader = client.RegistryClient(reference, Credentials("user", "secret"), frozenset())
    named = f"[{server}]" if ":" in server else server
    challenge = Challenge("bearer", f"https://{named}/token")
    if sent:
        assert reader._authorize(challenge) == "Bearer token"
    else:
        with pytest.raises(SourceError, match="another domain"):
            reader._authorize(challenge)
        assert requested == []
        anonymous = client.RegistryClient(reference, Credentials(), frozenset())
        assert anonymous._authorize(challenge) == "Bearer token"


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"no", b'{"token":"a\\nb: c"}', b'{"token":""}', DEEP]
)
def test_an_answer_without_a_token_is_told(fake, body):
    fake.bearer = True
    fake._token = lambda request, query: send(request, 200, body)
    error = failure(fake)
    assert (error.code, "the registry's token server answered 200" in error.message) == (
        "http-status",
        True,
    )


def test_a_token_server_that_fails_is_told(fake):
    fake.bearer = True
    fake._token = lambda request, query: status(500)(request)
    assert "token server answered 500" in failure(fake).message
