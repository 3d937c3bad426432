"""The official evaluation: three attackers times three lengths, summed, beside the leaderboard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from briskrl.core.rng import derive_seed
from briskrl.core.types import JSON
from briskrl.envs.cage2.config import Cage2Config
from briskrl.envs.cage2.scenario import REDS
from briskrl.envs.evaluation_suites import Mean, Play, mean_of, sum_of

LENGTHS = (30, 50, 100)
EPISODES = 1000
PUBLISHED = {
    "competition": (
        ("winner of the challenge, PPO + greedy decoys", -54.57),
        ("second", -56.90),
        ("third", -57.05),
        ("plain PPO entry", -73.98),
        ("organizers' PPO", -95.47),
        ("react-restore", -823.89),
        ("random", -2015.61),
        ("sleep", -3112.20),
    ),
    "current": (("winner of the challenge, as measured by its users", -86.0),),
}
"""Published totals, by edition."""


@dataclass(frozen=True, slots=True)
class Cage2Report:
    """Mean episode rewards of the nine cells and their sum."""

    edition: str
    episodes: int
    """Episodes per cell."""
    cells: Mapping[str, Mean]
    """By attacker and length, as in "bline-30"."""

    @property
    def total(self) -> Mean:
        """The sum of all cells."""
        return sum_of(list(self.cells.values()))

    def as_json(self) -> dict[str, JSON]:
        """The figures as a JSON object."""
        return {
            "edition": self.edition,
            "episodes": self.episodes,
            "cells": {
                name: {"mean": cell.mean, "ci": list(cell.interval)}
                for name, cell in self.cells.items()
            },
            "total": self.total.mean,
            "total_ci": list(self.total.interval),
            "published": dict(PUBLISHED[self.edition]),
        }

    def as_text(self) -> str:
        """The table of cells, then the leaderboard including the agent."""
        lines = [f"  edition {self.edition}, {self.episodes:,} episodes per cell, 95 % intervals"]
        lines.append("  red     " + "".join(f"{f'{length} steps':>18}" for length in LENGTHS))
        for red in REDS:
            means = (self.cells[f"{red}-{length}"] for length in LENGTHS)
            lines.append(f"  {red:8}" + "".join(f"{_shown(mean):>18}" for mean in means))
        ranks = [(name, f"{total:10.2f}", total) for name, total in PUBLISHED[self.edition]]
        ranks.append(("-> this agent", _shown(self.total, 10), self.total.mean))
        lines += ["", f"  total of the {len(self.cells)} cells, among published ones"]
        lines += [f"  {total}  {name}" for name, total, _ in sorted(ranks, key=lambda row: -row[2])]
        return "\n".join(lines)


def _shown(mean: Mean, width: int = 0) -> str:
    return f"{mean.mean:{width}.2f} ±{mean.half_width:.2f}"


def score(play: Play, config: Any, *, episodes: int | None, seed: int) -> Cage2Report:
    """Play the nine cells in the agent's edition; see `Suite`."""
    assert isinstance(config, Cage2Config)
    count = episodes or EPISODES
    cells = {}
    for red in REDS:
        for length in LENGTHS:
            name = f"{red}-{length}"
            official = replace(config, red=cast(Any, red), length=length, green=False)
            # Separate seeds make the cells independent, as the interval of their sum assumes.
            games = play(official, episodes=count, seed=derive_seed(seed, name))
            cells[name] = mean_of(games.returns)
    return Cage2Report(config.edition, count, cells)
