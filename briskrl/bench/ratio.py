"""`brisk bench ratio`: what every preset of the update ratio costs, and what it buys.

All presets train the same config with the same seeds for as many steps. Every finished run is a
line of a file, if one is named, so that a study that was stopped goes on where it was, and one of
three seeds can be extended to five.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from briskrl.algos.dqn.config import RATIO_PRESETS, DQNConfig
from briskrl.bench.compare import SeedMean, mean_of
from briskrl.bench.config import RatioBench
from briskrl.bench.learning import Arrival, Curve, learning_curve
from briskrl.core.config import to_toml
from briskrl.core.errors import ConfigError
from briskrl.training.config import TrainConfig

SCORES = {"snake": 15.0, "cartpole": 100.0, "gym:CartPole-v1": 100.0}
"""Scores to reach, unless another is asked for: well above chance, below where most runs end."""
PART_OF_THE_WAY = 0.8
"""In other games: this share of the way from the worst first score to the best final mean."""


@dataclass(slots=True)
class RatioRun:
    """One run of a study, as it is kept."""

    study: str
    """What all runs that may be compared with it have in common, as one word."""
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
    """Of one run, on average."""
    final_score: SeedMean
    reached: int
    """Runs that reached the score; the next three are of those alone, None without any."""
    steps_to_score: SeedMean | None
    wall_s_to_score: SeedMean | None
    cpu_s_to_score: SeedMean | None


@dataclass(frozen=True, slots=True)
class RatioFigures:
    """All presets, and their curves over the same seeds."""

    env: str
    algo: str
    steps: int
    seeds: int
    games: int
    """Fresh games per score."""
    score: float
    """The score to reach."""
    presets: dict[str, PresetFigures]
    curves: dict[str, list[Curve]]


def measure_ratios(
    config: TrainConfig, bench: RatioBench, tell: Callable[[str], None]
) -> RatioFigures:
    """Do the runs that are missing; returns the figures of all.

    Args:
        config: What to train; its seed is the first of the study's.
        bench: How to study it.
        tell: Told of every run.

    Raises:
        ConfigError: There is no such ratio or no length, or the file is not one of such studies.
    """
    steps = _length(config)
    path = None if bench.results is None else Path(bench.results)
    study = _study(config, bench)
    wanted = list(_plan(config, bench, study))
    known = {} if path is None else {_name(run): run for run in read_runs(path)}
    for number, run in enumerate(wanted, 1):
        if _name(run) not in known:
            ratio = replace(config.algo_config, train_steps_ratio=run.preset)
            settings = replace(config, seed=run.seed, algo_config=ratio)
            run.curve = learning_curve(
                settings, steps=steps, points=bench.points, games=bench.games
            )
            known[_name(run)] = run
            if path is not None:
                append_run(path, run)
            told = f"score {run.curve.scores[-1]:.1f}, {run.curve.cpu_s[-1]:.1f} CPU s"
            tell(f"{number} of {len(wanted)}: {run.preset}, seed {run.seed}: {told}")
    return summarize([known[_name(run)] for run in wanted], steps, bench)


def read_runs(path: Path) -> list[RatioRun]:
    """The runs of a results file; a last line that was cut off while it was written is no run.

    Raises:
        ConfigError: It holds something else.
    """
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n") and line.strip()]
        return [msgspec.json.decode(line, type=RatioRun) for line in whole]
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} is no results file of brisk bench ratio: {error}.") from None


def append_run(path: Path, run: RatioRun) -> None:
    """Add a run to a results file; what is left of a line that was cut off goes first."""
    line = json.dumps(asdict(run)).encode() + b"\n"
    try:
        with path.open("a+b") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.write(line)
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}.") from None


def summarize(runs: Sequence[RatioRun], steps: int, bench: RatioBench) -> RatioFigures:
    """The figures of runs that belong together."""
    names = list(dict.fromkeys(run.preset for run in runs))
    curves = {name: [run.curve for run in runs if run.preset == name] for name in names}
    score = bench.score
    if score is None:
        score = SCORES.get(runs[0].env, _part_of_the_way(list(curves.values())))
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


def _figures(preset: str, curves: list[Curve], score: float) -> PresetFigures:
    arrivals = [found for found in (curve.when(score) for curve in curves) if found is not None]

    def taken(what: Callable[[Arrival], float]) -> SeedMean | None:
        return mean_of([what(arrival) for arrival in arrivals])

    return PresetFigures(
        ratio=RATIO_PRESETS[preset],
        updates=fmean(curve.updates for curve in curves),
        steps_per_s=_mean(curve.steps[-1] / curve.wall_s[-1] for curve in curves),
        steps_per_cpu_s=_mean(curve.steps[-1] / curve.cpu_s[-1] for curve in curves),
        cpu_s=fmean(curve.cpu_s[-1] for curve in curves),
        final_score=_mean(curve.scores[-1] for curve in curves),
        reached=len(arrivals),
        steps_to_score=taken(lambda arrival: arrival.steps),
        wall_s_to_score=taken(lambda arrival: arrival.wall_s),
        cpu_s_to_score=taken(lambda arrival: arrival.cpu_s),
    )


def _mean(values: Iterator[float]) -> SeedMean:
    found = mean_of(list(values))
    assert found is not None
    return found


def _part_of_the_way(curves: Sequence[Sequence[Curve]]) -> float:
    lowest = min(curve.scores[0] for some in curves for curve in some)
    best = max(fmean(curve.scores[-1] for curve in some) for some in curves)
    return lowest + PART_OF_THE_WAY * (best - lowest)


def _length(config: TrainConfig) -> int:
    if not isinstance(config.algo_config, DQNConfig):
        raise ConfigError(
            f"{config.algo} learns from every rollout once and has no --train-steps-ratio. "
            "bench ratio is for algorithms with a replay memory, as dqn or rainbow."
        )
    if config.steps is None:
        raise ConfigError("All runs must be of one length: say how many steps with --steps.")
    return config.steps


def _plan(config: TrainConfig, bench: RatioBench, study: str) -> Iterator[RatioRun]:
    """All presets with one seed before the next, so that a part of a study is a smaller study."""
    presets = [name for name in RATIO_PRESETS if name in bench.presets]
    for seed in range(config.seed, config.seed + bench.seeds):
        for preset in presets:
            yield RatioRun(study, config.env, config.algo, preset, seed, Curve())


def _study(config: TrainConfig, bench: RatioBench) -> str:
    alike: Any = replace(
        config, seed=0, algo_config=replace(config.algo_config, train_steps_ratio="fast")
    )
    facts = f"{to_toml(alike)}\n{bench.points} {bench.games}"
    return hashlib.blake2b(facts.encode(), digest_size=6).hexdigest()


def _name(run: RatioRun) -> tuple[str, str, int]:
    return run.study, run.preset, run.seed
