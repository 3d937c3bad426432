"""`brisk resume`: continue a run from its last checkpoint."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from briskrl.cli.flags import TRUST, Parser, add_flags, flag_layer, flag_name
from briskrl.cli.run_command import (
    NEWEST,
    add_final_episodes,
    add_watch,
    dashboard_beside,
    run_with_progress,
)
from briskrl.cli.targets import find_run
from briskrl.cluster.settings import FOR_REPLICAS, ExecutorConfig
from briskrl.core.config import Setting, build, field_hints
from briskrl.core.errors import ConfigError
from briskrl.core.text_values import parse_value
from briskrl.training.config import TrainConfig

if TYPE_CHECKING:
    from briskrl.training.reporter import Reporter, RunResult

EXAMPLES = """\
examples:
  brisk resume runs/NAME                 finish an interrupted run
  brisk resume runs/NAME --steps 8e6     train longer than planned
  brisk resume runs/NAME --engine torch  continue on the other engine
  brisk resume runs/NAME --watch         with curves and the agent at play in the browser
  brisk resume runs/NAME --executor ray  continue a run with replicas on Ray
  brisk resume runs/NAME --replicas 4    continue in four processes; 1 for a single one

A resumed run is bit-identical to one that was never stopped, if engine and replicas stay the same
and the environment can save its state."""


def run(argv: list[str]) -> int:
    """Continue a run."""
    parser = Parser("brisk resume", "Continue a run from its newest valid checkpoint.", EXAMPLES)
    parser.usage = "brisk resume RUN [--steps INT] [--lr FLOAT] [--engine NAME] [--replicas INT]"
    parser.add_argument("RUN", help="run folder, or its name under runs/")
    parser.add_argument(
        "--steps", metavar="INT", help="new total of transitions; default: as before"
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "fused", "torch"),
        help="what computes the networks from now on; default: as before. Engines round "
        "differently, so a run that changes its engine is not repeatable to the bit",
    )
    parser.add_argument(
        "--lr", metavar="FLOAT", help="learning rate from now on; default: as before"
    )
    parser.add_argument(
        "--replicas",
        metavar="INT",
        help="processes that train together from now on; default: as before. They share "
        "environments and memory anew, and nothing is lost. The same change at the same step gives "
        "the same bits",
    )
    parser.add_argument("--trust", action="store_true", help=TRUST)
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    add_watch(parser)
    add_final_episodes(parser)
    group = parser.add_argument_group("runs with replicas")
    taken = [flag_name(name) for name in field_hints(ExecutorConfig) if name not in FOR_REPLICAS]
    add_flags(group, ExecutorConfig, section="executor", taken=taken)
    args = parser.parse(argv)
    folder = find_run(args.RUN)
    work = _work(args, folder)
    with dashboard_beside(folder, watch=args.watch, as_json=args.json, view=NEWEST):
        return run_with_progress(work, as_json=args.json, final_episodes=args.final_episodes)


def _work(args: argparse.Namespace, folder: Path) -> Callable[[Reporter], RunResult]:
    """What continues the run: in one process, or with replicas if there are settings for them."""
    given = flag_layer(args, {"executor": ExecutorConfig}).table("executor")
    steps = None if args.steps is None else _of_run("steps", args.steps)
    replicas = None if args.replicas is None else _of_run("replicas", args.replicas)
    changes = {} if args.lr is None else {"lr": parse_value(args.lr, float)}
    if given:
        if changes:
            raise ConfigError("--lr cannot be combined with the settings of replicas.")
        from briskrl.cluster.replicas.run import resume_run

        settings = build(ExecutorConfig, given)
        return lambda reporter: resume_run(
            folder,
            settings,
            steps=steps,
            engine=args.engine,
            replicas=replicas,
            trust=args.trust,
            reporter=reporter,
        )
    from briskrl.training.loop import resume

    return lambda reporter: resume(
        folder,
        steps=steps,
        engine=args.engine,
        algo_config=changes,
        replicas=replicas,
        trust=args.trust,
        reporter=reporter,
    )


def _of_run(name: str, text: str) -> int:
    """A number that a setting of the run can have."""
    value = parse_value(text, field_hints(TrainConfig)[name])
    found: int = getattr(build(TrainConfig, {name: Setting(value, f"--{name}")}), name)
    return found
