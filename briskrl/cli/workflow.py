"""`brisk workflow`: train policies that obey an order, and find the best order."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from briskrl.cli.flags import TRUST, Parser, add_flags, flag_layer
from briskrl.cli.output import print_json
from briskrl.cli.progress import command_name, progress_stream
from briskrl.cli.run_command import EXIT_CODES, add_watch, dashboard_beside
from briskrl.core.config import field_hints, to_toml
from briskrl.core.errors import BriskError, ConfigError, RunFolderError, nearest

if TYPE_CHECKING:
    from briskrl.cli.workflow_args import Parsed
    from briskrl.workflows.run.config import WorkflowConfig
    from briskrl.workflows.run.folder import Mode
    from briskrl.workflows.run.outcome import Outcome
    from briskrl.workflows.run.reporter import WorkflowReporter
    from briskrl.workflows.run.run import Stop

HELP = """\
Train policies that respond to incidents in a given order, and find the best order.

A workflow is a strict order of the kinds of incident of a task, the most urgent first, such as
op_server>enterprise>user. A policy is trained to obey it by a bonus, and scored by the returns of
the environment without the bonus. A search trains under one workflow after the other and chooses
the next one by a Gaussian process over orders; joint training makes one policy for all of them.

commands:
  search     find the best workflow within a number of episodes
  joint      train one policy that follows any workflow given at run time
  train      train under one workflow
  eval       evaluate the policies of a run
  baseline   a random player, the oracle that knows the true state, or plain PPO
  report     one page about a run, or about several runs compared
  resume     continue a run that was stopped or killed
  list       the workflows of a task: ids, names, constraints"""

EXAMPLES = """\
examples:
  brisk workflow search --task cage2 --red-agent bline --n-envs 200 --total-episodes 100000 \\
      --max-episodes 50 --update-steps 50
  brisk workflow search --task cage2 --response-prob 0.5 --dry-run
  brisk workflow joint --task cage2 --response-prob 0.5 --total-episodes 200000 --watch
  brisk workflow train --task cage2 --workflow "op_server>enterprise>defender>user>op_host"
  brisk workflow report runs/NAME
  brisk workflow resume runs/NAME

`brisk workflow COMMAND --help` lists the options of a command. Exit codes: 0 done, 2 invalid
arguments or a missing extra, 3 no workflow is obeyed, 4 too many jobs have failed, 130 interrupted
(resume it)."""

INFEASIBLE_EXIT, FAILURES_EXIT = 3, 4
"""Exit codes of runs without a workflow that is obeyed, and of runs that failures have ended."""

_MODES: dict[str, tuple[Mode, str]] = {
    "search": ("search", "Find the best workflow within a number of episodes."),
    "joint": ("joint", "Train one policy that follows any workflow given at run time."),
    "train": ("train", "Train under one workflow."),
}
_JOINT_ONLY = ("sweep_episodes", "finetune")


def run(argv: list[str]) -> int:
    """Run a command of `brisk workflow`."""
    if not argv or argv[0] in ("-h", "--help"):
        print(f"usage: brisk workflow COMMAND [options]\n\n{HELP}\n\n{EXAMPLES}")
        return 0
    name, rest = argv[0], argv[1:]
    if name in _MODES:
        return _run_new(name, rest)
    if name == "resume":
        return _resume(rest)
    from briskrl.cli import workflow_tools

    commands: dict[str, Callable[[list[str]], int]] = {
        "eval": workflow_tools.evaluate,
        "baseline": workflow_tools.baseline,
        "report": workflow_tools.report,
        "list": workflow_tools.list_workflows,
    }
    if name not in commands:
        known = [*_MODES, "resume", *commands]
        raise BriskError(f"Unknown command {name!r} of brisk workflow. {nearest(name, known)}")
    return commands[name](rest)


def _run_new(name: str, argv: list[str]) -> int:
    from briskrl.cli.workflow_args import parse_run
    from briskrl.workflows.run.folder import resolve_config

    mode, summary = _MODES[name]
    parser = Parser(f"brisk workflow {name}", summary, EXAMPLES)
    if mode == "train":
        parser.add_argument("--workflow", metavar="W", help="names joined by >, a name, or an id")
    add_watch(parser)
    skip = () if mode == "joint" else _JOINT_ONLY
    parsed = parse_run(parser, argv, skip=skip)
    config = resolve_config(parsed.layers)
    if mode == "train":
        config = for_one_workflow(config, parsed)
    return start(
        config,
        mode,
        dry_run=parsed.args.dry_run,
        print_config=parsed.args.print_config,
        as_json=parsed.args.json,
        watch=parsed.args.watch,
    )


def for_one_workflow(config: WorkflowConfig, parsed: Parsed) -> WorkflowConfig:
    """The same settings for training under the workflow that was given.

    Without a --warm-start there is no base phase, and without --total-episodes there are as many
    as training and evaluation may take.
    """
    from briskrl.workflows.run.api import one_workflow_config

    if parsed.args.workflow is None:
        raise ConfigError("Give the workflow with --workflow; `brisk workflow list` lists them.")
    given = {name for layer in parsed.layers for name in layer.values}
    if "warm_start" not in given:
        config = replace(config, warm_start="none")
    found = one_workflow_config(config, parsed.args.workflow)
    if "total_episodes" in given:
        found = replace(found, total_episodes=config.total_episodes)
    return found


def start(
    config: WorkflowConfig,
    mode: Mode,
    *,
    dry_run: bool = False,
    print_config: bool = False,
    as_json: bool = False,
    watch: bool = False,
) -> int:
    """Print the settings or the plan, or run; returns the exit code."""
    if print_config:
        print(to_toml(config).rstrip("\n"))
        return 0
    if dry_run:
        from briskrl.cli.workflow_text import plan_text
        from briskrl.workflows.run.plan import plan_json
        from briskrl.workflows.run.setup import make_setup

        setup = make_setup(config)
        plan = plan_json(setup, mode)
        if as_json:
            print_json(plan)
        else:
            print(plan_text(setup, mode, plan), flush=True)
        return 0
    from briskrl.workflows.run.run import run_workflows

    with dashboard_beside(config.run_dir, watch=watch, as_json=as_json):
        return with_progress(
            lambda reporter, stop: run_workflows(config, mode, reporter=reporter, stop=stop),
            as_json=as_json,
        )


def with_progress(work: Callable[[WorkflowReporter, Stop], Outcome], *, as_json: bool) -> int:
    """Run with progress and a summary; returns the exit code."""
    from briskrl.cli.workflow_progress import make_reporter
    from briskrl.cli.workflow_text import summary
    from briskrl.training.hooks import StopRequest

    stream = progress_stream(as_json=as_json)
    reporter = make_reporter(stream)
    try:
        with redirect_stdout(stream), StopRequest() as request:
            outcome = work(reporter, lambda: request.requested)
    finally:
        reporter.close()
    print(summary(outcome), file=stream, flush=True)
    if as_json:
        print_json(outcome.as_json())
    if outcome.stopped != "finished":
        # The last line, so that it is found.
        print(resume_command(outcome.info.folder), file=stream, flush=True)
    return exit_code(outcome)


def exit_code(outcome: Outcome) -> int:
    """The exit code of a run."""
    if outcome.stopped == "failures":
        return FAILURES_EXIT
    if outcome.stopped != "finished":
        return EXIT_CODES.get(outcome.stopped, 1)
    if outcome.info.mode == "ppo":
        return 0
    best = outcome.best
    ignores = outcome.info.config.searcher.infeasible == "ignore"
    if best is None:
        return FAILURES_EXIT if outcome.count("failed") else INFEASIBLE_EXIT
    return 0 if best.ranked.feasible or ignores else INFEASIBLE_EXIT


def resume_command(folder: Path) -> str:
    """The command that continues a run."""
    return f"{command_name()} workflow resume {shlex.quote(str(folder))}"


def find_workflow_run(argument: str) -> Path:
    """The folder of a run under workflows: a path, or a name under runs/.

    Raises:
        RunFolderError: There is none.
    """
    from briskrl.training.storage.run_dir import ROOT
    from briskrl.workflows.run.folder import WORKFLOW_TOML

    for folder in (Path(argument), ROOT / argument):
        if (folder / WORKFLOW_TOML).is_file():
            return folder
    listed = sorted(ROOT.glob(f"*/{WORKFLOW_TOML}")) if ROOT.is_dir() else []
    names = ", ".join(str(path.parent) for path in listed[-5:])
    known = f"Known: {names}." if names else f"There are none in {ROOT}."
    raise RunFolderError(f"{argument} is not the folder of a run under workflows. {known}")


def _resume(argv: list[str]) -> int:
    from briskrl.workflows.run.config import WorkflowConfig
    from briskrl.workflows.run.folder import MAY_CHANGE

    parser = Parser("brisk workflow resume", "Continue a run that was stopped or killed.")
    parser.usage = "brisk workflow resume RUN [options]"
    parser.add_argument("RUN", help="run folder, or its name under runs/")
    parser.add_argument("--trust", action="store_true", help=TRUST)
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    add_watch(parser)

    fixed = {
        "--" + name.replace("_", "-")
        for name in field_hints(WorkflowConfig)
        if name not in MAY_CHANGE
    }
    add_flags(parser.add_argument_group("settings that may change"), WorkflowConfig, taken=fixed)
    args = parser.parse(argv)
    folder = find_workflow_run(args.RUN)
    changes = flag_layer(args, {"": WorkflowConfig}).values
    from briskrl.workflows.run.run import resume_run

    with dashboard_beside(folder, watch=args.watch, as_json=args.json):
        return with_progress(
            lambda reporter, stop: resume_run(
                folder, changes, trust=args.trust, reporter=reporter, stop=stop
            ),
            as_json=args.json,
        )
