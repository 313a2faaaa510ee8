"""The command `explain`: JSON as documented, words for people, one sentence for bad input."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

MESSAGE = "convert registry+v1 bundle to plain+v0 bundle: AllNamespace install mode must be enabled"


def explain(*args: str) -> str:
    out = io.StringIO()
    call_command("explain", *args, stdout=out)
    return out.getvalue()


def test_json_is_one_object_with_the_documented_keys() -> None:
    answer = json.loads(explain("--json", "--kind", "Bundle", MESSAGE))
    assert answer["finding"] == "allnamespaces-required"
    assert answer["title"] == "AllNamespaces install mode required"
    assert answer["retryable"] is False
    assert answer["confidence"] == "high"
    assert answer["facts"] == {}
    assert any(step.startswith("kubectl ") for step in answer["remedy"])


def test_an_unknown_message_has_null_for_its_finding_and_the_same_keys() -> None:
    unknown = json.loads(explain("--json", "the moon is wrong"))
    assert unknown["finding"] is None
    assert unknown.keys() == json.loads(explain("--json", MESSAGE)).keys()


def test_words_for_people_show_cause_and_commands() -> None:
    text = explain(MESSAGE)
    assert "AllNamespaces install mode required" in text
    assert "$ kubectl delete platformoperator <name>" in text
    assert "does not know" in explain("the moon is wrong")


def test_the_message_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(MESSAGE))
    assert "AllNamespaces" in explain("-")


def test_no_message_and_a_wrong_kind_are_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" "))
    with pytest.raises(CommandError, match="no message"):
        explain()
    with pytest.raises(CommandError, match="--kind Pod is not a kind"):
        explain("--kind", "Pod", MESSAGE)
