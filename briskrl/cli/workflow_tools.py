"""`brisk workflow eval`, `baseline`, `report` and `list`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from briskrl.cli.flags import TRUST, Parser, add_flags, flag_layer
from briskrl.cli.output import print_json
from briskrl.cli.progress import progress_stream
from briskrl.cli.workflow import EXAMPLES, find_workflow_run, start
from briskrl.cli.workflow_args import parse_run
from briskrl.core.config import build
from briskrl.core.errors import ConfigError
from briskrl.core.format import format_columns, format_figures

if TYPE_CHECKING:
    from briskrl.orders.space import WorkflowSpace
    from briskrl.workflows.run.evaluation_plan import Evaluated
    from briskrl.workflows.run.setup import RunSetup

_MOST_LISTED = 200
"""Workflows that are listed; of larger spaces the first ones."""


@dataclass(frozen=True, slots=True)
class EvalFlags:
    """Flags of `brisk workflow eval`."""

    workflow: str | None = None
    """Workflow to play under, as names joined by >, a well-known name or an id; by default the best
    one of the run."""
    suite: str | None = None
    """Scenarios, such as leaderboard for cage2; by default those of the run."""
    episodes: Annotated[int, Meta(ge=2)] = 1000
    """Episodes per scenario."""
    seed: Annotated[int, Meta(ge=0)] | None = None
    """Seed of the episodes; by default those of the closing evaluation of the run."""
    greedy: bool = False
    """Take the most probable actions instead of sampling them."""


@dataclass(frozen=True, slots=True)
class BaselineFlags:
    """Flags of `brisk workflow baseline`."""

    kind: Literal["random", "greedy", "ppo"] = "greedy"
    """random: uniformly random actions. greedy: an oracle that repairs a random open target of the
    required category, by the true state. ppo: the same learner without workflows, trained with
    as many episodes."""
    workflow: str | None = None
    """Workflow to play under; by default all well-known ones. Plain PPO knows none."""
    episodes: Annotated[int, Meta(ge=2)] = 1000
    """Episodes per workflow and scenario."""


def evaluate(argv: list[str]) -> int:
    """Evaluate a policy of a run."""
    parser = Parser("brisk workflow eval", "Evaluate the policies of a run.", EXAMPLES)
    parser.usage = "brisk workflow eval RUN [options]"
    parser.add_argument("RUN", help="run folder, or its name under runs/")
    parser.add_argument("--trust", action="store_true", help=TRUST)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_flags(parser, EvalFlags)
    args = parser.parse(argv)
    flags = build(EvalFlags, flag_layer(args, {"": EvalFlags}).values)
    folder = find_workflow_run(args.RUN)
    from briskrl.training.evaluate import load_policy
    from briskrl.training.workflow_players import PolicyPlayer
    from briskrl.workflows.run.evaluation import evaluate_workflows
    from briskrl.workflows.run.policies import find_policy
    from briskrl.workflows.run.presets import find_suite
    from briskrl.workflows.run.run import read_outcome

    outcome = read_outcome(folder)
    setup = outcome.info.setup
    found = find_policy(outcome, flags.workflow)
    agent = load_policy(found.folder, trust=args.trust)
    plan = setup.evaluation([found.workflow.id], stage="closing", episodes=flags.episodes)
    plan = replace(plan, greedy=flags.greedy or plan.greedy)
    if flags.suite is not None:
        plan = replace(plan, scenarios=find_suite(setup.config.task, flags.suite))
    if flags.seed is not None:
        plan = replace(plan, seed=flags.seed)
    player = PolicyPlayer(agent.policy, stochastic=not plan.greedy)
    (one,) = evaluate_workflows(player, setup.config.task, setup.config.env_config, plan)
    facts = {
        "run_dir": str(folder),
        "policy": str(found.folder),
        "policy_follows_any_workflow": found.follows_any,
        "suite": flags.suite or setup.config.suite,
        **_evaluated_json(setup, one, plan.seed),
    }
    if args.json:
        print_json(facts)
    else:
        print(f"{found.workflow}, policy of {found.folder}", flush=True)
        print(_table(setup, [one], plan.seed), flush=True)
    return 0


def baseline(argv: list[str]) -> int:
    """Play or train a baseline."""
    parser = Parser("brisk workflow baseline", "Play or train a baseline for workflows.", EXAMPLES)
    skip = ("sweep_episodes", "finetune", "plain_ppo")
    parsed = parse_run(parser, argv, own=BaselineFlags, skip=skip)
    flags = build(BaselineFlags, parsed.own)
    from briskrl.workflows.run.folder import resolve_config
    from briskrl.workflows.run.setup import make_setup

    config = resolve_config(parsed.layers)
    args = parsed.args
    if flags.kind == "ppo":
        if flags.workflow is not None:
            raise ConfigError("Plain PPO knows no workflows; leave out --workflow.")
        if "episodes" in parsed.own:
            config = replace(config, final_eval_episodes=flags.episodes)
        return start(
            replace(config, warm_start="none", base_episodes=None),
            "ppo",
            dry_run=args.dry_run,
            print_config=args.print_config,
            as_json=args.json,
        )
    setup = make_setup(config)
    found = _play_baseline(setup, flags, as_json=args.json)
    seed = setup.evaluation([0], stage="closing").seed
    if args.json:
        rows = [_evaluated_json(setup, one, seed) for one in found]
        print_json({"kind": flags.kind, "task": config.task, "workflows": rows})
    else:
        print(f"{flags.kind} on {config.task}, {flags.episodes:,} episodes each")
        print(_table(setup, found, seed), flush=True)
    return 0


def _play_baseline(setup: RunSetup, flags: BaselineFlags, *, as_json: bool) -> list[Evaluated]:
    from briskrl.training.workflow_players import OraclePlayer, RandomPlayer
    from briskrl.workflows.run.evaluation import evaluate_workflows

    space = setup.space
    if flags.workflow is not None:
        ids = [space.parse(flags.workflow).id]
    else:
        some = [space.workflow(order) for order in _first_orders(space, 1)]
        ids = [flow.id for flow in space.named.values() or some]
    plan = setup.evaluation(ids, stage="closing", episodes=flags.episodes)
    print(f"playing {len(ids)} workflows ...", file=progress_stream(as_json=as_json), flush=True)
    player = RandomPlayer() if flags.kind == "random" else OraclePlayer()
    return evaluate_workflows(player, setup.config.task, setup.config.env_config, plan)


def list_workflows(argv: list[str]) -> int:
    """List the workflows of a task."""
    parser = Parser("brisk workflow list", "List the workflows of a task.", EXAMPLES)
    parsed = parse_run(parser, argv)
    from briskrl.workflows.run.folder import resolve_config
    from briskrl.workflows.run.setup import make_setup

    config = resolve_config(parsed.layers)
    space = make_setup(config).space
    names = {flow.id: name for name, flow in space.named.items()}
    shown = [space.workflow(order) for order in _first_orders(space)]
    if parsed.args.json:
        listed = [{"id": f.id, "workflow": str(f), "name": names.get(f.id)} for f in shown]
        print_json(
            {
                "task": config.task,
                "categories": list(space.categories),
                "constraints": list(space.require),
                "size": space.size,
                "named": {name: flow.id for name, flow in space.named.items()},
                "workflows": listed,
            }
        )
        return 0
    print(f"{config.task}: {space.size:,} workflows of {', '.join(space.categories)}")
    if space.require:
        print(f"constraints: {', '.join(space.require)}")
    rows = [(str(flow.id), str(flow), names.get(flow.id, "")) for flow in shown]
    print(format_columns([("id", "workflow", "name"), *rows]))
    if space.size > len(shown):
        print(f"  ... and {space.size - len(shown):,} more")
    return 0


def report(argv: list[str]) -> int:
    """Write a report about runs."""
    parser = Parser(
        "brisk workflow report",
        "Write one page, as HTML and Markdown with figures, about a run or about several compared.",
        EXAMPLES,
    )
    parser.usage = "brisk workflow report RUN [RUN ...] [--out FOLDER] [--json]"
    parser.add_argument("RUN", nargs="+", help="run folders, or their names under runs/")
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help="where to write; by default the folder of a single run, or ./workflow-report",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse(argv)
    folders = [find_workflow_run(argument) for argument in args.RUN]
    from briskrl.cli.workflow_text import summary
    from briskrl.workflows.run.report import write_report
    from briskrl.workflows.run.run import read_outcome

    outcomes = [read_outcome(folder) for folder in folders]
    files = write_report(outcomes, out=args.out)
    if args.json:
        rows = [outcome.as_json() for outcome in outcomes]
        print_json({"files": [str(path) for path in files], "runs": rows})
        return 0
    for outcome in outcomes:
        print(summary(outcome))
    print(f"report: {', '.join(str(path) for path in files)}", flush=True)
    return 0


def _first_orders(space: WorkflowSpace, most: int = _MOST_LISTED) -> Sequence[Sequence[int]]:
    import numpy as np

    found: Sequence[Sequence[int]] = space.orders_at(np.arange(min(space.size, most))).tolist()
    return found


def _evaluated_json(setup: RunSetup, one: Evaluated, seed: int) -> dict[str, Any]:
    from briskrl.workflows.run.results import mean_interval
    from briskrl.workflows.run.stop_rules import obeys

    counts, found = one.counts, mean_interval(one.returns, seed)
    exposure: Mapping[str, Any] = {
        name: {"open_share": share, "mean_spell": _known(length), "spells": spells}
        for name, (share, length, spells) in zip(setup.space.categories, one.exposure, strict=True)
    }
    return {
        "workflow": str(setup.space.from_id(one.workflow_id)),
        "id": one.workflow_id,
        "score": found.value,
        "ci": [found.low, found.high],
        "feasible": obeys(counts, setup.config.stop, setup.threshold),
        "compliance": _known(counts.compliance),
        "contested_compliance": _known(counts.contested_compliance),
        "contested_share": _known(counts.contested_share),
        "judged_per_episode": _known(counts.judged_per_episode),
        "episodes": counts.episodes,
        "exposure": exposure,
    }


def _table(setup: RunSetup, found: Sequence[Evaluated], seed: int) -> str:
    names = {flow.id: name for name, flow in setup.space.named.items()}
    rows = [("workflow", "score", "95 % interval", "compliance", "contested", "share", "name")]
    for one in found:
        facts = _evaluated_json(setup, one, seed)
        low, high = facts["ci"]
        rows.append(
            (
                facts["workflow"],
                format_figures(facts["score"]),
                f"{format_figures(low)} to {format_figures(high)}",
                _share(facts["compliance"]),
                _share(facts["contested_compliance"]),
                _share(facts["contested_share"]),
                names.get(one.workflow_id, ""),
            )
        )
    return format_columns(rows)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _known(value: float) -> float | None:
    return None if value != value else value
