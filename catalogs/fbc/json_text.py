"""JSON as it is written into text columns. Pure."""

import msgspec

_encode = msgspec.json.Encoder().encode


def as_json(value: object) -> str:
    """Text for a JSON column."""
    return _encode(value).decode()
