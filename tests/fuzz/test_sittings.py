"""The record of how long every reader has been fuzzed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.sittings import Record, Sitting, fuzz_folder, next_slice, table

SHORT = Sitting("2026-01-01", cpu_s=12.5, wall_s=60, executions=1000, finding=False)
LONG = Sitting("2026-01-02", cpu_s=100.0, wall_s=120, executions=5000, finding=True)


def test_sittings_add_up_over_processes(tmp_path: Path) -> None:
    assert Record(tmp_path, "policy").cpu_s == 0
    Record(tmp_path, "policy").add(SHORT)
    Record(tmp_path, "policy").add(LONG)
    Record(tmp_path, "lock").add(SHORT)
    assert Record(tmp_path, "policy").read() == [SHORT, LONG]
    assert Record(tmp_path, "policy").cpu_s == 112.5


def test_the_table_has_a_row_for_every_reader_and_their_sums(tmp_path: Path) -> None:
    Record(tmp_path, "policy").add(SHORT)
    Record(tmp_path, "policy").add(LONG)
    Record(tmp_path, "lock").add(SHORT)
    rows = {
        line.split()[0]: line.split()[1:]
        for line in table(tmp_path, ["policy", "lock", "state"]).splitlines()[1:]
    }
    assert rows == {
        "policy": ["112", "6,000", "2", "1"],
        "lock": ["12", "1,000", "1", "0"],
        "state": ["0", "0", "0", "0"],
        "all": ["125", "7,000", "3", "1"],
    }


@pytest.mark.parametrize(
    ("done_s", "expected"),
    [(0.0, 180), (450.0, 150), (595.0, 120), (599.5, 0), (900.0, 0)],
    ids=["new", "partly done", "nearly done", "done", "more than done"],
)
def test_a_reader_is_fuzzed_until_it_has_its_seconds(done_s: float, expected: int) -> None:
    assert next_slice(600, done_s, 180) == expected


def test_the_folder_is_outside_of_the_repository_unless_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FUZZ_FOLDER", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert fuzz_folder() == tmp_path / "briskrl-fuzz"
    monkeypatch.setenv("FUZZ_FOLDER", "here")
    assert fuzz_folder() == Path("here")
