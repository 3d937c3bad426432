"""The curves of `brisk bench ratio` as a picture: by steps, and by CPU time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from briskrl.bench.compare import mean_of
from briskrl.bench.learning import Curve
from briskrl.bench.plot import Line, Panel, picture
from briskrl.bench.ratio import RatioFigures
from briskrl.core.errors import ConfigError


def check_plot(path: str) -> None:
    """Refuse a picture that could not be written, before hours are spent on it.

    Raises:
        ConfigError: It is of another kind, or there is no such folder.
    """
    if not path.endswith(".svg"):
        raise ConfigError(f"Pictures are written as SVG: --plot {path} must end in .svg.")
    if not Path(path).parent.is_dir():
        raise ConfigError(f"Cannot write {path}: there is no folder {Path(path).parent}.")


def write_plot(figures: RatioFigures, path: str) -> None:
    """Write means over the seeds with their 95 % bands, a curve per preset."""
    try:
        Path(path).write_text(draw(figures), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}.") from None


def draw(figures: RatioFigures) -> str:
    """The picture as an SVG document."""
    title = f"{figures.algo} on {figures.env}"
    lines = {name: _lines(name, curves) for name, curves in figures.curves.items()}
    by_steps, by_time = ([pair[side] for pair in lines.values()] for side in (0, 1))
    name = f"score, mean of {figures.games} games"
    return picture(
        [
            Panel(f"{title}: by steps", "steps", name, by_steps, mark=figures.score),
            Panel(
                f"{title}: by CPU time",
                "CPU seconds of training",
                name,
                by_time,
                log_x=True,
                mark=figures.score,
            ),
        ]
    )


def _lines(name: str, curves: Sequence[Curve]) -> tuple[Line, Line]:
    points = [mean_of(scores) for scores in zip(*(curve.scores for curve in curves), strict=True)]
    means = [point for point in points if point is not None]
    middle = [point.mean for point in means]
    low = [point.mean if point.low is None else point.low for point in means]
    high = [point.mean if point.high is None else point.high for point in means]
    cpu_s = [fmean(at) for at in zip(*(curve.cpu_s for curve in curves), strict=True)]
    return Line(name, curves[0].steps, middle, low, high), Line(name, cpu_s, middle, low, high)
