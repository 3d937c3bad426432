"""`brisk tune`: the fastest settings for this machine, proven, as a config file."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from briskrl.cli.flags import Parser, add_flags, show
from briskrl.cli.progress import command_name
from briskrl.cli.train import parse_args
from briskrl.core.config import to_toml
from briskrl.core.config_file import PARSERS
from briskrl.core.errors import ConfigError
from briskrl.core.format import format_columns, format_count, format_duration
from briskrl.tuning.config import TuneConfig

if TYPE_CHECKING:
    from briskrl.tuning.run import Outcome
    from briskrl.tuning.search import Progress

HELP = """\
Find the settings that train fastest on this machine, prove it, and write them to a file.

TARGET is an environment, a config file or a run folder; every option of `brisk train` can follow,
and says where tuning starts. Short slices of real training are compared in turns, the best by a
final head-to-head of fresh slices against the start. Only if the 95 % interval of that ratio lies
above 1 are the settings changed; else the file holds the start's.

What is learnt does not change: updates per transition, batches, networks and schedules stay.
  engine, threads, backend   who computes; runs differ as with another seed. A run with the async
                             backend cannot be repeated to the bit
  num_envs, overlap          how old the policy is that collects. With a replay memory: num_envs at
                             most 1/8 of the target network's period, 1/64 of the memory and 1/4 of
                             learning_starts, in transitions. Policy gradients: num_envs times
                             update_steps stays, and with it rollouts and minibatches; update_steps
                             stays above the horizon of the advantages, 1 / (1 - gamma lambda)
--keep leaves settings alone; --also tunes settings that do change what is learnt.

Winners are remembered per machine: the next time they only have to win the head-to-head."""

EXAMPLES = """\
examples:
  brisk tune snake
  brisk tune snake --algo rainbow --budget 60 --keep num_envs,overlap
  brisk tune gym:CartPole-v1 --algo ppo --num-envs 64 --objective cpu
  brisk tune runs/NAME --out faster.toml
  brisk train --config tuned-snake-dqn.toml"""

ROW_SECONDS = 5.0


def run(argv: list[str]) -> int:
    """Tune, write the config, and tell what came out."""
    if not argv or "-h" in argv or "--help" in argv:
        print(_parser().format_help())
        return 0
    config, args = parse_args(_with_file(argv), prog="brisk tune", own=TuneConfig)
    settings: TuneConfig = args.own
    if args.print_config:
        raise ConfigError("brisk tune prints what it finds: leave out --print-config.")
    # Settings of a run name its folder, which the next run cannot have.
    config = replace(config, run_dir=None)
    path = Path(settings.out or _default_name(config.env, config.algo))
    _check_writable(path, settings.force)
    from briskrl.training.signals import StopRequest
    from briskrl.tuning.run import tune

    show_progress = _reporter(sys.stderr)
    try:
        with StopRequest() as request:
            outcome = tune(
                config,
                settings,
                stop=lambda: request.requested is not None,
                tell=show_progress,
            )
    finally:
        show_progress.close()
    _write(path, outcome, argv)
    told = as_json(outcome, settings, path) if args.json else report(outcome, settings, path)
    print(told, flush=True)
    return {"sigint": 130, "sigterm": 143, None: 0}[request.requested]


def report(outcome: Outcome, settings: TuneConfig, path: Path) -> str:
    """What was found, for people."""
    from briskrl.tuning.space import KINDS

    lines = [_verdict(outcome, settings)]
    if outcome.is_proven:
        rows = [("setting", "start", "tuned", "changes besides speed")]
        rows += [
            (axis, show(outcome.start[axis]), show(outcome.best[axis]), KINDS[axis])
            for axis in outcome.best.differs_in(outcome.start)
        ]
        lines.append(format_columns(rows))
        lines += _rollout_note(outcome)
    if outcome.remembered:
        lines.append(f"Found before, {outcome.remembered}; --fresh searches anew.")
    else:
        tried = len(outcome.findings.gains)
        lines.append(
            f"Tried {tried} of {outcome.points} points in {format_duration(outcome.seconds)}."
        )
    lines += [f"Skipped {point}: {why}" for point, why in outcome.findings.skipped.items()]
    changed = "tuned settings" if outcome.is_proven else "settings, unchanged,"
    lines.append(f"The {changed} are in {path}:")
    lines.append(f"  {command_name()} train --config {shlex.quote(str(path))}")
    return "\n".join(lines)


def as_json(outcome: Outcome, settings: TuneConfig, path: Path) -> str:
    """What was found, as one JSON object."""
    gain = outcome.gain
    known = None if gain is None else asdict(gain)
    if known is not None and not known["high"] < float("inf"):
        known |= {"low": None, "high": None}
    findings = outcome.findings
    values: dict[str, Any] = {
        "proven": outcome.is_proven,
        "objective": settings.objective,
        "gain": known,
        "start": outcome.start.as_dict(),
        "best": outcome.best.as_dict(),
        "start_rate": outcome.start_rate,
        "best_rate": outcome.best_rate,
        "tried": [
            {**point.as_dict(), "gain": ratio, "rate": findings.rates[point]}
            for point, ratio in findings.gains.items()
        ],
        "skipped": [{**point.as_dict(), "why": why} for point, why in findings.skipped.items()],
        "points": outcome.points,
        "remembered": outcome.remembered,
        "interrupted": outcome.interrupted,
        "seconds": outcome.seconds,
        "out": str(path),
    }
    return json.dumps(values, allow_nan=False)


def _verdict(outcome: Outcome, settings: TuneConfig) -> str:
    unit = "steps/s" if settings.objective == "wall" else "steps per CPU second"
    gain = outcome.gain
    if outcome.best == outcome.start and len(outcome.findings.gains) < 2:
        why = "Interrupted" if outcome.interrupted else "The budget was over"
        return f"{why} before anything else than the start was measured."
    if outcome.best == outcome.start:
        return "Nothing wins: no other settings were faster than the start's beyond a near tie."
    if gain is None or outcome.start_rate is None or outcome.best_rate is None:
        return f"Interrupted before a proof. Fastest so far, unproven: {outcome.best}."
    told = f"{gain.ratio:.2f} times as fast, 95 % interval {gain.low:.2f} to {gain.high:.2f}"
    pairs = f"{gain.pairs} pairs of fresh slices"
    if not outcome.is_proven:
        return (
            f"Nothing wins: the best found ({outcome.best}) is {told}, {pairs}. That may be chance."
        )
    rates = f"{format_count(outcome.start_rate)} to {format_count(outcome.best_rate)} {unit}"
    return f"{told} ({rates}, {pairs})."


def _rollout_note(outcome: Outcome) -> list[str]:
    """Say what went along with the number of environments."""
    steps = getattr(outcome.config.algo_config, "update_steps", None)
    if steps is None or "num_envs" not in outcome.best.differs_in(outcome.start):
        return []
    return [f"  update_steps is {steps} now, so that rollouts are as large as before."]


def _with_file(argv: list[str]) -> list[str]:
    """The words with a TARGET that is a file or a run folder turned into --config."""
    target = Path(argv[0])
    if argv[0].startswith("-"):
        return argv
    if target.is_dir() and (target / "config.toml").is_file():
        return ["--config", str(target / "config.toml"), *argv[1:]]
    return ["--config", *argv] if target.suffix.lower() in PARSERS else argv


def _default_name(env: str, algo: str) -> str:
    return "tuned-" + re.sub(r"[^A-Za-z0-9.]+", "-", f"{env}-{algo}") + ".toml"


def _check_writable(path: Path, force: bool) -> None:
    """Refuse a file that could not be written, before minutes are spent on it."""
    if path.suffix != ".toml":
        raise ConfigError(f"Settings are written as TOML: {path} must end in .toml.")
    if path.exists() and (path.is_dir() or not force):
        raise ConfigError(f"{path} exists. Use --force to replace it, or name another with --out.")
    if not path.parent.is_dir():
        raise ConfigError(f"Cannot write {path}: there is no folder {path.parent}.")


def _write(path: Path, outcome: Outcome, argv: list[str]) -> None:
    gain = outcome.gain
    came = f"# Made by: brisk tune {shlex.join(argv)}\n"
    if gain is not None and outcome.is_proven:
        came += f"# {gain.ratio:.2f} times as fast as its start here ({gain.low:.2f} to "
        came += f"{gain.high:.2f}): {outcome.best}\n"
    else:
        came += "# Nothing was proven to be faster: these are the settings it started from.\n"
    try:
        path.write_text(came + to_toml(outcome.config), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}.") from None


def _parser() -> Parser:
    parser = Parser("brisk tune", HELP, EXAMPLES)
    parser.usage = "brisk tune TARGET [options of brisk train] [options]"
    add_flags(parser, TuneConfig)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _reporter(stream: TextIO) -> _Lines | _Bar:
    """A bar on a terminal, a line every few seconds elsewhere."""
    if stream.isatty() and os.environ.get("TERM", "") != "dumb":
        return _Bar(stream)
    return _Lines(stream)


class _Lines:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = -float("inf")
        self._stage = ""

    def __call__(self, progress: Progress) -> None:
        due = time.monotonic() - self._last >= ROW_SECONDS
        if due or progress.stage != self._stage:
            self._last, self._stage = time.monotonic(), progress.stage
            done = 100 * progress.fraction
            print(f"{done:3.0f}%  {_describe(progress)}", file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing to give back."""


class _Bar:
    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            console=Console(file=stream, highlight=False),
            transient=True,
        )
        self._task = self._bar.add_task("building and compiling", total=1.0)
        self._bar.start()

    def __call__(self, progress: Progress) -> None:
        self._bar.update(
            self._task, completed=progress.fraction, description=_describe(progress), refresh=True
        )

    def close(self) -> None:
        self._bar.stop()


def _describe(progress: Progress) -> str:
    tried = f"{progress.tried} of {progress.points} tried"
    return f"{progress.stage}, {tried}, best {progress.gain:.2f}x: {progress.best}"
