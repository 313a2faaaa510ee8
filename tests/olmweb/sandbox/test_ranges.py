"""Version ranges as the sandbox's controllers read them."""

import pytest

from olmweb.sandbox.controllers.bundles import in_range


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("1.2.3", "1.2.3", "1.2.4"),
        ("1.2", "1.2.9", "1.3.0"),
        ("1.2.x", "1.2.0", "1.1.9"),
        (">=1.2.0 <2", "1.9.0", "2.0.0"),
        (">=1.2.0, <2.0.0", "1.2.0", "1.1.9"),
        (">1.2.3", "1.2.4", "1.2.3"),
        ("<=1.2.3", "1.2.3", "1.2.4"),
        ("!=1.0.0", "1.0.1", "1.0.0"),
        ("~1.2.1", "1.2.5", "1.3.0"),
        ("^1.2", "1.9.0", "2.0.0"),
        ("^0.2.1", "0.2.9", "0.3.0"),
        ("1.0.0 || >=2.0.0", "2.1.0", "1.1.0"),
        ("<1.0.0", "1.0.0-rc.1", "1.0.0"),
        ("1.0.0-rc", "1.0.0-rc", "1.0.0-rc.1"),
    ],
)
def test_a_range_holds_what_it_says_and_no_more(text: str, inside: str, outside: str) -> None:
    assert in_range(text, inside)
    assert not in_range(text, outside)


def test_an_empty_range_holds_everything_and_words_are_refused() -> None:
    assert in_range(" ", "0.0.1-alpha")
    with pytest.raises(ValueError, match="improper constraint"):
        in_range("newest", "1.0.0")
    with pytest.raises(ValueError, match="no semantic version"):
        in_range("", "one")
