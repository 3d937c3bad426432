"""`brisk bench workflow` measures both trainers and the choices of a search."""

from __future__ import annotations

import json

import pytest

from briskrl.cli.main import main

SMALL = ["--num-envs", "8", "--update-steps", "10", "--slices", "4", "--rollouts", "1"]


@pytest.mark.parametrize("options", [[], ["--drawn", "--encoding", "rank"]])
def test_all_figures_are_measured(options: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "workflow", *SMALL, *options, "--search-rounds", "8", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["cost_ratio_low"] <= found["cost_ratio"] <= found["cost_ratio_high"]
    assert found["episodes_per_s"] > 1
    assert found["plain_episodes_per_s"] > 1
    # The ratio of medians differs from the median of ratios, but not by much.
    medians = found["episodes_per_s"] / found["plain_episodes_per_s"]
    assert found["cost_ratio"] == pytest.approx(medians, rel=0.5)
    share = found["surrogate_s"] / (found["surrogate_s"] + found["search_s"])
    assert found["surrogate_share"] == pytest.approx(share)
    assert found["engine"] == "fused"
