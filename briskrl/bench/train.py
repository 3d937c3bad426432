"""`brisk bench train`: the real training loop, watched from hooks."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from briskrl.bench.compare import cost_ratio, standard_error
from briskrl.bench.progress_sampler import ProgressSampler, early_speed, late_cost_ratio
from briskrl.bench.steadiness import SteadinessHook
from briskrl.bench.stopwatch import per_second
from briskrl.core.errors import ConfigError
from briskrl.training.config import TrainConfig
from briskrl.training.loop import train
from briskrl.training.reporter import RunResult

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
    flops_per_step: float
    """See Effort, as for the next three."""
    achieved_gflops: float | None
    machine_gflops: float | None
    machine_fraction: float | None
    updates: int
    updates_per_transition: float
    early_ratio: float | None
    """Steps per CPU second of the first five episodes per game after learning has begun, in fresh
    processes, over the steady state that took turns with them; None if the run is too short."""
    early_ratio_starts: tuple[float, ...]
    """The same of each fresh process."""
    early_ratio_single_pass: float | None
    """The same within this run alone, the steady state measured after the first episodes."""
    steady_spread: tuple[float, float] | None
    """Speeds of equally long stretches of the steady state over their median, 10th and 90th
    percentile: how far the machine alone moves a ratio of single passes."""
    late_cost_ratio: float | None
    """CPU per step in the last fifth over that in the second fifth, which a fresh process trained
    in turns with it; None if the run is too short or began to learn later."""
    late_cost_ratio_error: float | None
    """Standard error of it, by the unrest between turns."""
    late_cost_ratio_single_pass: float | None
    """The same within this run alone, the two fifths at their own times."""
    rss_growth_mb: float
    """Growth of the resident set from the end of warm-up to the last iteration."""
    phases: dict[str, float]
    """Wall seconds per phase."""
    mean_score: float | None


def measure_train(config: TrainConfig) -> TrainFigures:
    """Train in a folder that is removed afterwards, in turns with fresh processes.

    Everything but the two ratios tells of this run alone: the time of others' turns is taken off.
    Checkpoints by the clock are off, because pauses would call for them; those by steps are not.

    Raises:
        ConfigError: The config does not say how many steps.
        KeyboardInterrupt: The run was interrupted; figures of a part would mislead.
    """
    steps = config.steps
    if steps is None:
        raise ConfigError("A benchmark needs to know its length: say how many with --steps.")
    config = replace(config, checkpoint_seconds=0.0)
    samples = ProgressSampler(steps=steps, num_envs=config.num_envs)
    with TemporaryDirectory(prefix="brisk-bench-") as name:
        folder = Path(name)
        relay = SteadinessHook(
            iterations=-(-steps // config.num_envs),
            episodes=EPISODES_EARLY_PER_ENV * config.num_envs,
            folder=folder,
        )
        with closing(relay):
            result = train(replace(config, run_dir=str(folder / "run")), hooks=[samples, relay])
    if result.stopped != "finished":
        raise KeyboardInterrupt
    return _figures(config, result, samples, relay)


def _figures(
    config: TrainConfig, result: RunResult, samples: ProgressSampler, relay: SteadinessHook
) -> TrainFigures:
    early = early_speed(
        samples.env_steps,
        samples.episodes,
        samples.updates,
        samples.cpu_s,
        episodes_early=EPISODES_EARLY_PER_ENV * config.num_envs,
    )
    wall_s = result.wall_s - relay.paused.wall_s
    cpu_s = result.cpu_s - relay.paused.cpu_s
    # The run's own rates count the CPU of others' turns.
    share = result.cpu_s / max(1e-9, cpu_s)
    achieved, fraction = result.achieved_gflops, result.machine_fraction
    starts = [cost_ratio(pairs) for pairs in relay.starts]
    return TrainFigures(
        steps=result.env_steps,
        wall_s=wall_s,
        cpu_s=cpu_s,
        steps_per_s=per_second(result.env_steps, wall_s),
        steps_per_cpu_s=per_second(result.env_steps, cpu_s),
        threads=config.num_threads,
        num_envs=config.num_envs,
        env=config.env,
        algo=config.algo,
        warmup_s=result.warmup_s,
        flops_per_step=result.flops_per_step,
        achieved_gflops=None if achieved is None else achieved * share,
        machine_gflops=result.machine_gflops,
        machine_fraction=None if fraction is None else fraction * share,
        updates=result.updates,
        updates_per_transition=result.updates_per_transition,
        early_ratio=cost_ratio([pair for pairs in relay.starts for pair in pairs]),
        early_ratio_starts=tuple(ratio for ratio in starts if ratio is not None),
        early_ratio_single_pass=None if early is None else early.ratio,
        steady_spread=None if early is None else early.spread,
        late_cost_ratio=cost_ratio(relay.late),
        late_cost_ratio_error=standard_error(relay.late),
        late_cost_ratio_single_pass=late_cost_ratio(samples.env_steps, samples.cpu_s),
        rss_growth_mb=samples.rss_growth_mb,
        phases={
            **result.phases,
            "wait": max(0.0, result.phases["wait"] - relay.paused.wall_s),
        },
        mean_score=result.mean_score,
    )
