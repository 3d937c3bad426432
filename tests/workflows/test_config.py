"""Settings of the search."""

from __future__ import annotations

import pytest

from briskrl import ConfigError, SearcherConfig
from briskrl.core.config import build, field_docs, field_hints, settings
from briskrl.core.text_values import parse_value


def test_every_setting_has_a_help_text() -> None:
    assert field_docs(SearcherConfig).keys() == field_hints(SearcherConfig).keys()


@pytest.mark.parametrize(("text", "value"), [("theory", "theory"), ("3", 3.0), ("0.5", 0.5)])
def test_beta_is_a_number_or_theory(text: str, value: object) -> None:
    parsed = parse_value(text, field_hints(SearcherConfig)["beta"])
    assert build(SearcherConfig, settings({"beta": parsed})).beta == value


@pytest.mark.parametrize(
    "values",
    [
        {"beta": "practice"},
        {"beta": -1.0},
        {"kernel": "squared"},
        {"compliance_threshold": 0.0},
        {"max_visits": 0},
        {"strategy": "list"},
        {"workflows": ["a>b"]},
    ],
)
def test_values_that_cannot_work_are_rejected(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(values))):
        build(SearcherConfig, settings(values))
