"""Commands that read: the same answer from the database and over REST, tables, exit codes."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from catalogs.models import Catalog
from olmweb import __version__
from olmweb.cli import output
from olmweb.models import ApiToken
from tests.factories import make_catalog, make_operator
from tests.olmweb.cli.conftest import Olmweb
from tests.worlds.outlines import write_packages
from tests.worlds.rest import MESSAGE, World

# (words, exit code): every command that reads, and what it answers to a wrong name.
READS = [
    ("operators", 0),
    ("operators --health failed --cluster prod", 0),
    ("operators --finding - --limit 9", 0),
    ("operators argocd", 0),
    ("operators etcd", 0),
    ("operators nothing", 1),
    ("catalogs", 0),
    ("catalogs --cluster -", 0),
    ("catalogs redhat-operators", 0),
    ("catalogs -- -/from-file", 0),
    ("catalogs prod/nothing", 1),
    ("catalogs nothing", 1),
    ("audit prod redhat-operators --method subscription --watch own", 0),
    ("audit nowhere redhat-operators --method subscription", 1),
    ("audit --method PlatformOperator - redhat-operators", 0),
    ("readiness", 0),
    ("readiness prod --severity blocks --next-catalog community-operators", 0),
    ("readiness --next-catalog nothing", 1),
    ("readiness nowhere", 1),
    ("compare before after", 0),
    ("compare before after@1 --kind deprecated", 0),
    ("compare before after@77", 1),
    ("resolve redhat-operators etcd --method platformoperator", 0),
    ("resolve redhat-operators etcd --method subscription --version >9.0.0", 1),
    ("resolve redhat-operators etcd --method subscription --version what", 2),
    ("export redhat-operators etcd --method platformoperator", 0),
    ("export redhat-operators nothing", 1),
]


@pytest.fixture
def token(alice: User, tmp_path: Path) -> str:
    """The file of a token that reads."""
    file = tmp_path / "token"
    file.write_text(ApiToken.issue(alice.pk, "read")[0] + "\n", encoding="ascii")
    return str(file)


@pytest.fixture(autouse=True)
def compared(world: World) -> None:
    """Two catalogs with a revision each, which differ in one package."""
    write_packages(make_catalog(name="before", revision=0), {"etcd": ["1.0.0"]})
    write_packages(make_catalog(name="after", revision=0), {"etcd": ["1.0.0", "1.1.0"]})


def with_json(words: str) -> list[str]:
    command, *others = words.split()
    return [command, "--json", *others]


@pytest.mark.parametrize(("words", "code"), READS)
def test_the_database_and_a_server_give_the_same_json(
    words: str, code: int, olmweb: Olmweb, world: World, server: str, token: str
) -> None:
    local = olmweb(*with_json(words))
    assert local.code == code, local
    command, *others = with_json(words)
    remote = olmweb(command, "--server", server, "--token-file", token, *others)
    assert (remote.code, remote.document) == (code, local.document)
    assert (set(local.document) == {"error"}) == (code > 0 and "candidates" not in local.document)


@pytest.mark.parametrize(("words", "code"), READS)
def test_without_json_an_answer_is_text_and_a_refusal_sentences_on_stderr(
    words: str, code: int, olmweb: Olmweb, world: World
) -> None:
    result = olmweb(*words.split())
    assert result.code == code
    if code == 0:
        assert (result.out.strip() != "", result.err) == (True, "")
    elif not result.out:
        assert re.match(r"Error: .+\.\n", result.err), result.err


def test_lists_are_tables_with_upper_case_titles_and_aligned_columns(
    olmweb: Olmweb, world: World
) -> None:
    lines = olmweb("operators").out.splitlines()
    assert lines[0].split() == [
        "CLUSTER", "NAMESPACE", "NAME", "KIND", "VERSION", "HEALTH", "SINCE", "CAUSE"
    ]  # fmt: skip
    at = lines[0].index("HEALTH")
    healths = [line[at:].split()[0] for line in lines[1:]]
    assert sorted(healths) == ["Blocked", "Degraded", "Failed", "Healthy"]
    assert "\x1b" not in "".join(lines)


def test_an_operator_is_shown_with_cause_and_numbered_remedy(olmweb: Olmweb, world: World) -> None:
    text = olmweb("operators", "etcd").out
    assert re.search(r"^Health: +Failed$", text, re.MULTILINE)
    assert "Cause:\n  AllNamespaces install mode required by PlatformOperator\n" in text
    assert re.search(r"^Remedy:\n  1\. \S", text, re.MULTILINE)
    assert MESSAGE in text


def test_operators_of_one_name_are_listed_and_a_filter_chooses(
    olmweb: Olmweb, world: World
) -> None:
    make_operator(cluster=world.edge, name="etcd")
    several = olmweb("operators", "etcd", "--json")
    assert (several.code, several.document["error"]["code"]) == (1, "several-operators")
    assert "edge PlatformOperator -/etcd" in several.document["error"]["message"]
    assert olmweb("operators", "etcd", "--cluster", "edge", "--json").document["cluster"] == "edge"


def test_a_list_of_many_pages_arrives_whole(
    olmweb: Olmweb, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = olmweb("operators", "--json").document
    monkeypatch.setattr("olmweb.cli.backends.PAGE", 1)
    assert olmweb("operators", "--json").document == whole
    assert len(whole["items"]) == whole["count"] == 4
    part = olmweb("operators", "--json", "--limit", "3").document
    assert part["items"] == whole["items"][:3]
    assert (part["count"], part["next"] is None) == (4, False)
    table = olmweb("operators", "--limit", "3")
    assert len(table.out.splitlines()) == 1 + 3
    assert table.err == "3 of 4 operators: --limit leaves out the others.\n"
    assert olmweb("operators", "--limit", "4").err == ""


def test_a_catalog_name_that_several_clusters_have_is_refused_with_their_names(
    olmweb: Olmweb, world: World
) -> None:
    Catalog.objects.filter(slug="from-file").update(slug="redhat-operators")
    result = olmweb("catalogs", "redhat-operators", "--json")
    assert (result.code, result.document["error"]["code"]) == (1, "several-catalogs")
    assert "prod/redhat-operators" in result.document["error"]["message"]


def test_a_local_audit_evaluates_what_no_worker_has_evaluated_yet(
    olmweb: Olmweb, world: World
) -> None:
    community = Catalog.objects.get(slug="community-operators")
    Catalog.objects.filter(pk=community.pk).update(revision=1)
    result = olmweb("audit", "--json", "--method", "subscription", "-", "community-operators")
    assert {row["package"] for row in result.document["packages"]} == {"etcd", "grafana"}


def test_a_server_says_that_a_catalog_is_not_evaluated_yet(
    olmweb: Olmweb, server: str, token: str
) -> None:
    words = ("audit", "edge", "community-operators", "--method", "subscription")
    result = olmweb(*words, "--server", server, "--token-file", token)
    assert result.out.startswith("No verdict is stored yet")


def test_a_comparison_has_a_row_for_each_change(olmweb: Olmweb) -> None:
    lines = olmweb("compare", "before", "after").out.splitlines()
    assert lines[0].split() == ["PACKAGE", "CHANGE", "SUBJECT", "BEFORE", "AFTER", "IMPACT"]
    assert any("bundle-added" in line and "etcd.v1.1.0" in line for line in lines)
    assert olmweb("compare", "before", "before").out == "Nothing differs.\n"


def test_control_characters_of_messages_do_not_reach_the_terminal(
    olmweb: Olmweb, world: World
) -> None:
    make_operator(cluster=world.prod, name="odd", health="Failed", message="a\x1b[2Jb\x9bc\nd")
    text = olmweb("operators", "odd").out
    assert "a?[2Jb?c d" in text
    assert "\x1b" not in text
    assert "\\u001b" in olmweb("operators", "odd", "--json").out


def test_a_terminal_gets_colours_and_a_last_column_that_fits(
    olmweb: Olmweb, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    rows = [{"health": "Failed", "message": "m" * 200}]
    columns = [output.Column("HEALTH", "health"), output.Column("MESSAGE", "message")]
    title, line = output.table(columns, rows, empty="")
    assert title == "HEALTH   MESSAGE"
    assert line.startswith("\x1b[31mFailed   \x1b[0m")
    assert line.endswith("m…")
    assert len(line) == 80 + len("\x1b[31m\x1b[0m")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in "".join(output.table(columns, rows, empty=""))


@pytest.mark.parametrize(
    ("seconds", "shown"), [(5, "5s"), (119, "119s"), (120, "2m"), (7300, "2h"), (90_000, "1d")]
)
def test_ages_are_those_of_kubectl(seconds: int, shown: str) -> None:
    assert output.age((datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()) == shown


def test_manifests_are_written_as_a_file_or_folder(
    olmweb: Olmweb, world: World, tmp_path: Path
) -> None:
    words = ("export", "redhat-operators", "etcd", "--method", "platformoperator")
    text = olmweb(*words).out
    assert "kind: PlatformOperator" in text
    file = tmp_path / "new" / "etcd.yaml"
    assert olmweb(*words, "--output", str(file)).code == 0
    assert file.read_text(encoding="utf-8") == text
    folder = tmp_path / "etcd"
    written = olmweb(*words, "--format", "kustomize", "--output", str(folder), "--json").document
    assert sorted(written["files"]) == sorted(str(path) for path in folder.iterdir())
    assert (folder / "kustomization.yaml").is_file()
    assert olmweb(*words, "--format", "kustomize").code == 2


def test_explain_needs_no_server(olmweb: Olmweb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLMWEB_SERVER", "http://127.0.0.1:1")
    answer = olmweb("explain", "--json", MESSAGE).document
    assert answer["finding"] == "allnamespaces-required"
    assert "What to do:" in olmweb("explain", MESSAGE).out
    refused = olmweb("explain", "--kind", "Nothing", "--json", MESSAGE)
    assert (refused.code, refused.document["error"]["code"]) == (1, "refused")


def test_explain_answers_a_line_for_each_line(
    olmweb: Olmweb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "messages"
    file.write_text(f'{{"message": "{MESSAGE}"}}\nno object\n', encoding="utf-8")
    result = olmweb("explain", "--ndjson", str(file))
    assert [line[:12] for line in result.out.splitlines()] == ['{"finding": ', '{"error": "L']
    assert olmweb("explain", "--ndjson", str(file), "--json").code == 2


def test_the_version_of_client_and_server(olmweb: Olmweb, server: str, token: str) -> None:
    assert olmweb("version", "--json").document == {"client": __version__, "server": None}
    both = olmweb("version", "--json", "--server", server, "--token-file", token).document
    assert both == {"client": __version__, "server": {"version": __version__, "api": "v1"}}
