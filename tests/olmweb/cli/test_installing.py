"""`olmweb install`: plan, verdict and dry run, refusals, waiting, repeated requests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from catalogs.models import Bundle
from installs.models import Action
from installs.state.full_sync import sync_cluster
from olmweb.models import ApiToken, Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import (
    make_catalog,
    make_cluster,
    make_component,
    make_package,
    make_prediction,
)
from tests.olmweb.cli.conftest import Olmweb, Result

Install = Callable[..., Result]


@pytest.fixture(autouse=True)
def catalog(sandbox: Sandbox, db: None) -> None:
    make_package(catalog=make_catalog(cluster=make_cluster(context="sandbox")))


@pytest.fixture(params=["local", "server"])
def install(request: pytest.FixtureRequest, olmweb: Olmweb, olivia: User) -> Install:
    """Installs etcd as olivia: on the database, and over a server."""
    where = ["--user", "olivia"]
    if request.param == "server":
        token = ApiToken.issue(olivia.pk, "act")[0]
        where = ["--server", request.getfixturevalue("server"), "--token", token]

    def call(*words: str, package: str = "etcd") -> Result:
        shared = ["--cluster", "prod", "--method", "platformoperator", *where]
        return olmweb("install", package, *shared, *words)

    return call


def predict_failure() -> None:
    make_prediction(
        bundle=Bundle.objects.get(name="etcd.v1.1.0"),
        rule="po-webhook",
        verdict="not_installable",
        sentence="etcd has 2 webhooks.",
    )


def test_the_catalog_is_chosen_by_its_name_or_reference(install: Install) -> None:
    for name in ("redhat-operators", "prod/redhat-operators"):
        assert install("--dry-run", "--catalog", name).code == 0


def test_a_dry_run_shows_the_plan_and_records_nothing(install: Install) -> None:
    text = install("--dry-run")
    assert (text.code, text.err) == (0, "")
    assert "Catalog:   prod/redhat-operators\n" in text.out
    assert "Dry run:   Cluster prod would accept this." in text.out
    assert "  PlatformOperator etcd   accepted" in text.out
    assert "Manifests to apply:\n  apiVersion: platform.openshift.io/v1alpha1\n" in text.out
    document = install("--dry-run", "--json").document
    assert (document["dry_run"]["ok"], document["manifests"][0]["kind"]) == (
        True, "PlatformOperator"
    )  # fmt: skip
    assert (document["catalog"], document["bundle"]) == ("prod/redhat-operators", "etcd.v1.1.0")
    assert not Action.objects.exists()


def test_what_is_predicted_to_fail_ends_with_1_and_anyway_installs_it(install: Install) -> None:
    predict_failure()
    plan = install("--dry-run")
    assert plan.code == 1
    assert "Verdict:   Not installable (po-webhook)" in plan.out
    assert install("--dry-run", "--anyway").code == 0
    refused = install("--json")
    error = refused.document["error"]
    assert (refused.code, error["code"]) == (1, "predicted-to-fail")
    assert "--anyway" in error["hint"]
    assert not Action.objects.exists()
    assert install("--anyway").code == 0
    assert Action.objects.get().name == "etcd"


def test_an_install_is_recorded_and_repeated_with_a_key_it_is_the_same(install: Install) -> None:
    first = install("--idempotency-key", "k", "--json")
    assert (first.code, first.document["state"], first.document["as_user"]) == (
        0, "pending", "olivia"
    )  # fmt: skip
    Action.objects.update(state="succeeded")
    again = install("--idempotency-key", "k", "--json")
    assert (again.code, again.document["id"]) == (0, first.document["id"])
    other = install("--idempotency-key", "k", "--name", "other", "--json")
    assert (other.code, other.document["error"]["code"]) == (1, "key-reused")


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("no_change", 0), ("failed", 1)])
def test_wait_ends_with_the_outcome(
    state: str, code: int, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter(["applied", state])
    monkeypatch.setattr(
        "olmweb.cli.changing.sleep",
        lambda _: Action.objects.update(state=next(states), outcome="It ended."),
    )
    result = install("--wait")
    assert result.code == code
    assert "Outcome:   It ended." in result.out
    assert [line.partition(": ")[2] for line in result.err.splitlines()] == ["pending", "applied"]


def test_wait_gives_up_after_the_timeout_and_says_that_the_action_goes_on(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 1000, 40))
    monkeypatch.setattr("olmweb.cli.changing.monotonic", lambda: next(clock))
    monkeypatch.setattr("olmweb.cli.changing.sleep", lambda _: None)
    result = install("--wait", "--timeout", "60", "--json")
    assert (result.code, result.document["error"]["code"]) == (1, "timeout")
    assert "goes on" in result.document["error"]["hint"]


@pytest.mark.parametrize(
    ("words", "package", "code", "error"),
    [
        (["--channel", "stable"], "etcd", 1, "no-such-field"),
        ([], "nothing", 1, "unknown-package"),
        (["--catalog", "nothing"], "etcd", 1, "unknown-catalog"),
        (["--cluster", "nowhere"], "etcd", 1, "unknown-cluster"),
        (["--dry-run", "--wait"], "etcd", 2, "usage"),
    ],
)
def test_refusals_have_the_code_of_the_api(
    words: list[str], package: str, code: int, error: str, install: Install
) -> None:
    result = install(*words, "--json", package=package)
    assert (result.code, result.document["error"]["code"]) == (code, error)


def test_a_cluster_that_does_not_answer_ends_with_3(install: Install, sandbox: Sandbox) -> None:
    sandbox.stop()
    assert install("--dry-run").code == 3
    refused = install("--json")
    assert (refused.code, refused.document["error"]["code"]) == (3, "unreachable")
    assert not Action.objects.exists()


def test_without_a_name_the_only_administrator_acts(olmweb: Olmweb, db: None) -> None:
    User.objects.create_superuser("admin")
    words = ("install", "etcd", "--cluster", "prod", "--method", "PlatformOperator", "--json")
    assert olmweb(*words).document["as_user"] == "admin"
    User.objects.create_superuser("ann")
    several = olmweb(*words)
    assert (several.code, several.document["error"]["code"]) == (2, "usage")
    assert "--user" in several.document["error"]["hint"]
    unknown: Any = olmweb(*words, "--user", "nobody").document
    assert unknown["error"]["code"] == "unknown-user"


def test_a_configuration_comes_from_a_file_and_is_refused_with_the_field_that_is_wrong(
    install: Install, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("env: [{name: A, value: b}]")
    refused = install("--dry-run", "--config", str(file))
    assert (refused.code, refused.out) == (1, "")
    assert "A PlatformOperator has no config." in refused.err
    for text, words in (("- a", "holds no mapping"), ("a: [", "can't be read: This is not valid")):
        file.write_text(text)
        wrong = install("--dry-run", "--config", str(file))
        assert wrong.code == 2
        assert words in wrong.err


def test_a_subscription_gets_the_configuration(
    olmweb: Olmweb, olivia: User, sandbox: Sandbox, tmp_path: Path
) -> None:
    cluster = Cluster.objects.get()
    sync_cluster(cluster)
    make_package(
        name="grafana",
        catalog=make_catalog(
            name="own",
            cluster=cluster,
            source_kind="CatalogSource",
            namespace=make_component(
                cluster=cluster, kind="CatalogSource", name="own", namespace="olm"
            ).namespace,
        ),
    )
    file = tmp_path / "config.json"
    words = ["--cluster", "prod", "--method", "subscription", "-n", "apps", "--user", "olivia"]
    file.write_text('{"env": [{"name": "A", "value": "b"}]}')
    plan = olmweb("install", "grafana", *words, "--dry-run", "--json", "--config", str(file))
    assert plan.document["manifests"][-1]["spec"]["config"] == {
        "env": [{"name": "A", "value": "b"}]
    }
    exported = olmweb("export", "prod/own", "grafana", "--config", str(file))
    assert "  config:\n    env:\n    - name: A\n      value: b\n" in exported.out
    file.write_text('{"env": [{"name": "A", "value": 1}]}')
    wrong = olmweb("install", "grafana", *words, "--dry-run", "--config", str(file))
    assert wrong.code != 0
    assert "config.env[0].value: Expected text, but “1” is a number" in wrong.err
