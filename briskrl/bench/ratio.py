"""`brisk bench ratio`: cost and benefit of every preset of the update ratio.

All presets train the same config with the same seeds for the same number of steps. With a results
file every finished run is one line of it, so that an interrupted study can be continued and more
seeds can be added.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import msgspec

from briskrl.algos.dqn.config import RATIO_PRESETS, DQNConfig
from briskrl.bench.command import Report, TrainBenchCommand
from briskrl.bench.compare import SeedMean, mean_of
from briskrl.bench.train_loop import Arrival, Curve, learning_curve
from briskrl.core.config import to_toml
from briskrl.core.errors import ConfigError
from briskrl.core.format import format_columns, format_count

if TYPE_CHECKING:
    from briskrl.training.config import TrainConfig

Preset = Literal["debug", "fast", "moderate", "balanced", "quality"]

STEPS = 500_000
SCORES = {"snake": 15.0, "cartpole": 100.0, "gym:CartPole-v1": 100.0}
"""Default scores to reach: well above random play, below the final score of most runs."""
SCORE_FRACTION = 0.8
"""In other games: this fraction of the way from the lowest first score to the best final mean."""

DESCRIPTION = f"""\
Cost and benefit of every preset of --train-steps-ratio.

All presets train the same settings with the same seeds for the same number of steps. The policy is
evaluated several times during training, on new games without exploration.

  steps/s, steps/CPU s   training speed, without warm-up and evaluation
  CPU s                  of one run
  final score            at the end
  reached                number of runs that reached the score of --score
  ... to score           cost of reaching it, over those runs

Figures are means over the seeds with 95 % intervals. With --results every finished run is saved:
the same command continues an interrupted study or adds more seeds.

Every option of `brisk train` for an algorithm with a replay buffer can be given, except --run-dir
and --train-steps-ratio; --json prints one JSON object with all curves. Without --steps or a
--config file each run has {STEPS:,} steps."""

EXAMPLES = """\
examples:
  brisk bench ratio snake
  brisk bench ratio cartpole --seeds 5 --results cartpole.jsonl --plot cartpole.svg
  brisk bench ratio snake --algo rainbow --presets debug,fast --steps 2e5 --score 20 --json"""


@dataclass(frozen=True, slots=True)
class RatioBench:
    """Settings of `brisk bench ratio`."""

    presets: Annotated[tuple[Preset, ...], msgspec.Meta(min_length=1)] = get_args(Preset)
    """Presets of --train-steps-ratio to train."""
    seeds: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    """Runs per preset, with consecutive seeds from --seed on."""
    points: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    """Evaluations per run, closer together at its beginning."""
    games: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 200
    """New games per evaluation."""
    score: float | None = None
    """The score to reach; by default one that suits the game."""
    results: str | None = None
    """JSON Lines file to which finished runs are appended; runs already in it are not repeated."""
    plot: str | None = None
    """Chart of the curves to write: a .svg, .png or .pdf file."""


@dataclass(slots=True)
class RatioRun:
    """One run, as it is saved in the results file."""

    study: str
    """Hash of the settings that comparable runs share."""
    env: str
    algo: str
    preset: str
    seed: int
    curve: Curve


@dataclass(frozen=True, slots=True)
class PresetFigures:
    """One preset, over its seeds."""

    ratio: float
    """Updates per transition."""
    updates: float
    steps_per_s: SeedMean
    steps_per_cpu_s: SeedMean
    cpu_s: float
    """Mean per run."""
    final_score: SeedMean
    reached: int
    """Runs that reached the score; the next three are means over those, None without any."""
    steps_to_score: SeedMean | None
    wall_s_to_score: SeedMean | None
    cpu_s_to_score: SeedMean | None


@dataclass(frozen=True, slots=True)
class RatioFigures:
    """All presets, and their learning curves over the same seeds."""

    env: str
    algo: str
    steps: int
    seeds: int
    games: int
    """New games per evaluation."""
    score: float
    """The score to reach."""
    presets: dict[str, PresetFigures]
    curves: dict[str, list[Curve]]


def measure_ratios(config: TrainConfig, bench: RatioBench, report: Report) -> RatioFigures:
    """Do the missing runs; returns the figures of all.

    Args:
        config: What to train; its seed is the first one.
        bench: Presets, seeds and evaluations.
        report: Called with a line after every run.

    Raises:
        ConfigError: The algorithm has no update ratio, the number of steps is missing, or the
            results file holds something else.
    """
    steps = _steps_of(config)
    path = None if bench.results is None else Path(bench.results)
    planned = list(_plan(config, bench, _study(config, bench)))
    known = {} if path is None else {_key(run): run for run in read_runs(path)}
    for number, run in enumerate(planned, 1):
        if _key(run) not in known:
            algo_config = replace(config.algo_config, train_steps_ratio=run.preset)
            settings = replace(config, seed=run.seed, algo_config=algo_config)
            run.curve = learning_curve(
                settings, steps=steps, points=bench.points, games=bench.games
            )
            known[_key(run)] = run
            if path is not None:
                append_run(path, run)
            result = f"score {run.curve.scores[-1]:.1f}, {run.curve.cpu_s[-1]:.1f} CPU s"
            report(f"{number} of {len(planned)}: {run.preset}, seed {run.seed}: {result}")
    return summarize([known[_key(run)] for run in planned], steps, bench)


def read_runs(path: Path) -> list[RatioRun]:
    """The runs in a results file; an incomplete last line is ignored.

    Raises:
        ConfigError: It holds something else.
    """
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        complete = [line for line in lines if line.endswith("\n") and line.strip()]
        return [msgspec.json.decode(line, type=RatioRun) for line in complete]
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise ConfigError(f"{path} is not a results file of brisk bench ratio: {error}.") from None


def append_run(path: Path, run: RatioRun) -> None:
    """Append a run to a results file, after removing an incomplete last line."""
    line = json.dumps(asdict(run)).encode() + b"\n"
    try:
        with path.open("a+b") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.write(line)
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}.") from None


def summarize(runs: Sequence[RatioRun], steps: int, bench: RatioBench) -> RatioFigures:
    """The figures of the runs of one study."""
    names = list(dict.fromkeys(run.preset for run in runs))
    curves = {name: [run.curve for run in runs if run.preset == name] for name in names}
    score = bench.score
    if score is None:
        score = SCORES.get(runs[0].env, _default_score(list(curves.values())))
    return RatioFigures(
        env=runs[0].env,
        algo=runs[0].algo,
        steps=steps,
        seeds=bench.seeds,
        games=bench.games,
        score=score,
        presets={name: _figures(name, some, score) for name, some in curves.items()},
        curves=curves,
    )


def format_ratios(figures: RatioFigures) -> str:
    """A table with one preset per row."""
    header = ["preset", "ratio", "steps/s", "steps/CPU s", "updates", "CPU s", "final score"]
    header += ["reached", "steps to score", "CPU s to score", "wall s to score"]
    rows = [header]
    rows += [_row(name, preset, figures.seeds) for name, preset in figures.presets.items()]
    return (
        f"{figures.algo} on {figures.env}, {figures.steps:,} steps, {figures.seeds} seeds, "
        f"{figures.games} games per score, score to reach {figures.score:g}:\n"
        f"{format_columns(rows)}"
    )


def _row(name: str, preset: PresetFigures, seeds: int) -> list[str]:
    return [
        name,
        f"{preset.ratio:g}",
        _format_mean(preset.steps_per_s, format_count),
        _format_mean(preset.steps_per_cpu_s, format_count),
        f"{preset.updates:,.0f}",
        f"{preset.cpu_s:.3g}",
        _format_mean(preset.final_score),
        f"{preset.reached} of {seeds}",
        _format_mean(preset.steps_to_score, format_count),
        _format_mean(preset.cpu_s_to_score),
        _format_mean(preset.wall_s_to_score),
    ]


def _format_number(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _format_mean(
    value: SeedMean | None, format_number: Callable[[float], str] = _format_number
) -> str:
    if value is None:
        return "-"
    half_width = "" if value.half_width is None else f" ± {format_number(value.half_width)}"
    return f"{format_number(value.mean)}{half_width}"


def _figures(preset: str, curves: list[Curve], score: float) -> PresetFigures:
    arrivals = [found for found in (curve.when(score) for curve in curves) if found is not None]

    def mean_cost(cost: Callable[[Arrival], float]) -> SeedMean | None:
        return mean_of([cost(arrival) for arrival in arrivals])

    return PresetFigures(
        ratio=RATIO_PRESETS[preset],
        updates=fmean(curve.updates for curve in curves),
        steps_per_s=_mean(curve.steps[-1] / curve.wall_s[-1] for curve in curves),
        steps_per_cpu_s=_mean(curve.steps[-1] / curve.cpu_s[-1] for curve in curves),
        cpu_s=fmean(curve.cpu_s[-1] for curve in curves),
        final_score=_mean(curve.scores[-1] for curve in curves),
        reached=len(arrivals),
        steps_to_score=mean_cost(lambda arrival: arrival.steps),
        wall_s_to_score=mean_cost(lambda arrival: arrival.wall_s),
        cpu_s_to_score=mean_cost(lambda arrival: arrival.cpu_s),
    )


def _mean(values: Iterable[float]) -> SeedMean:
    found = mean_of(list(values))
    assert found is not None
    return found


def _default_score(curves: Sequence[Sequence[Curve]]) -> float:
    lowest = min(curve.scores[0] for some in curves for curve in some)
    best = max(fmean(curve.scores[-1] for curve in some) for some in curves)
    return lowest + SCORE_FRACTION * (best - lowest)


def _steps_of(config: TrainConfig) -> int:
    if not isinstance(config.algo_config, DQNConfig):
        raise ConfigError(
            f"{config.algo} learns from every rollout once and has no --train-steps-ratio. "
            "bench ratio needs an algorithm with a replay buffer, such as dqn or rainbow."
        )
    if config.steps is None:
        raise ConfigError("All runs need the same length: set the number of steps with --steps.")
    return config.steps


def _plan(config: TrainConfig, bench: RatioBench, study: str) -> Iterator[RatioRun]:
    """All presets with one seed before the next, so that part of a study is a smaller study."""
    presets = [name for name in RATIO_PRESETS if name in bench.presets]
    for seed in range(config.seed, config.seed + bench.seeds):
        for preset in presets:
            yield RatioRun(study, config.env, config.algo, preset, seed, Curve())


def _study(config: TrainConfig, bench: RatioBench) -> str:
    shared: Any = replace(
        config, seed=0, algo_config=replace(config.algo_config, train_steps_ratio="fast")
    )
    text = f"{to_toml(shared)}\n{bench.points} {bench.games}"
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _key(run: RatioRun) -> tuple[str, str, int]:
    return run.study, run.preset, run.seed


COMMAND = TrainBenchCommand(
    DESCRIPTION,
    EXAMPLES,
    RatioBench,
    measure=measure_ratios,
    cpu_seconds=lambda _config, _settings: 0.0,
    default_flags=("--steps", str(STEPS)),
    reserved_flags=("--run-dir", "--train-steps-ratio", "--print-config"),
    to_text=format_ratios,
)
