"""Learning curves: of run folders, and of a study of update ratios."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from briskrl.bench.compare import mean_of
from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.core.state_checks import MALFORMED
from briskrl.plots.panels import Line, Panel, draw_panels
from briskrl.plots.style import save
from briskrl.training.storage.episode_log import (
    Clock,
    means_between,
    read_episodes,
    seconds_after,
)
from briskrl.training.storage.run_dir import RunDir

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from briskrl.bench.ratio import RatioFigures
    from briskrl.bench.train_loop import Curve

SUFFIXES = (".svg", ".png", ".pdf")
POINTS = 60
"""Points of a learning curve; each is the mean score of the episodes since the last one."""

X_LABELS: dict[Clock, str] = {
    "env_steps": "environment steps",
    "wall_s": "seconds of training",
    "cpu_s": "CPU seconds of training",
}


def check_plot_path(path: str | Path) -> None:
    """Refuse a chart that could not be written, before hours are spent on it.

    Raises:
        ConfigError: The file name ends in another format, or its folder does not exist.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ConfigError(f"Charts are written as {', '.join(SUFFIXES)}; got {path}.")
    if not Path(path).parent.is_dir():
        raise ConfigError(f"Cannot write {path}: there is no folder {Path(path).parent}.")


def write_chart(figure: Figure, path: str | Path) -> None:
    """Write a chart as SVG, PNG or PDF, whichever the file name ends in.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        save(figure, path)
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}.") from None


def learning_curve(
    run_dirs: Sequence[str | Path],
    path: str | Path,
    *,
    x: Clock = "env_steps",
    title: str = "",
) -> Figure:
    """Draw episode scores during training and write the chart to `path` (SVG, PNG or PDF).

    Runs of the same environment and algorithm are one curve: the mean over the runs with its
    95 % interval, as far as the shortest of them goes.

    Args:
        run_dirs: Run folders with an `episodes.csv`.
        path: File to write.
        x: Quantity on the horizontal axis.
        title: Above the curves; by default the environments, and the algorithm if it is one.

    Returns:
        The figure that was written.

    Raises:
        ConfigError: There are no runs, or `path` cannot be written.
        RunFolderError: A folder holds no finished episodes, or runs share no part of a curve.
    """
    check_plot_path(path)
    if not run_dirs:
        raise ConfigError("A learning curve needs at least one run folder.")
    runs = [_read_run(Path(folder), x) for folder in run_dirs]
    envs = list(dict.fromkeys(run.env for run in runs))
    names = list(dict.fromkeys(run.name(len(envs) > 1) for run in runs))
    lines = [_mean_line(name, [r for r in runs if r.name(len(envs) > 1) == name]) for name in names]
    if not title:
        title = " and ".join(envs) if len(lines) > 1 else f"{lines[0].name} on {envs[0]}"
    panel = Panel(title, X_LABELS[x], "episode score", lines)
    figure = draw_panels([panel])
    write_chart(figure, path)
    return figure


def ratio_curves(result: RatioFigures, path: str | Path) -> Figure:
    """Draw the score of every preset by steps and by CPU time, and write the chart to `path`.

    Curves are means over the seeds with 95 % intervals; the dashed line is the score to reach.

    Raises:
        ConfigError: `path` cannot be written.
    """
    check_plot_path(path)
    title = f"{result.algo} on {result.env}"
    label = f"score, mean of {result.games} games"
    steps = [_ratio_line(name, some, by_time=False) for name, some in result.curves.items()]
    times = [_ratio_line(name, some, by_time=True) for name, some in result.curves.items()]
    panels = [
        Panel(f"{title}, by steps", "environment steps", label, steps, mark=result.score),
        Panel(
            f"{title}, by CPU time", X_LABELS["cpu_s"], label, times, log_x=True, mark=result.score
        ),
    ]
    figure = draw_panels(panels)
    write_chart(figure, path)
    return figure


@dataclass(frozen=True, slots=True)
class _Run:
    """Scores of one run's episodes, in the order of x."""

    env: str
    algo: str
    x: NDArray[np.float64]
    scores: NDArray[np.float64]

    def name(self, with_env: bool) -> str:
        return f"{self.algo} on {self.env}" if with_env else self.algo


def _read_run(folder: Path, x: Clock) -> _Run:
    run = RunDir.open(folder)
    try:
        config = tomllib.loads(run.config_path.read_text(encoding="utf-8"))
        env, algo = str(config["env"]), str(config["algo"])
    except (OSError, *MALFORMED) as error:
        raise RunFolderError(f"{run.config_path} cannot be read: {error}.") from error
    log = read_episodes(run)
    places = log.steps if x == "env_steps" else seconds_after(run, log.steps, x)
    return _Run(env, algo, places, log.values)


def _mean_line(name: str, runs: Sequence[_Run]) -> Line:
    """The mean over runs with its interval, at POINTS places that all runs have reached.

    Raises:
        RunFolderError: At no place have all runs finished an episode.
    """
    edges = np.linspace(0.0, min(run.x[-1] for run in runs), POINTS + 1)
    means = np.array([means_between(run.x, run.scores, edges) for run in runs])
    known = np.isfinite(means).all(axis=0)
    if not known.any():
        raise RunFolderError(
            f"The {len(runs)} runs of {name} have no episodes at the same steps. Draw them one by "
            "one, or train longer."
        )
    return _line(name, edges[1:][known].tolist(), means[:, known].tolist())


def _ratio_line(name: str, curves: Sequence[Curve], *, by_time: bool) -> Line:
    x: Sequence[float] = curves[0].steps
    if by_time:
        x = [fmean(at) for at in zip(*(curve.cpu_s for curve in curves), strict=True)]
    return _line(name, x, [curve.scores for curve in curves])


def _line(name: str, x: Sequence[float], curves: Sequence[Sequence[float]]) -> Line:
    """The mean of curves with its 95 % interval at every x."""
    points = [mean_of(values) for values in zip(*curves, strict=True)]
    means = [point for point in points if point is not None]
    return Line(
        name,
        x,
        [point.mean for point in means],
        [point.mean if point.low is None else point.low for point in means],
        [point.mean if point.high is None else point.high for point in means],
    )
