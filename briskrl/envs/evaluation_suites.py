"""Official evaluations of an environment family, run by `brisk eval --suite NAME`.

A suite decides which settings are played, how often, and what is reported; the caller plays the
games. So suites need no trainer and live with their family: an entry in `EnvFamily.suites` is the
address of a `Suite`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import JSON

NORMAL_95 = 1.959964
"""Half width of a 95 % interval of a normal variable, in standard errors."""


@dataclass(frozen=True, slots=True)
class Games:
    """Finished episodes, one number each, (M,); game k has the same seed in every call."""

    returns: NDArray[np.float64]
    score: NDArray[np.float64]
    steps: NDArray[np.float64]
    won: NDArray[np.float64]


class Play(Protocol):
    """Plays games for a suite."""

    def __call__(
        self, config: Any, *, episodes: int, seed: int, player: str | None = None
    ) -> Games:
        """Play under these settings of the family.

        Game k depends only on the settings, `seed` and k, so games of two players with equal seeds
        can be compared pair by pair.

        Args:
            config: Settings of the environment.
            episodes: Games to play.
            seed: Root of the games' seeds.
            player: A hand-written player of the family; None is the evaluated agent.
        """
        ...


class Report(Protocol):
    """The result of a suite."""

    def as_json(self) -> dict[str, JSON]:
        """The figures as a JSON object."""
        ...

    def as_text(self) -> str:
        """The figures as text of several lines."""
        ...


class Suite(Protocol):
    """An official evaluation."""

    def __call__(self, play: Play, config: Any, *, episodes: int | None, seed: int) -> Report:
        """Evaluate the agent whose games `play` plays.

        Args:
            play: Plays games of the agent.
            config: Settings that the agent was trained with; the suite replaces some of them.
            episodes: Games per cell; None is the official number.
            seed: Root of the games' seeds.
        """
        ...


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its 95 % interval."""

    mean: float
    half_width: float

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end."""
        return self.mean - self.half_width, self.mean + self.half_width


def mean_of(values: NDArray[np.float64]) -> Mean:
    """The mean of independent values, with its interval by the normal approximation."""
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Mean(float(values.mean()), NORMAL_95 * spread / sqrt(len(values)))


def sum_of(means: Sequence[Mean]) -> Mean:
    """The sum of independent means."""
    width = sqrt(sum(mean.half_width**2 for mean in means))
    return Mean(sum(mean.mean for mean in means), width)
