"""`brisk plot`: curves of runs as PNG, SVG or PDF."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from briskrl.cli.compare import find_all
from briskrl.cli.flags import Parser, add_flags, flag_layer
from briskrl.core.config import build

EXAMPLES = """\
examples:
  brisk plot runs/NAME                              runs.png: score, loss, entropy, speed and more
  brisk plot 'ppo-*' 'dqn-*' -o curves.svg          means of groups with 95 % intervals
  brisk plot runs/NAME --metrics score,loss --x cpu_s --smooth 10
  brisk plot runs/* --per-run

RUN is a run folder, a folder of such folders, a sweep or a pattern. Runs that differ only in their
seeds are one line, with the mean and its 95 % interval."""


@dataclass(frozen=True, slots=True)
class PlotOptions:
    """Options of `brisk plot`."""

    output: str = "runs.png"
    """File to write, also -o: .png, .svg or .pdf."""
    metrics: tuple[str, ...] = ()
    """What to draw: score, return, eval (evaluations during training) and columns of metrics.jsonl;
    by default what the runs have of the usual ones."""
    x: Literal["env_steps", "wall_s", "cpu_s"] = "env_steps"
    """Horizontal axis: environment steps, seconds or CPU seconds of training."""
    smooth: Annotated[int, Meta(ge=1, le=10_000)] = 1
    """Points over which a running mean is taken."""
    per_run: bool = False
    """One line per run instead of means over the seeds."""


def run(argv: list[str]) -> int:
    """Draw the curves."""
    parser = Parser("brisk plot", "Draw curves of runs into a file.", EXAMPLES)
    parser.usage = "brisk plot RUN... [options]"
    parser.add_argument("RUNS", metavar="RUN", nargs="+", help="what to draw")
    short: dict[str, Any] = {"dest": ":output", "default": argparse.SUPPRESS}
    parser.add_argument("-o", help=argparse.SUPPRESS, **short)
    add_flags(parser, PlotOptions)
    args = parser.parse(argv)
    options = build(PlotOptions, flag_layer(args, {"": PlotOptions}).values)
    from briskrl.plots import check_plot_path, draw_panels, write_chart
    from briskrl.plots.run_metrics import metric_panels

    check_plot_path(options.output)
    folders = [folder for argument in args.RUNS for folder in find_all(argument)]
    groups = _lines(folders, per_run=options.per_run)
    panels = metric_panels(groups, metrics=options.metrics, x=options.x, smooth=options.smooth)
    write_chart(draw_panels(panels), options.output)
    runs = sum(len(members) for members in groups.values())
    print(f"wrote {options.output}: {len(panels)} charts of {runs} runs")
    return 0


def _lines(folders: list[Path], *, per_run: bool) -> dict[str, list[Path]]:
    """The runs of every line, by its name."""
    from briskrl.cluster.group_names import name_groups
    from briskrl.cluster.groups import find_groups

    groups = name_groups(find_groups(folders))
    if per_run:
        return {run.name: [run] for group in groups for run in group.folders}
    return {group.name: list(group.folders) for group in groups}
