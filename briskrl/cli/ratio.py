"""`brisk bench ratio`: its words, its progress and its table."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from briskrl.bench.config import RatioBench
from briskrl.cli.flags import Parser, add_flags
from briskrl.cli.train import parse_args
from briskrl.core.errors import ConfigError
from briskrl.core.format import columns, count

if TYPE_CHECKING:
    from briskrl.bench.compare import SeedMean
    from briskrl.bench.ratio import PresetFigures, RatioFigures

STEPS = 500_000

HELP = f"""\
What every preset of --train-steps-ratio costs, and what it buys.

All presets train the same thing with the same seeds for as many steps. Along the way the policy
plays fresh games without exploration.

  steps/s, steps/CPU s   speed of training, without warm-up and games
  CPU s                  of one run
  final score            at the end
  reached                runs that got to the score of --score
  ... to score           what those took to get there

Means over the seeds with 95 % intervals. With --results every finished run is kept, and the same
command goes on where it was stopped, or adds further seeds.

Every option of `brisk train` for an algorithm with a replay memory can be given, except --run-dir
and --train-steps-ratio; --json prints one JSON object with all curves. Without --steps or a
--config file, {STEPS:,} steps are trained."""

EXAMPLES = """\
examples:
  brisk bench ratio snake
  brisk bench ratio cartpole --seeds 5 --results cartpole.jsonl --plot cartpole.svg
  brisk bench ratio snake --algo rainbow --presets debug,fast --steps 2e5 --score 20 --json"""


def run(argv: list[str]) -> int:
    """Study the presets, and print a table or one JSON object."""
    parser = _parser()
    if "-h" in argv or "--help" in argv:
        print(parser.format_help())
        return 0
    flags = {word.partition("=")[0] for word in argv}
    for flag in sorted(flags & {"--run-dir", "--train-steps-ratio", "--print-config"}):
        raise ConfigError(f"bench ratio keeps no run and sets the ratio: leave out {flag}.")
    words = argv if flags & {"--config", "--steps"} else [*argv, "--steps", str(STEPS)]
    config, args = parse_args(words, prog="brisk bench ratio", own=RatioBench)
    bench: RatioBench = args.own
    from briskrl.bench.ratio import measure_ratios
    from briskrl.plots import check_plot_path, ratio_curves

    if bench.plot is not None:
        check_plot_path(bench.plot)
    figures = measure_ratios(config, bench, _tell)
    if bench.plot is not None:
        ratio_curves(figures, bench.plot)
    print(json.dumps(asdict(figures), allow_nan=False) if args.json else table(figures))
    return 0


def table(figures: RatioFigures) -> str:
    """The presets as aligned columns, and what they are."""
    header = ["preset", "ratio", "steps/s", "steps/CPU s", "updates", "CPU s", "final score"]
    header += ["reached", "steps to score", "CPU s to score", "wall s to score"]
    rows = [header]
    rows += [_row(name, each, figures.seeds) for name, each in figures.presets.items()]
    return (
        f"{figures.algo} on {figures.env}, {figures.steps:,} steps, {figures.seeds} seeds, "
        f"{figures.games} games per score, score to reach {figures.score:g}:\n{columns(rows)}"
    )


def _row(name: str, each: PresetFigures, seeds: int) -> list[str]:
    return [
        name,
        f"{each.ratio:g}",
        _show(each.steps_per_s, whole=True),
        _show(each.steps_per_cpu_s, whole=True),
        f"{each.updates:,.0f}",
        f"{each.cpu_s:.3g}",
        _show(each.final_score),
        f"{each.reached} of {seeds}",
        _show(each.steps_to_score, whole=True),
        _show(each.cpu_s_to_score),
        _show(each.wall_s_to_score),
    ]


def _show(value: SeedMean | None, *, whole: bool = False) -> str:
    if value is None:
        return "-"
    write = count if whole else _plain
    half_width = "" if value.half_width is None else f" ± {write(value.half_width)}"
    return f"{write(value.mean)}{half_width}"


def _plain(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _parser() -> Parser:
    parser = Parser("brisk bench ratio", HELP, EXAMPLES)
    parser.usage = "brisk bench ratio ENV [options of brisk train] [options]"
    add_flags(parser, RatioBench)
    return parser


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
