"""A sample of the fuzzed configs of tests/chaos/test_config_fuzz.py."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.fuzz_outcomes import GOOD, parse_files, parse_lines, start_accepted


def test_fuzzed_config_files_are_accepted_or_refused(tmp_path: Path) -> None:
    found = parse_files(600, tmp_path, seed=11)
    assert set(found) <= GOOD, [text for text in found if text not in GOOD]
    assert found["accepted"] > 50
    assert found["refused"] > 100


def test_fuzzed_command_lines_are_accepted_or_refused() -> None:
    found = parse_lines(100, seed=12)
    assert set(found) <= GOOD, [text for text in found if text not in GOOD]
    assert found["accepted"] > 5
    assert found["refused"] > 5


def test_accepted_configs_can_be_started(tmp_path: Path) -> None:
    found, failed = start_accepted(6, tmp_path, seed=13)
    assert not failed
    assert found["accepted"] > 0
