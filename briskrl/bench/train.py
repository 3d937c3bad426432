"""`brisk bench train`: speed, phases and steadiness of a whole training run."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from briskrl.bench.command import TrainBenchCommand
from briskrl.bench.compare import cost_ratio, standard_error
from briskrl.bench.stopwatch import per_second
from briskrl.core.errors import ConfigError
from briskrl.core.scratch_folder import ScratchFolder

if TYPE_CHECKING:
    from briskrl.bench.progress_sampler import ProgressSampler
    from briskrl.bench.steadiness import SteadinessHook
    from briskrl.training.config import TrainConfig
    from briskrl.training.reporter import RunResult

STEPS = 2_000_000
"""Default length: long enough for costs that grow with time to show."""
EARLY_EPISODES_PER_ENV = 5

DESCRIPTION = f"""\
Speed of the whole training loop, as `brisk train` runs it, in a temporary run folder.

  steps_per_cpu_s   transitions per CPU second, without warm-up
  early_ratio       speed of the first five episodes per environment after learning begins, over the
                    speed of the rest: 1 means full speed from the first episode
  late_cost_ratio   CPU time per step in the last fifth over that in the second: 1 means that
                    training does not slow down
  *_single_pass     the same two ratios within the one run, including measurement noise
  steady_spread     10th and 90th percentile of such a ratio in the rest of the run: the noise
  machine_fraction  achieved_gflops (arithmetic of the networks per CPU second) over machine_gflops,
                    the best rate of one thread of this machine: see brisk bench machine
  rss_growth_mb     memory growth from the end of warm-up to the end
  phases            wall seconds per phase

For early_ratio and late_cost_ratio the run alternates with replicas of itself: child processes on
the same core that train the same settings and seed from the start.

Every option of `brisk train` can be given (brisk train ENV --help lists them) except --run-dir.
Without --steps or a --config file the run has {STEPS:,} steps."""

EXAMPLES = """\
examples:
  brisk bench train snake
  brisk bench train snake --algo rainbow --obs flood --steps 5e5
  brisk bench train snake --train-steps-ratio quality --seed 1 --json"""


@dataclass(frozen=True, slots=True)
class TrainFigures:
    """Cost of training, without warm-up."""

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
    """See `Utilization`, also for the next three."""
    achieved_gflops: float | None
    machine_gflops: float | None
    machine_fraction: float | None
    updates: int
    updates_per_transition: float
    early_ratio: float | None
    """Steps per CPU second of the first five episodes per environment after learning begins, in
    replicas, over those of the steady state that alternated with them; None if the run is too
    short."""
    early_ratio_starts: tuple[float, ...]
    """The same for each replica."""
    early_ratio_single_pass: float | None
    """The same within this run alone: first episodes over the steady state after them."""
    steady_spread: tuple[float, float] | None
    """10th and 90th percentile of the speeds of equally long windows of the steady state over
    their median: the noise of single-pass ratios."""
    late_cost_ratio: float | None
    """CPU time per step in the last fifth over that in the second fifth of a replica that
    alternated with it; None if the run is too short or learning begins after the first fifth."""
    late_cost_ratio_error: float | None
    """Its standard error, from the scatter between slices."""
    late_cost_ratio_single_pass: float | None
    """The same within this run alone."""
    rss_growth_mb: float
    """Growth of the resident memory from the end of warm-up to the last iteration."""
    phases: dict[str, float]
    """Wall seconds per phase."""
    mean_score: float | None


def measure_train(config: TrainConfig) -> TrainFigures:
    """Train in a temporary folder, alternating with replicas.

    All figures but the two ratios describe this run alone: time spent waiting for replicas is
    subtracted. Checkpoints by time are off, because pauses would trigger them; those by steps stay.

    Raises:
        ConfigError: The config has no number of steps.
        KeyboardInterrupt: The run was interrupted, so its figures would be misleading.
    """
    from briskrl.bench.progress_sampler import ProgressSampler
    from briskrl.bench.steadiness import SteadinessHook
    from briskrl.training.loop import train

    steps = config.steps
    if steps is None:
        raise ConfigError("A benchmark needs a fixed length: set the number of steps with --steps.")
    config = replace(config, checkpoint_seconds=0.0)
    sampler = ProgressSampler(steps=steps, num_envs=config.num_envs)
    with ScratchFolder("brisk-bench-") as name:
        folder = Path(name)
        steadiness = SteadinessHook(
            iterations=-(-steps // config.num_envs),
            episodes=EARLY_EPISODES_PER_ENV * config.num_envs,
            folder=folder,
        )
        with closing(steadiness):
            config = replace(config, run_dir=str(folder / "run"))
            result = train(config, hooks=[sampler, steadiness])
    if result.stopped != "finished":
        raise KeyboardInterrupt
    return _figures(config, result, sampler, steadiness)


def _figures(
    config: TrainConfig, result: RunResult, sampler: ProgressSampler, steadiness: SteadinessHook
) -> TrainFigures:
    from briskrl.bench.progress_sampler import early_speed, late_cost_ratio

    early = early_speed(
        sampler.env_steps,
        sampler.episodes,
        sampler.updates,
        sampler.cpu_s,
        episodes_early=EARLY_EPISODES_PER_ENV * config.num_envs,
    )
    paused = steadiness.paused
    wall_s, cpu_s = result.wall_s - paused.wall_s, result.cpu_s - paused.cpu_s
    # The rates of the run include the CPU time of pauses.
    correction = result.cpu_s / max(1e-9, cpu_s)
    achieved, fraction = result.achieved_gflops, result.machine_fraction
    starts = [cost_ratio(pairs) for pairs in steadiness.starts]
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
        achieved_gflops=None if achieved is None else achieved * correction,
        machine_gflops=result.machine_gflops,
        machine_fraction=None if fraction is None else fraction * correction,
        updates=result.updates,
        updates_per_transition=result.updates_per_transition,
        early_ratio=cost_ratio([pair for pairs in steadiness.starts for pair in pairs]),
        early_ratio_starts=tuple(ratio for ratio in starts if ratio is not None),
        early_ratio_single_pass=None if early is None else early.ratio,
        steady_spread=None if early is None else early.spread,
        late_cost_ratio=cost_ratio(steadiness.late),
        late_cost_ratio_error=standard_error(steadiness.late),
        late_cost_ratio_single_pass=late_cost_ratio(sampler.env_steps, sampler.cpu_s),
        rss_growth_mb=sampler.rss_growth_mb,
        phases={**result.phases, "wait": max(0.0, result.phases["wait"] - paused.wall_s)},
        mean_score=result.mean_score,
    )


COMMAND = TrainBenchCommand(
    DESCRIPTION,
    EXAMPLES,
    settings=None,
    measure=lambda config, _settings, _report: measure_train(config),
    cpu_seconds=lambda config, _settings: (config.steps or 0) / 4e4,
    default_flags=("--steps", str(STEPS)),
)
