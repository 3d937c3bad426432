"""25 kills at random moments per kind of run: the result is that of an uninterrupted run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.kill_cases import CASES
from tests.chaos.killed_runs import Killer, RunServer, assert_same_run, follow

KILLS = 25

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize("case", CASES)
def test_a_run_killed_25_times_ends_like_an_uninterrupted_one(case: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    with RunServer(case, tmp_path / "warm") as server:
        uninterrupted = follow(server, whole)
        assert uninterrupted.exit_code == 0
        killer = Killer(server, uninterrupted, seed=case)
        run_dir = tmp_path / "killed-0"
        while killer.kill_until_done(run_dir, kills=KILLS):
            assert_same_run(run_dir, whole)
            run_dir = tmp_path / f"killed-{killer.tally.runs}"
    # The last process is a new one that inherits nothing.
    with RunServer(case) as server:
        assert follow(server, run_dir).exit_code in (0, 3)
    killer.tally.runs += 1
    assert_same_run(run_dir, whole)
    print(f"{case}: {killer.tally.describe()}")
    assert killer.tally.kills.total() == KILLS
    assert killer.tally.kills["training"] >= KILLS // 3
