"""Official evaluations: test landscapes, held-out fires, paired differences to every baseline.

All methods are measured with the same 1,000 fires per landscape, which no method trains or plans
with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from briskrl.core.rng import Streams
from briskrl.core.types import JSON
from briskrl.envs.evaluation_suites import Play
from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.envs.wildfire.fuels import Reals
from briskrl.envs.wildfire.landscape_pool import Prepared, budget_of, prepare
from briskrl.envs.wildfire.planning.baselines import plan_cells
from briskrl.envs.wildfire.simulate import Simulator

TEST_FIRES = 1000
LANDSCAPES = 20
RANDOM_DRAWS = 20
"""Random placements per landscape; their mean is the baseline."""
RESAMPLES = 10_000
QUICK = ("random", "burn-prob", "line", "betweenness", "dpv-static", "dpv-iterative")
SLOW = ("greedy", "local-search")
"""Baselines that take several seconds per landscape."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of burned value between an agent and a baseline, in percentage points."""

    diff_pct: float
    """Negative if the agent is better."""
    relative_pct: float
    """The same as a percentage of the baseline's burned value."""
    ci: tuple[float, float] | None
    """95 % bootstrap interval of diff_pct over landscapes; None for a single landscape."""
    baseline_pct: float
    """Burned value with the baseline."""


@dataclass(frozen=True, slots=True)
class WildfireReport:
    """Result of a suite; percentages are of the landscapes' burnable value."""

    suite: str
    landscapes: int
    fires: int
    """Per landscape."""
    burned_pct: float
    untreated_pct: float
    reduction_pct: float
    """Reduction of the burned value by breaks, in percent of the untreated one."""
    vs: dict[str, Difference]

    def as_json(self) -> dict[str, JSON]:
        """The figures as a JSON object."""
        return {
            "suite": self.suite,
            "landscapes": self.landscapes,
            "fires": self.fires,
            "burned_pct": self.burned_pct,
            "untreated_pct": self.untreated_pct,
            "reduction_pct": self.reduction_pct,
            "vs": {
                name: {
                    "diff_pct": found.diff_pct,
                    "relative_pct": found.relative_pct,
                    "ci": None if found.ci is None else list(found.ci),
                    "baseline_pct": found.baseline_pct,
                }
                for name, found in self.vs.items()
            },
        }

    def as_text(self) -> str:
        """The figures as text of several lines."""
        lines = [
            f"  {self.landscapes} landscapes, {self.fires:,} held-out fires each",
            f"  burned     {self.burned_pct:.2f}% (untreated {self.untreated_pct:.2f}%)",
            f"  reduction  {self.reduction_pct:.1f}%",
        ]
        for name, found in self.vs.items():
            within = "" if found.ci is None else f"  [{found.ci[0]:+.2f}, {found.ci[1]:+.2f}]"
            lines.append(
                f"  against {name:<14} {found.diff_pct:+6.2f} points{within}  "
                f"({found.relative_pct:+.1f}% of its {found.baseline_pct:.2f}%)"
            )
        return "\n".join(lines)


def wildfire20(
    play: Play, config: Any, *, episodes: int | None = None, seed: int = 0
) -> WildfireReport:
    """Synthetic test landscapes of 20x20 cells, 5 % of them treated."""
    return _measure("wildfire20", _prescribed(config, height=20, width=20), play, episodes, seed)


def wildfire20_full(
    play: Play, config: Any, *, episodes: int | None = None, seed: int = 0
) -> WildfireReport:
    """The same, against the slow baselines too."""
    asked = _prescribed(config, height=20, width=20)
    return _measure("wildfire20-full", asked, play, episodes, seed, baselines=QUICK + SLOW)


def wildfire40(
    play: Play, config: Any, *, episodes: int | None = None, seed: int = 0
) -> WildfireReport:
    """Synthetic test landscapes of 40x40 cells, 5 % of them treated."""
    return _measure("wildfire40", _prescribed(config, height=40, width=40), play, episodes, seed)


def landfire50(
    play: Play, config: Any, *, episodes: int | None = None, seed: int = 0
) -> WildfireReport:
    """Test crops of the LANDFIRE tile, 50x50 cells, 5 % of them treated."""
    asked = _prescribed(config, height=50, width=50, source="landfire")
    return _measure("landfire50", asked, play, episodes, seed)


def wildfire_own(
    play: Play, config: Any, *, episodes: int | None = None, seed: int = 0
) -> WildfireReport:
    """The landscapes and budget of the agent's own settings, with held-out fires."""
    assert isinstance(config, WildfireConfig)
    count = 1 if config.landscape is not None else min(config.landscapes, LANDSCAPES)
    return _measure("wildfire-own", replace(config, landscapes=count), play, episodes, seed)


def _prescribed(config: Any, **settings: Any) -> WildfireConfig:
    """The suite's settings with the observation settings of the agent."""
    assert isinstance(config, WildfireConfig)
    return WildfireConfig(
        split="test",
        landscapes=LANDSCAPES,
        obs=config.obs,
        obs_channels=config.obs_channels,
        obs_fires=config.obs_fires,
        plan=config.plan,
        plan_fires=config.plan_fires,
        cells_per_step=config.cells_per_step,
        **settings,
    )


def _measure(
    suite: str,
    config: WildfireConfig,
    play: Play,
    episodes: int | None,
    seed: int,
    *,
    baselines: tuple[str, ...] = QUICK,
) -> WildfireReport:
    agent, untreated = np.zeros(config.landscapes), np.zeros(config.landscapes)
    others = {name: np.zeros(config.landscapes) for name in baselines}
    for n in range(config.landscapes):
        one = replace(config, landscapes=1, first_landscape=config.first_landscape + n)
        prepared = prepare(one, 0)
        simulator = Simulator(prepared.scene)
        fires = prepared.fires("test", TEST_FIRES)
        untreated[n] = 100 * simulator.burned_frac(fires)
        agent[n] = _agent_burns(play, one, episodes or 1, seed)
        for name, burned in others.items():
            burned[n] = baseline_burns(name, one, prepared)
    vs = {name: difference(agent, burned) for name, burned in others.items()}
    reduction = 100 * (1 - agent.mean() / untreated.mean()) if untreated.any() else 0.0
    return WildfireReport(
        suite=suite,
        landscapes=config.landscapes,
        fires=TEST_FIRES,
        burned_pct=float(agent.mean()),
        untreated_pct=float(untreated.mean()),
        reduction_pct=float(reduction),
        vs=vs,
    )


def _agent_burns(play: Play, config: WildfireConfig, episodes: int, seed: int) -> float:
    """Burned percentage of one landscape, averaged over episodes."""
    held_out = replace(
        config, fires="test", n_fires=TEST_FIRES, reward="terminal", illegal_penalty=0.0
    )
    return -float(play(held_out, episodes=episodes, seed=seed).returns.mean())


def baseline_burns(name: str, config: WildfireConfig, prepared: Prepared) -> float:
    """Burned percentage of one landscape with a baseline's breaks and the test fires."""
    simulator, cells = Simulator(prepared.scene), prepared.scene.landscape.cells
    known, unseen = (
        prepared.fires("training", config.plan_fires),
        prepared.fires("test", TEST_FIRES),
    )
    rng = Streams(prepared.streams_seed)["plan"]
    burned = []
    for _ in range(RANDOM_DRAWS if name == "random" else 1):
        treated = np.zeros(cells, np.bool_)
        treated[plan_cells(name, simulator, known, budget_of(config, cells), rng)] = True
        burned.append(simulator.burned_frac(unseen, treated))
    return 100 * float(np.mean(burned))


def difference(agent: Reals, baseline: Reals) -> Difference:
    """The paired difference between two methods over the same landscapes."""
    paired = agent - baseline
    interval = None
    if len(paired) > 1:
        rng = np.random.default_rng(0)
        means = paired[rng.integers(len(paired), size=(RESAMPLES, len(paired)))].mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975]).tolist()
        interval = (low, high)
    mean = float(baseline.mean())
    return Difference(
        diff_pct=float(paired.mean()),
        relative_pct=100 * float(paired.mean()) / mean if mean > 0 else 0.0,
        ci=interval,
        baseline_pct=mean,
    )
