"""Cutting JSON that is nested too deeply: what stays, what goes, and that it stays JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olmweb.kube.decode import DEPTH, decoded, shallow

ANY = st.recursive(
    st.none() | st.integers() | st.text('"\\\\{}[]é\\n'),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('"{]\\\\'), inner, max_size=3)
    ),
    max_leaves=20,
)


def nested(value: Any, times: int) -> Any:
    for number in range(times):
        value = [value, "]"] if number % 2 else {"a}": value}
    return value


@given(ANY, st.integers(0, DEPTH - 30))
def test_what_is_not_too_deep_stays_byte_for_byte(value: Any, times: int) -> None:
    text = json.dumps(nested(value, times), ensure_ascii=False).encode()
    assert shallow(text) == text


@given(ANY)
def test_what_is_too_deep_is_null_and_its_surroundings_stay(value: Any) -> None:
    text = json.dumps([nested([value], DEPTH - 1), nested(value, 2)]).encode()
    expected = [nested(None, DEPTH - 1), nested(value, 2)]
    assert json.loads(shallow(text)) == expected


def test_a_document_that_fits_is_decoded_as_it_is() -> None:
    received: list[bytes] = []
    decoded(received.append, b"[1]")
    assert received == [b"[1]"]


@pytest.mark.parametrize("text", [b"[" * 200, b'{"a":' * 200 + b'"}', b'["' + b"\\" * 99])
def test_what_is_no_json_stays_none(text: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(shallow(text))
