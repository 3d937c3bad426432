"""`brisk report`: one self-contained page about a run or a sweep."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from briskrl.cli.compare import find_all
from briskrl.cli.flags import BEST, TRUST, Parser, add_flags, flag_layer
from briskrl.core.config import build
from briskrl.core.errors import BriskError

EXAMPLES = """\
examples:
  brisk report runs/NAME                     report.html in the folder of the run
  brisk report runs/NAME -o mine.html --episodes 1000
  brisk report sweeps/NAME -o sweep.html

The page of a run has its settings (differences from the defaults first), curves, an evaluation on
fresh episodes with interval and histogram, a median and the best game as GIFs, where the time went,
what `brisk doctor RUN` found, versions and the command that repeats the run. That of a sweep has
its trials, curves and the settings of the best. Pages need no network and print well."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of `brisk report`."""

    output: str | None = None
    """Page to write, also -o; by default report.html in the folder."""
    episodes: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    """Fresh episodes to evaluate a run on; 0 leaves out the evaluation and the games."""
    seed: Annotated[int, Meta(ge=0)] = 0
    """Seed of the episodes."""


def run(argv: list[str]) -> int:
    """Write the page."""
    parser = Parser("brisk report", "Write one page about a run or a sweep.", EXAMPLES)
    parser.usage = "brisk report RUN|SWEEP [options]"
    parser.add_argument("TARGET", metavar="RUN|SWEEP", help="run or sweep folder, or its name")
    short: dict[str, Any] = {"dest": ":output", "default": argparse.SUPPRESS}
    parser.add_argument("-o", help=argparse.SUPPRESS, **short)
    parser.add_argument("--best", action="store_true", help=BEST)
    parser.add_argument("--trust", action="store_true", help=TRUST)
    add_flags(parser, ReportOptions)
    args = parser.parse(argv)
    options = build(ReportOptions, flag_layer(args, {"": ReportOptions}).values)
    folders = find_all(args.TARGET)
    if len(folders) != 1:
        raise BriskError(f"{args.TARGET} holds {len(folders)} runs; choose one, or a sweep.")
    folder = folders[0]
    path = folder / "report.html" if options.output is None else Path(options.output)
    from briskrl.cluster.groups import is_sweep
    from briskrl.reports.run_report import check_report_path, run_report
    from briskrl.training.storage.atomic_files import replace, storage_errors

    check_report_path(path)
    if is_sweep(folder):
        from briskrl.reports.sweep_report import sweep_report

        page = sweep_report(folder)
    else:
        page = run_report(
            folder,
            episodes=options.episodes,
            seed=options.seed,
            best=args.best,
            trust=args.trust,
        )
    with storage_errors(f"write {path}"):
        replace(path, page.encode())
    print(f"wrote {path}: {len(page) / 1e6:.1f} MB")
    return 0
