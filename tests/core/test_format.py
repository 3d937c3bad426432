from __future__ import annotations

import pytest

from briskrl.core.format import (
    format_columns,
    format_count,
    format_duration,
    format_figures,
    format_percent,
    format_phases,
    format_score,
)


def test_columns_are_aligned_without_trailing_spaces() -> None:
    rows = [("a", "long word", ""), ("bcd", "x", "end")]
    assert format_columns(rows, indent=" ") == " a    long word\n bcd  x          end"
    assert format_columns([]) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (999.6, "1.00k"),
        (1000, "1.00k"),
        (12_345, "12.3k"),
        (123_456, "123k"),
        (999_600, "1.00M"),
        (4_000_000, "4.00M"),
        (2.5e9, "2.50G"),
    ],
)
def test_counts_have_three_significant_digits(value: float, text: str) -> None:
    assert format_count(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (59.94, "59.9s"),
        (59.96, "1m00s"),
        (245, "4m05s"),
        (3599.6, "1h00m"),
        (7380, "2h03m"),
        (86400 * 5 + 3600 * 4, "5d04h"),
    ],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100%"),
        (0.4266, "43%"),
        (0.0996, "10%"),
        (0.0426, "4.3%"),
        (0.00426, "0.43%"),
        (0, "0.00%"),
    ],
)
def test_percentages_have_two_significant_digits(share: float, text: str) -> None:
    assert format_percent(share) == text


def test_phases_are_sorted_and_small_ones_omitted() -> None:
    assert format_phases({"act": 1.0, "update": 2.985, "log": 0.001, "env": 1.0}) == (
        "update 60%  act 20%  env 20%"
    )
    assert format_phases({}) == "-"
    assert format_score(None) == "-"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.000"),
        (0.0426, "0.043"),
        (0.99951, "1.00"),
        (1.314, "1.31"),
        (9.996, "10.0"),
        (99.96, "100"),
        (8994.98, "8,995"),
        (-4.3, "-4.30"),
    ],
)
def test_measured_numbers_have_three_significant_digits(value: float, text: str) -> None:
    assert format_figures(value) == text
