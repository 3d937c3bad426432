"""`brisk zoo`: list the tuned settings of the package, and reproduce them."""

from __future__ import annotations

from typing import Any

from briskrl.cli.flags import Parser
from briskrl.cli.output import print_json
from briskrl.core.errors import ConfigError
from briskrl.core.format import format_columns
from briskrl.zoo import RECIPES, ZooEntry, find_entry, zoo_entries

EXAMPLES = """\
examples:
  brisk zoo                              every entry, with its measured score
  brisk zoo cartpole/pqn                 its settings
  brisk zoo check cartpole/pqn           train it on fresh seeds and compare the scores
  brisk train cartpole --algo pqn        uses them
  brisk train cartpole --algo pqn --no-zoo"""

_UNMEASURED = "-"


def run(argv: list[str]) -> int:
    """List the entries, show one, or check one."""
    if argv[:1] == ["check"]:
        return _check(argv[1:])
    parser = Parser("brisk zoo", "Tuned settings per environment and algorithm.", EXAMPLES)
    parser.usage = "brisk zoo [NAME] [--json]\n       brisk zoo check NAME [--seeds N] [--json]"
    parser.add_argument("NAME", nargs="?", help="show the settings of this entry")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse(argv)
    entries = list(zoo_entries()) if args.NAME is None else [find_entry(args.NAME)]
    if args.json:
        print_json({entry.name: _facts(entry) for entry in entries})
    elif args.NAME is not None:
        print(f"{entries[0].name}: {entries[0].describe()}\n\n{entries[0].command}")
    else:
        head = ("entry", "score", "steps", "CPU s", "seeds reached", "command")
        print(format_columns([head, *(_row(entry) for entry in entries)], ""))
        recipes = ", ".join(sorted(file.stem for file in RECIPES.iterdir()))
        print(f"\nrecipes (brisk train --config zoo:NAME): {recipes}")
    return 0


def _row(entry: ZooEntry) -> tuple[str, ...]:
    measured = entry.measured
    score = measured.get("score")
    return (
        entry.name,
        _UNMEASURED if score is None else f"{score:g}",
        f"{entry.run['steps']:,}" if "steps" in entry.run else _UNMEASURED,
        f"{measured['cpu_s']:g}" if "cpu_s" in measured else _UNMEASURED,
        f"{measured['reached']} of {measured['seeds']}" if measured else _UNMEASURED,
        entry.command,
    )


def _facts(entry: ZooEntry) -> dict[str, Any]:
    return {
        "env": entry.env,
        "algo": entry.algo,
        "settings": {
            **entry.run,
            "env_config": entry.env_config,
            "algo_config": entry.algo_config,
        },
        "measured": entry.measured,
        "command": entry.command,
    }


def _check(argv: list[str]) -> int:
    """Train an entry on fresh seeds; 0 if at least four of five seeds reach its bar."""
    parser = Parser(
        "brisk zoo check",
        "Train an entry of the zoo on fresh seeds and compare the scores with its bar. The exit "
        "code is 0 if at least four of five seeds reach it.",
        EXAMPLES,
    )
    parser.usage = "brisk zoo check NAME [--seeds N] [--first-seed SEED] [--json]"
    parser.add_argument("NAME", help="the entry, for example cartpole/pqn")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default 5)")
    parser.add_argument(
        "--first-seed", type=int, default=1000, help="the first of the seeds (default 1000)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse(argv)
    entry = find_entry(args.NAME)
    if "bar" not in entry.measured:
        raise ConfigError(
            f"The entry {entry.name} was not measured against a bar, so there is nothing to check."
        )
    if args.seeds < 1:
        raise ConfigError(f"--seeds must be 1 or more, not {args.seeds}.")
    return _compare(entry, range(args.first_seed, args.first_seed + args.seeds), as_json=args.json)


def _compare(entry: ZooEntry, seeds: range, *, as_json: bool) -> int:
    """Train every seed, print its score, and return the exit code."""
    from statistics import fmean

    bar = float(entry.measured["bar"])
    scores, cpu_s = [], []
    for seed in seeds:
        score, seconds = _train_and_play(entry, seed)
        scores.append(score)
        cpu_s.append(seconds)
        if not as_json:
            verdict = "reaches" if score >= bar else "misses"
            print(
                f"seed {seed}: score {score:.2f} {verdict} {bar:g}, {seconds:.1f} CPU s", flush=True
            )
    reached = sum(score >= bar for score in scores)
    passed = 5 * reached >= 4 * len(scores)
    if as_json:
        runs = {"seeds": list(seeds), "scores": scores, "cpu_s": cpu_s}
        print_json({"entry": entry.name, "bar": bar, "reached": reached, "passed": passed, **runs})
    else:
        counted = f"{entry.name}: {reached} of {len(scores)} seeds reach {bar:g}"
        print(f"{counted}; mean {fmean(scores):.2f}, measured {entry.measured['score']:g}")
    return 0 if passed else 1


def _train_and_play(entry: ZooEntry, seed: int) -> tuple[float, float]:
    """The score of a fresh run without exploration, and the CPU seconds of its training."""
    from tempfile import TemporaryDirectory

    from briskrl.training.config import TrainConfig
    from briskrl.training.evaluate import evaluate
    from briskrl.training.loop import train

    with TemporaryDirectory(prefix="brisk-zoo-") as folder:
        run_dir = f"{folder}/run"
        config = TrainConfig(env=entry.env, algo=entry.algo, seed=seed, run_dir=run_dir)
        result = train(config)
        games = int(entry.measured.get("games", 100))
        return evaluate(run_dir, episodes=games, seed=10_000 + seed).mean_score, result.cpu_s
