"""`brisk eval`: how well a run, or a simple player, plays on fresh games."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from briskrl.cli.eval_targets import load_agent, parse_args
from briskrl.cli.flags import Parser

if TYPE_CHECKING:
    from briskrl.training.evaluate import Agent, EvalResult

EPISODES = 100
"""Games played unless told otherwise."""

EXAMPLES = """\
examples:
  brisk eval runs/NAME
  brisk eval runs/NAME --episodes 1000 --seed 7 --json
  brisk eval snake                        the hand-written player, to compare with
  brisk eval snake --player random --height 20 --width 20
  brisk eval runs/NAME --suite cage2      an official evaluation of the environment

Games are played greedily, with seeds that training never saw."""


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """How to measure."""

    ALIASES: ClassVar[dict[str, str]] = {"policy": "player"}

    episodes: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    """Games to play: 100, or with --suite as many per cell as the suite prescribes."""
    seed: Annotated[int, Meta(ge=0)] = 0
    """Root of the games' seeds; equal seeds give equal games."""
    player: str = "auto"
    """Who plays an environment without a run: random, or a hand-written player such as heuristic;
    auto takes the best one there is."""
    suite: str | None = None
    """Run an official evaluation of the environment; `brisk envs ENV` names them."""


def run(argv: list[str]) -> int:
    """Measure and print."""
    parser = Parser("brisk eval", "Measure how well a run plays, on fresh games.", EXAMPLES)
    parser.usage = "brisk eval RUN|ENV [options]"
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parsed = parse_args(parser, argv, EvalOptions)
    options = parsed.options
    agent, name = load_agent(parsed, options.player, options.seed)
    if options.suite is not None:
        return _run_suite(agent, name, options, as_json=parsed.args.json)
    from briskrl.training.evaluate import evaluate_agent

    result = evaluate_agent(agent, episodes=options.episodes or EPISODES, seed=options.seed)
    if parsed.args.json:
        print(json.dumps(result.as_json(), allow_nan=False))
    else:
        print(f"{name} on {agent.env}: {result.episodes:,} games, seed {options.seed}")
        print(_told(result))
    return 0


def _run_suite(agent: Agent, name: str, options: EvalOptions, *, as_json: bool) -> int:
    from briskrl.training.evaluate import run_suite

    assert options.suite is not None
    report = run_suite(agent, options.suite, episodes=options.episodes, seed=options.seed)
    if as_json:
        print(json.dumps(report.as_json(), allow_nan=False))
    else:
        print(f"{name} on {agent.env}: suite {options.suite}, seed {options.seed}")
        print(report.as_text())
    return 0


def _told(result: EvalResult) -> str:
    return (
        f"  score   {result.mean_score:.2f} on average, {result.max_score:g} at best\n"
        f"  return  {result.mean_return:.2f} on average, spread {result.std_return:.2f}\n"
        f"  wins    {100 * result.win_rate:.1f}%\n"
        f"  steps   {result.mean_steps:.1f} a game"
    )
