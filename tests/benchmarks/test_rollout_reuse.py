"""The study of reused rollouts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks import rollout_reuse as script

VARIANTS = [(0, 4), (1, 4), (3, 4), (0, 8), (0, 16), (3, 1)]
SHORT = ("--seeds", "1", "--games", "4", "--tasks", "snake-64", "--limit", "8192")


def test_goals_that_are_not_reached_are_shown_as_never(capsys):
    script.main([*SHORT])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    _, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [(int(row[0]), int(row[1])) for row in rows] == VARIANTS
    assert all(row[3:7] == ["never"] * 4 for row in rows)
    assert all(float(row[7]) >= 0 for row in rows)


def test_reuse_does_as_many_updates_as_the_rows_to_compare_with(capsys):
    script.main([*SHORT, "--json"])
    rows = json.loads(capsys.readouterr().out)["snake-64"]["rows"]
    updates = {
        (row["reuse"], row["epochs"]): row["runs"][0]["updates_per_step"] * 8192 for row in rows
    }
    # Four rollouts of 8 minibatches each; the first ones have fewer than N before them.
    passes = {0: 4, 1: 1 + 2 + 2 + 2, 3: 1 + 2 + 3 + 4}
    assert updates == pytest.approx({(n, k): passes[n] * 8 * k for n, k in VARIANTS})


def test_a_reached_goal_has_its_steps_and_times():
    task = replace(script.TASKS["snake-64"], goals=(2.0, 5.0, 1e9), greedy_at=40_000, limit=60_000)
    row = script.measure(task, (1, 4), 0, 20)
    first, second, never = row.steps_to
    assert 2048 < first < second < 60_000
    assert 0 < row.cpu_s_to[0] < row.cpu_s_to[1]
    assert 0 < row.wall_s_to[0] < row.wall_s_to[1]
    assert never is row.cpu_s_to[2] is row.wall_s_to[2] is None
    assert row.greedy > 5
