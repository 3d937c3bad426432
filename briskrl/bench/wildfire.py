"""`brisk bench env wildfire`: fires and steps per CPU second, and whether landscapes stay whole.

A rate that rises as episodes go by is a warning that fires are shrinking. So what untreated
landscapes lose is compared between the first and the second half of the run, landscape by
landscape, and the benchmark fails if it drifts beyond sampling error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import psutil
from numpy.typing import NDArray

from briskrl.bench.config import WildfireBench
from briskrl.bench.stopwatch import Stopwatch, per_second
from briskrl.core.errors import BriskError
from briskrl.core.types import Ints, StepBuffers
from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.envs.wildfire.env import WildfireVecEnv
from briskrl.envs.wildfire.landscape_pool import prepare
from briskrl.envs.wildfire.simulate import Simulator

FIRES_PER_TURN = 500
MOST_SIGMA = 4.0
"""Drift that chance explains less than once in ten thousand runs."""
STEPS_PER_EPISODE = 20
LANDSCAPES = 8


class DriftError(BriskError):
    """Untreated landscapes lose more or less than before: something has changed them."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class WildfireFigures:
    """What burning and stepping cost."""

    size: int
    directions: int
    fires_per_cpu_s: float
    """Single fires of 12 hours in 20 km/h wind on a mosaic of five fuels, without breaks."""
    best_fires_per_cpu_s: float
    """The same in the turn that neighbours on the machine disturbed least."""
    mean_burned_cells: float
    burnout_fires_per_cpu_s: float
    """The same without an end: every cell that fire can reach burns."""
    table_ms: float
    """CPU time for the edge times of one landscape in one weather."""
    steps_per_cpu_s: float
    """Steps of single episodes with 32 fires each, delta rewards, random legal cells."""
    untreated_drift_sigma: float
    """Change of untreated losses over the run, in standard errors."""
    early_ratio: float
    """Speed of the first tenth of the steps over that of the rest."""
    rss_growth_mb: float
    """Growth of memory while stepping."""
    episodes: int
    num_envs: int
    threads: int


def measure_wildfire(bench: WildfireBench) -> WildfireFigures:
    """Burn and step until the seconds are up, half of them each.

    Raises:
        DriftError: Untreated losses drifted beyond sampling error.
    """
    config = bench_config(bench.size, bench.directions)
    rates, burned = _burn(config, bench.seconds / 3, bench.seed)
    endless, _ = _burn(replace(config, duration_min=100_000.0), bench.seconds / 6, bench.seed)
    steps = _step(config, bench)
    drift = drift_sigma(steps.landscape, steps.untreated)
    if abs(drift) > MOST_SIGMA:
        raise DriftError(
            f"Untreated losses drifted by {drift:.1f} standard errors over {len(steps.untreated)} "
            "episodes: landscapes are not what they were, and the figures mean nothing."
        )
    return WildfireFigures(
        size=bench.size,
        directions=bench.directions,
        fires_per_cpu_s=float(np.median(rates)),
        best_fires_per_cpu_s=float(rates.max()),
        mean_burned_cells=burned,
        burnout_fires_per_cpu_s=float(np.median(endless)),
        table_ms=_table_ms(config),
        steps_per_cpu_s=steps.rate,
        untreated_drift_sigma=drift,
        early_ratio=steps.early_ratio,
        rss_growth_mb=steps.rss_growth_mb,
        episodes=len(steps.untreated),
        num_envs=bench.num_envs,
        threads=bench.threads,
    )


def bench_config(size: int, directions: int = 16) -> WildfireConfig:
    """The workload: five fuels, 20 km/h, 12 hours, a few landscapes, 20 breaks an episode."""
    return WildfireConfig(
        height=size,
        width=size,
        landscapes=LANDSCAPES,
        wind_sd_kmh=0.0,
        directions=directions,  # type: ignore[arg-type]
        budget_frac=STEPS_PER_EPISODE / size**2,
    )


def drift_sigma(landscape: Ints, untreated: NDArray[np.float64]) -> float:
    """Second half of the episodes minus the first, in standard errors; 0 if there are too few.

    Losses are compared with the mean of their own landscape, so that it does not matter which ones
    came first.
    """
    rest = untreated.copy()
    for land in np.unique(landscape):
        rest[landscape == land] -= untreated[landscape == land].mean()
    half = len(rest) // 2
    first, second = rest[:half], rest[half:]
    if half < 2 or not rest.any():
        return 0.0
    error = sqrt(float(first.var(ddof=1)) / len(first) + float(second.var(ddof=1)) / len(second))
    return float(second.mean() - first.mean()) / error if error > 0 else 0.0


def _burn(config: WildfireConfig, seconds: float, seed: int) -> tuple[NDArray[np.float64], float]:
    """Rates of many turns, and mean burned cells."""
    simulators = [Simulator(prepare(config, n).scene) for n in range(config.landscapes)]
    rng = np.random.default_rng(seed)
    samples = [simulator.scene.draw_fires(rng, FIRES_PER_TURN) for simulator in simulators]
    simulators[0].burned_cells(samples[0])
    rates: list[float] = []
    burned = 0.0
    spent = Stopwatch()
    while spent.cpu_s < seconds or not rates:
        turn, counts = Stopwatch(), []
        with spent, turn:
            for simulator, fires in zip(simulators, samples, strict=True):
                counts.append(simulator.burned_cells(fires))
        rates.append(per_second(FIRES_PER_TURN * len(simulators), turn.cpu_s))
        burned = float(np.mean(counts))
    return np.array(rates), burned


def _table_ms(config: WildfireConfig) -> float:
    """Median over a few landscapes; those of a landscape are built together."""
    costs = []
    for n in range(config.landscapes):
        prepared = prepare(config, n)
        scene, watch = prepared.scene, Stopwatch()
        with watch:
            type(scene)(scene.landscape, scene.weather, scene.compass)
        costs.append(1000 * watch.cpu_s / len(scene.weather))
    return float(np.median(costs))


@dataclass(frozen=True, slots=True)
class _Stepped:
    rate: float
    early_ratio: float
    rss_growth_mb: float
    landscape: Ints
    untreated: NDArray[np.float64]


def _step(config: WildfireConfig, bench: WildfireBench) -> _Stepped:
    """Random legal play of whole episodes, with what their landscapes lose untreated."""
    env = WildfireVecEnv(bench.num_envs, config=config, threads=bench.threads)
    out, rng = StepBuffers.allocate(env.env_spec, bench.num_envs), np.random.default_rng(bench.seed)
    assert out.mask is not None
    env.start(bench.seed, out)
    process = psutil.Process()
    marks: list[float] = []
    lands, losses = [], []
    watch, before = Stopwatch(), process.memory_info().rss
    while watch.cpu_s < bench.seconds / 2 or len(marks) < 4 * STEPS_PER_EPISODE:
        at_start = env.peek()
        if at_start["steps"][0] == 0:
            lands.append(at_start["landscape"])
            losses.append(at_start["burned_frac_untreated"])
        actions = (rng.random(out.mask.shape) * out.mask).argmax(axis=1)
        with watch:
            env.step_into(actions, out)
        marks.append(watch.cpu_s)
        if len(marks) == STEPS_PER_EPISODE:
            # Buffers take their memory when they are first written to.
            before = process.memory_info().rss
    grown = process.memory_info().rss - before
    env.close()
    early = max(1, len(marks) // 10)
    early_rate = per_second(early, marks[early - 1])
    late_rate = per_second(len(marks) - early, marks[-1] - marks[early - 1])
    return _Stepped(
        rate=per_second(len(marks) * bench.num_envs, watch.cpu_s),
        early_ratio=early_rate / late_rate,
        rss_growth_mb=grown / 1e6,
        landscape=np.concatenate(lands),
        untreated=np.concatenate(losses),
    )
