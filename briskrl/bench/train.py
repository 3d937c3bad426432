"""`brisk bench train`: the real training loop, watched from a hook."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from briskrl.bench.samples import Samples, early_speed, late_cost_ratio
from briskrl.bench.stopwatch import per_second
from briskrl.train.config import TrainConfig
from briskrl.train.loop import train

EPISODES_EARLY_PER_ENV = 5


@dataclass(frozen=True, slots=True)
class TrainFigures:
    """What training cost, apart from the warm-up."""

    steps: int
    wall_s: float
    cpu_s: float
    steps_per_s: float
    steps_per_cpu_s: float
    threads: int
    num_envs: int
    env: str
    algo: str
    warmup_s: float
    updates: int
    updates_per_transition: float
    early_ratio: float | None
    """Steps per CPU second of the first five episodes per game after learning has begun, over the
    steady state; None if the run is too short."""
    steady_spread: tuple[float, float] | None
    """Speeds of equally long stretches of the steady state over their median, 10th and 90th
    percentile: how far the machine alone moves such a ratio."""
    late_cost_ratio: float | None
    """CPU per step in the last fifth over that in the second fifth."""
    rss_growth_mb: float
    """Growth of the resident set from the end of warm-up to the last iteration."""
    phases: dict[str, float]
    """Wall seconds per phase."""
    mean_score: float | None


def measure_train(config: TrainConfig) -> TrainFigures:
    """Train in a folder that is removed afterwards.

    Raises:
        KeyboardInterrupt: The run was interrupted; figures of a part would mislead.
    """
    samples = Samples(steps=config.steps, num_envs=config.num_envs)
    with TemporaryDirectory(prefix="brisk-bench-") as folder:
        result = train(replace(config, run_dir=str(Path(folder) / "run")), hooks=[samples])
    if result.stopped != "finished":
        raise KeyboardInterrupt
    early = early_speed(
        samples.env_steps,
        samples.episodes,
        samples.updates,
        samples.cpu_s,
        episodes_early=EPISODES_EARLY_PER_ENV * config.num_envs,
    )
    return TrainFigures(
        steps=result.env_steps,
        wall_s=result.wall_s,
        cpu_s=result.cpu_s,
        steps_per_s=result.steps_per_s,
        steps_per_cpu_s=per_second(result.env_steps, result.cpu_s),
        threads=config.threads,
        num_envs=config.num_envs,
        env=config.env,
        algo=config.algo,
        warmup_s=result.warmup_s,
        updates=result.updates,
        updates_per_transition=result.updates_per_transition,
        early_ratio=None if early is None else early.ratio,
        steady_spread=None if early is None else early.spread,
        late_cost_ratio=late_cost_ratio(samples.env_steps, samples.cpu_s),
        rss_growth_mb=samples.rss_growth_mb,
        phases=result.phases,
        mean_score=result.mean_score,
    )
