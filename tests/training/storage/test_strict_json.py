"""JSON that anybody may have written: read, or refused with a ValueError."""

from __future__ import annotations

from pathlib import Path

import pytest

from briskrl.training.storage.strict_json import parse_json, read_json

DEEP = 200_000


def test_values_are_those_of_json(tmp_path: Path) -> None:
    text = b'{"a": [1, -2.5, true, null, "x"], "b": {"a": 10000000000000000000000}}'
    expected = {"a": [1, -2.5, True, None, "x"], "b": {"a": 10**22}}
    (tmp_path / "file.json").write_bytes(text)
    assert parse_json(text) == read_json(tmp_path / "file.json") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[" * DEEP + b"]" * DEEP, "nested too deeply"),
        (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "nested too deeply"),
        (b'{"a": 1, "b": {"c": 2, "c": 3}}', "a name occurs twice"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b"[-Infinity]", "-Infinity is not a number"),
        (b"", "Expecting value"),
        (b"\xff\xfe\x00", "decode"),
    ],
    ids=["lists", "objects", "twice", "NaN", "infinity", "nothing", "no text"],
)
def test_other_texts_are_refused(text: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)
