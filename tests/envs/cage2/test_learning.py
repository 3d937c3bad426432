"""The shipped configuration learns to defend better than any hand-written player."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from briskrl.training.evaluate import evaluate
from briskrl.training.loop import train
from briskrl.training.resolve import load_config

CONFIGS = Path(__file__).parents[3] / "briskrl" / "zoo" / "recipes"
HEURISTIC = {"current": -30.7, "competition": -24.4}
"""Its mean return over the mix of attackers that the configurations train against."""


@pytest.mark.slow
@pytest.mark.parametrize("edition", HEURISTIC)
def test_a_quarter_of_the_training_beats_the_heuristic(tmp_path: Path, edition: str) -> None:
    config = load_config(CONFIGS / f"cage2_{edition}.toml")
    run = str(tmp_path / "run")
    train(replace(config, steps=3_000_000, run_dir=run))
    assert evaluate(run, episodes=500).mean_return > 0.75 * HEURISTIC[edition]
