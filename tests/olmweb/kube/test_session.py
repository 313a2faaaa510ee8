"""Kubeconfigs, good and bad, and the in-cluster account."""

import json
import os
import ssl
import subprocess
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import structlog
import yaml
from kubernetes.client import Configuration

from olmweb.kube import session
from olmweb.kube.errors import ConfigError
from olmweb.kube.session import open_client
from tests.kubefake import KubeFake, write_kubeconfig


def refusal_of(context: str, kubeconfig: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        open_client(context, kubeconfig)
    assert caught.value.code == "kubeconfig"
    assert caught.value.hint
    return caught.value


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere"
    assert refusal_of("prod", str(path)).message == f"The kubeconfig {path} does not exist."


def test_an_unknown_context_lists_those_that_there_are(tmp_path: Path) -> None:
    item = write_kubeconfig(tmp_path / "one", "http://127.0.0.1:1", "prod")
    two = write_kubeconfig(tmp_path / "two", "http://127.0.0.1:1", "lab")
    error = refusal_of("prdo", f"{item}:{two}:{tmp_path / 'missing'}")
    assert error.message.endswith("has no context named prdo; it has: lab, prod.")


def test_a_kubeconfig_is_parsed_again_only_if_it_changed(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", "prod")
    session._parse.cache_clear()  # other tests write the same text
    for _ in range(50):
        open_client("prod", str(path)).close()
    assert session._parse.cache_info().misses == 1
    write_kubeconfig(path, "http://127.0.0.1:2", "lab")
    open_client("lab", str(path)).close()
    assert session._parse.cache_info().misses == 2


def test_a_file_without_contexts_says_none(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("kind: Config\n")
    assert refusal_of("prod", str(tmp_path / "empty")).message.endswith("it has: none.")
    assert "no current context" in refusal_of("", str(tmp_path / "empty")).message


def test_malformed_yaml_names_the_line_and_never_quotes_it(tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_text("users:\n- name: u\n  user: {token: very-secret-token\nclusters: ]\n")
    error = refusal_of("prod", str(path))
    assert "is not valid YAML at line 4" in error.message
    assert "very-secret" not in error.message
    assert error.__cause__ is None


@pytest.mark.parametrize("text", ["- a\n", "", "contexts: 5\n"])
def test_yaml_that_is_no_kubeconfig_is_told_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "list"
    path.write_text(text)
    assert "is not a kubeconfig" in refusal_of("prod", str(path)).message


def test_a_directory_can_not_be_read(tmp_path: Path) -> None:
    assert "can't be read" in refusal_of("prod", str(tmp_path)).message


def test_a_context_without_its_cluster_can_not_be_used(tmp_path: Path) -> None:
    path = tmp_path / "half"
    path.write_text("contexts: [{name: prod, context: {cluster: c, user: u}}]\n")
    assert "its cluster or user entry is missing" in refusal_of("prod", str(path)).message


def test_a_certificate_file_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "contexts: [{name: prod, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority: ca.crt}}]\n"
        "users: [{name: u, user: {token: t}}]\n"
    )
    assert "ca.crt" in refusal_of("prod", str(path)).message


def test_in_cluster_outside_a_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "does not run inside a cluster" in refusal_of("in-cluster", "").message


def test_an_empty_context_means_the_current_one(fake: KubeFake, tmp_path: Path) -> None:
    path = fake.write_kubeconfig(tmp_path / "config", "prod")
    with open_client("", str(path), name="mine") as client:
        assert client.version() == "v1.25.4"
        assert client.server == fake.url


def test_of_several_kubeconfigs_the_first_entry_of_a_name_counts(
    fake: KubeFake, tmp_path: Path
) -> None:
    """Files that an entry names are beside its own kubeconfig."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "token").write_text("first")
    (tmp_path / "b" / "token").write_text("second")
    first, second = tmp_path / "a" / "config", tmp_path / "b" / "config"
    first.write_text(
        "contexts: [{name: prod, context: {cluster: c, user: u}}]\n"
        "users: [{name: u, user: {tokenFile: token}}]\n"
    )
    second.write_text(
        "contexts: [{name: prod, context: {cluster: x, user: x}},"
        " {name: dev, context: {cluster: c, user: v}}]\n"
        f"clusters: [{{name: c, cluster: {{server: '{fake.url}'}}}}]\n"
        "users: [{name: u, user: {token: t}}, {name: v, user: {tokenFile: token}}]\n"
    )
    both = f"{first}{os.pathsep}{second}"
    for context, token in (("prod", "first"), ("dev", "second")):
        configuration = Configuration()
        session._load_context(configuration, context, both)
        assert configuration.host == fake.url
        assert list(configuration.api_key.values()) == [f"Bearer {token}"]


def test_a_kubeconfig_is_parsed_once_for_a_client_and_not_in_python(
    fake: KubeFake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watcher that takes over opens a client for each of its clusters at once."""
    path = fake.write_kubeconfig(tmp_path / "config")
    loaders: list[object] = []
    load = yaml.load

    def counted(text: object, Loader: object) -> object:
        loaders.append(Loader)
        return load(text, Loader)  # type: ignore[arg-type]

    monkeypatch.setattr(yaml, "load", counted)
    open_client("prod", str(path)).close()
    assert loaders == [yaml.CSafeLoader]


def test_the_kubeconfig_is_never_written(fake: KubeFake, tmp_path: Path) -> None:
    path = fake.write_kubeconfig(tmp_path / "config")
    before = path.read_bytes()
    with open_client("prod", str(path)) as client:
        client.version()
    assert path.read_bytes() == before


def test_a_certificate_that_is_not_verified_is_warned_of_once_a_start(
    tls_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_unverified", set())
    path = write_kubeconfig(tmp_path / "config", tls_server, "lab")
    document = json.loads(path.read_text())
    document["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    path.write_text(json.dumps(document))
    with warnings.catch_warnings(record=True) as printed, structlog.testing.capture_logs() as logs:
        warnings.simplefilter("always")
        for _ in range(2):
            with open_client("lab", str(path), name="lab") as client:
                assert [client.version() for _ in range(2)] == ["v1.30.0"] * 2
    assert [str(warning.message) for warning in printed] == []
    (warning,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert warning["cluster"] == "lab"
    assert "not verified" in warning["event"]


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[str]:
    """An API server with a certificate that nobody signed."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"gitVersion": "v1.30.0", "major": "1", "minor": "30"}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
