"""`brisk eval`: evaluate the policy of a run, or a scripted player, on new episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from briskrl.cli.flags import Parser
from briskrl.cli.output import print_json
from briskrl.cli.targets import load_agent, parse_args

if TYPE_CHECKING:
    from briskrl.training.evaluate import Agent, EvalResult

EPISODES = 100
"""Default number of episodes."""

EXAMPLES = """\
examples:
  brisk eval runs/NAME
  brisk eval runs/NAME --episodes 1000 --seed 7 --json
  brisk eval snake                        the heuristic player, for comparison
  brisk eval snake --player random --height 20 --width 20
  brisk eval runs/NAME --suite cage2      an official evaluation of the environment

The policy acts greedily, with seeds that training never used."""


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """Options of `brisk eval`."""

    ALIASES: ClassVar[dict[str, str]] = {"policy": "player"}

    episodes: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    """Episodes to play: 100, or with --suite as many per cell as the suite prescribes."""
    seed: Annotated[int, Meta(ge=0)] = 0
    """Seed of the episodes; equal seeds give equal episodes."""
    player: str = "auto"
    """Player for an environment without a run: random, or a scripted player such as heuristic; auto
    uses the best available."""
    suite: str | None = None
    """Run an official evaluation of the environment; `brisk envs ENV` lists them."""


def run(argv: list[str]) -> int:
    """Evaluate and print the result."""
    parser = Parser(
        "brisk eval",
        "Evaluate the policy of a run, or a scripted player, on new episodes.",
        EXAMPLES,
    )
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
        print_json(result.as_json())
    else:
        print(f"{name} on {agent.env}: {result.episodes:,} episodes, seed {options.seed}")
        print(_format_result(result))
    return 0


def _run_suite(agent: Agent, name: str, options: EvalOptions, *, as_json: bool) -> int:
    from briskrl.training.evaluate import run_suite

    assert options.suite is not None
    report = run_suite(agent, options.suite, episodes=options.episodes, seed=options.seed)
    if as_json:
        print_json(report.as_json())
    else:
        print(f"{name} on {agent.env}: suite {options.suite}, seed {options.seed}")
        print(report.as_text())
    return 0


def _format_result(result: EvalResult) -> str:
    return (
        f"  score   {result.mean_score:.2f} on average, {result.max_score:g} at best\n"
        f"  return  {result.mean_return:.2f} on average, spread {result.std_return:.2f}\n"
        f"  wins    {100 * result.win_rate:.1f}%\n"
        f"  steps   {result.mean_steps:.1f} per episode"
    )
