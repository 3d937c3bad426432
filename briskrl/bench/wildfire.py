"""`brisk bench env wildfire`: fires and steps per CPU second on generated landscapes.

A rate that rises during the run may mean that fires are getting smaller. So losses of untreated
landscapes are compared between the first and the second half of the run, landscape by landscape,
and the benchmark fails if they drift beyond sampling error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from statistics import median
from typing import TYPE_CHECKING, Literal

from briskrl.bench.command import BenchCommand, NumEnvs, Seconds, Seed, Threads
from briskrl.bench.stopwatch import Stopwatch, per_second
from briskrl.core.errors import BriskError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from briskrl.core.types import Ints
    from briskrl.envs.wildfire.config import WildfireConfig

FIRES_PER_SLICE = 500
MAX_SIGMA = 4.0
"""By chance, a drift beyond this occurs less than once in ten thousand runs."""
STEPS_PER_EPISODE = 20
LANDSCAPES = 8

DESCRIPTION = """\
Fires and steps per CPU second on generated landscapes: five fuels, 20 km/h wind, 12 hours.

  fires_per_cpu_s          single fires without fuel breaks, one thread
  mean_burned_cells        their mean size
  steps_per_cpu_s          steps of episodes that are evaluated with 32 fires each
  untreated_drift_sigma    change of losses without fuel breaks over the run, in standard errors

The benchmark fails if untreated losses drift beyond sampling error, because a speedup by smaller
fires would not be one."""

EXAMPLES = """\
examples:
  brisk bench env wildfire
  brisk bench env wildfire --size 100 --seconds 10 --json"""


class DriftError(BriskError):
    """Losses of untreated landscapes changed during the run."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class WildfireBench:
    """Settings of `brisk bench env wildfire`."""

    size: Literal[20, 40, 100] = 20
    """Rows and columns of the landscapes."""
    directions: Literal[8, 16, 32] = 16
    """Directions in which fire spreads from a cell."""
    seconds: Seconds = 6.0
    """CPU seconds to measure: half for fires alone, half for steps."""
    num_envs: NumEnvs = 16
    """Episodes stepped together."""
    threads: Threads = 1
    """Threads that share the steps; fires alone use one."""
    seed: Seed = 0
    """Seed of fires and actions."""


@dataclass(frozen=True, slots=True)
class WildfireFigures:
    """Speed of fires and of steps."""

    size: int
    directions: int
    fires_per_cpu_s: float
    """Single fires of 12 hours in 20 km/h wind on a mosaic of five fuels, without fuel breaks."""
    best_fires_per_cpu_s: float
    """The same in the fastest slice."""
    mean_burned_cells: float
    burnout_fires_per_cpu_s: float
    """The same without a time limit: every cell that fire can reach burns."""
    table_ms: float
    """CPU time to build the travel times of one landscape in one weather."""
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
    """Measure fires alone for half of the time, and steps for the other half.

    Raises:
        DriftError: Untreated losses drifted beyond sampling error.
    """
    config = bench_config(bench.size, bench.directions)
    rates, burned = _burn(config, bench.seconds / 3, bench.seed)
    endless, _ = _burn(replace(config, duration_min=100_000.0), bench.seconds / 6, bench.seed)
    steps = _step(config, bench)
    drift = drift_sigma(steps.landscape, steps.untreated)
    if abs(drift) > MAX_SIGMA:
        raise DriftError(
            f"Untreated losses drifted by {drift:.1f} standard errors over {len(steps.untreated)} "
            "episodes: the landscapes changed during the run, so the figures are not valid."
        )
    return WildfireFigures(
        size=bench.size,
        directions=bench.directions,
        fires_per_cpu_s=median(rates),
        best_fires_per_cpu_s=max(rates),
        mean_burned_cells=burned,
        burnout_fires_per_cpu_s=median(endless),
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
    """The workload: five fuels, 20 km/h, 12 hours, a few landscapes, 20 breaks per episode."""
    from briskrl.envs.wildfire.config import WildfireConfig

    return WildfireConfig(
        height=size,
        width=size,
        landscapes=LANDSCAPES,
        wind_sd_kmh=0.0,
        directions=directions,  # type: ignore[arg-type]
        budget_frac=STEPS_PER_EPISODE / size**2,
    )


def drift_sigma(landscape: Ints, untreated: NDArray[np.float64]) -> float:
    """Mean loss in the second half of the episodes minus that in the first, in standard errors.

    Losses are taken relative to the mean of their landscape, so that the order of landscapes does
    not matter. 0 if there are too few episodes.
    """
    import numpy as np

    rest = untreated.copy()
    for land in np.unique(landscape):
        rest[landscape == land] -= untreated[landscape == land].mean()
    half = len(rest) // 2
    first, second = rest[:half], rest[half:]
    if half < 2 or not rest.any():
        return 0.0
    error = sqrt(float(first.var(ddof=1)) / len(first) + float(second.var(ddof=1)) / len(second))
    return float(second.mean() - first.mean()) / error if error > 0 else 0.0


def _burn(config: WildfireConfig, seconds: float, seed: int) -> tuple[list[float], float]:
    """Fires per CPU second of many slices, and mean burned cells."""
    import numpy as np

    from briskrl.envs.wildfire.landscape_pool import prepare
    from briskrl.envs.wildfire.simulate import Simulator

    simulators = [Simulator(prepare(config, n).scene) for n in range(config.landscapes)]
    rng = np.random.default_rng(seed)
    samples = [simulator.scene.draw_fires(rng, FIRES_PER_SLICE) for simulator in simulators]
    simulators[0].burned_cells(samples[0])
    rates: list[float] = []
    burned = 0.0
    spent = Stopwatch()
    while spent.cpu_s < seconds or not rates:
        watch, counts = Stopwatch(), []
        with spent, watch:
            for simulator, fires in zip(simulators, samples, strict=True):
                counts.append(simulator.burned_cells(fires))
        rates.append(per_second(FIRES_PER_SLICE * len(simulators), watch.cpu_s))
        burned = float(np.mean(counts))
    return rates, burned


def _table_ms(config: WildfireConfig) -> float:
    """Median over a few landscapes of the time per table; each landscape builds all of its own."""
    from briskrl.envs.wildfire.landscape_pool import prepare

    costs = []
    for n in range(config.landscapes):
        prepared = prepare(config, n)
        scene, watch = prepared.scene, Stopwatch()
        with watch:
            type(scene)(scene.landscape, scene.weather, scene.compass)
        costs.append(1000 * watch.cpu_s / len(scene.weather))
    return median(costs)


@dataclass(frozen=True, slots=True)
class _StepResult:
    rate: float
    early_ratio: float
    rss_growth_mb: float
    landscape: Ints
    untreated: NDArray[np.float64]


def _step(config: WildfireConfig, bench: WildfireBench) -> _StepResult:
    """Play whole episodes with random legal actions, and record their untreated losses."""
    import numpy as np
    import psutil

    from briskrl.core.types import StepBuffers
    from briskrl.envs.wildfire.env import WildfireVecEnv

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
            # Buffers occupy memory from the first write on.
            before = process.memory_info().rss
    growth = process.memory_info().rss - before
    env.close()
    early = max(1, len(marks) // 10)
    early_rate = per_second(early, marks[early - 1])
    late_rate = per_second(len(marks) - early, marks[-1] - marks[early - 1])
    return _StepResult(
        rate=per_second(len(marks) * bench.num_envs, watch.cpu_s),
        early_ratio=early_rate / late_rate,
        rss_growth_mb=growth / 1e6,
        landscape=np.concatenate(lands),
        untreated=np.concatenate(losses),
    )


COMMAND = BenchCommand(
    DESCRIPTION, EXAMPLES, WildfireBench, measure_wildfire, lambda bench: bench.seconds + 5
)
