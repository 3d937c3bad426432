"""`brisk compare`: learning curves and final scores of groups of runs."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from briskrl.cli.flags import Parser, add_flags, flag_layer
from briskrl.cli.output import print_json
from briskrl.cli.targets import RUNS, find_run
from briskrl.cluster.sweep.folder import ROOT as SWEEPS
from briskrl.cluster.sweep.folder import SWEEP_TOML
from briskrl.core.config import build
from briskrl.core.errors import ConfigError, RunFolderError

if TYPE_CHECKING:
    from briskrl.cluster.comparison import Comparison
    from briskrl.cluster.groups import RunGroup

EXAMPLES = """\
examples:
  brisk compare runs/a runs/b --out ab.svg
  brisk compare 'snake-*' --to 20
  brisk compare sweeps/NAME --x cpu_s --out curves.png
  brisk compare runs/a0 runs/a1 runs/b0 runs/b1 --labels old,new --json

RUN is a run folder, a folder of such folders, or a pattern; SWEEP is the folder of a sweep. Names
under runs/ and sweeps/ work without the folder. Run folders with equal settings but for the seed
are one group, and so is every trial of a sweep.

--json prints one object: envs, metric, final_from (evaluation or training), eval_episodes, target
{score, window, given}, best, groups, left_out, notes, out. Every group has name, env, algo,
settings (those that differ), runs, seeds, env_steps, cpu_s, scores, final_score {value, low, high},
steps_to_score and cpu_s_to_score {median, low, high, reached, runs}, and best_is_better {value,
low, high}. A median or an end of an interval that is infinite or unknown is null."""


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Options of `brisk compare`."""

    x: Literal["env_steps", "wall_s", "cpu_s"] = "env_steps"
    """Horizontal axis of the learning curves: environment steps, seconds or CPU seconds of
    training."""
    metric: Literal["score", "return"] = "score"
    """What to compare: the environment's own measure of an episode, or the sum of its rewards."""
    to: float | None = None
    """Score for the steps and CPU seconds to a score; by default 90 % of the way that the best
    group comes in training."""
    window: Annotated[int, Meta(ge=1)] | None = None
    """Episodes whose mean must reach that score: 100, or a tenth of the run with the fewest
    episodes if that is less."""
    out: str | None = None
    """Draw the learning curves and the final scores into this file: .svg, .png or .pdf."""
    labels: tuple[str, ...] = ()
    """Names of the groups, in the order in which they are given."""
    mixed_envs: bool = False
    """Compare runs of different environments all the same."""


def run(argv: list[str]) -> int:
    """Compare, print the table, and draw the chart."""
    parser = Parser(
        "brisk compare",
        "Compare groups of runs: final scores with intervals, what it took to reach a score,\n"
        "the probability that one is better, and their learning curves.",
        EXAMPLES,
    )
    parser.usage = "brisk compare RUN|SWEEP ... [options]"
    parser.add_argument("TARGETS", metavar="RUN|SWEEP", nargs="+", help="what to compare")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_flags(parser, CompareOptions)
    args = parser.parse(argv)
    options = build(CompareOptions, flag_layer(args, {"": CompareOptions}).values)
    if options.out is not None:
        from briskrl.plots.learning import check_plot_path

        check_plot_path(options.out)
    groups = _groups(args.TARGETS, options)
    from briskrl.cluster.comparison import compare_groups

    comparison = compare_groups(
        groups,
        metric=options.metric,
        to=options.to,
        window=options.window,
        mixed_envs=options.mixed_envs,
    )
    if options.out is not None:
        from briskrl.cluster.comparison_chart import save_comparison

        save_comparison(comparison, options.out, clock=options.x)
    _print(comparison, options, as_json=args.json)
    return 0


def _print(comparison: Comparison, options: CompareOptions, *, as_json: bool) -> None:
    from briskrl.cluster.comparison_text import comparison_json, comparison_text

    if as_json:
        print_json({**comparison_json(comparison), "out": options.out})
        return
    print(comparison_text(comparison))
    if options.out is not None:
        print(f"\nchart: {options.out}")


def _groups(arguments: list[str], options: CompareOptions) -> list[RunGroup]:
    from briskrl.cluster.group_names import name_groups
    from briskrl.cluster.groups import find_groups

    groups = find_groups([folder for argument in arguments for folder in find_all(argument)])
    labels = options.labels
    if labels and len(labels) != len(groups):
        names = "; ".join(group.name for group in name_groups(groups))
        raise ConfigError(
            f"--labels names {len(labels)} groups, but there are {len(groups)}: {names}."
        )
    if len(set(labels)) < len(labels):
        raise ConfigError(f"--labels must be different names, got {', '.join(labels)}.")
    return name_groups(groups, labels)


def find_all(argument: str) -> list[Path]:
    """The run and sweep folders for an argument, see EXAMPLES; those of a pattern by name.

    Raises:
        RunFolderError: There are none.
    """
    for path in (Path(argument), RUNS / argument, SWEEPS / argument):
        if _holds_runs(path):
            return [path]
        inside = _matches(str(Path(glob.escape(str(path))) / "*"))
        if inside:
            return inside
    if not glob.has_magic(argument):
        return [find_run(argument)]
    for pattern in (argument, str(RUNS / argument), str(SWEEPS / argument)):
        found = _matches(pattern)
        if found:
            return found
    raise RunFolderError(f"No run or sweep folder matches {argument!r}.")


def _matches(pattern: str) -> list[Path]:
    return sorted(path for path in map(Path, glob.glob(pattern)) if _holds_runs(path))


def _holds_runs(path: Path) -> bool:
    return (path / "config.toml").is_file() or (path / SWEEP_TOML).is_file()
