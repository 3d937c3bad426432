"""`brisk tune`: find the fastest settings for this machine and write them to a config file."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from briskrl.cli.flags import Parser, add_flags
from briskrl.cli.output import drawing, optional, print_json, terminal_environ
from briskrl.cli.progress import command_name
from briskrl.cli.run_command import EXIT_CODES
from briskrl.cli.train import parse_args
from briskrl.core.config import to_toml
from briskrl.core.config_file import PARSERS
from briskrl.core.errors import ConfigError
from briskrl.core.format import (
    escape_controls,
    format_columns,
    format_count,
    format_duration,
)
from briskrl.core.text_values import show
from briskrl.tuning.config import TuneConfig
from briskrl.zoo import PREFIX

if TYPE_CHECKING:
    from briskrl.tuning.run import Outcome
    from briskrl.tuning.search import Progress

HELP = """\
Find the settings that train fastest on this machine and write them to a config file.

TARGET is an environment, a config file or a run folder, followed by any option of `brisk train`;
these are the settings to start from. Short slices of real training are compared in turns. Finally
the best settings are compared with the start in new slices. The settings are changed only if the
95 % interval of that ratio lies above 1; otherwise the file contains the start.

Learning does not change: updates per transition, batches, networks and schedules stay the same.
  engine, threads, backend   do not change the algorithm; runs differ as with another seed. Runs
                             with the async backend are not reproducible to the bit
  num_envs, overlap          change the age of the policy that collects. With a replay buffer,
                             num_envs is at most 1/8 of the target network's period, 1/64 of the
                             buffer and 1/4 of learning_starts, in transitions. For PPO and A2C,
                             num_envs times update_steps is constant, and so are rollouts and
                             minibatches; update_steps stays above the horizon of GAE,
                             1 / (1 - gamma lambda)
--keep leaves settings unchanged; --also tunes settings that do change learning.

Results are remembered per machine: the next time they are only compared with the start."""

EXAMPLES = """\
examples:
  brisk tune snake
  brisk tune snake --algo rainbow --budget 60 --keep num_envs,overlap
  brisk tune gym:CartPole-v1 --algo ppo --num-envs 64 --objective cpu
  brisk tune runs/NAME --out faster.toml
  brisk train --config tuned-snake-dqn.toml"""

ROW_SECONDS = 5.0


def run(argv: list[str]) -> int:
    """Tune, write the config, and print the result."""
    if not argv or "-h" in argv or "--help" in argv:
        print(_parser().format_help())
        return 0
    config, args = parse_args(_with_file(argv), prog="brisk tune", own=TuneConfig)
    settings: TuneConfig = args.own
    if args.print_config:
        raise ConfigError("--print-config belongs to brisk train.")
    # The config of a run contains its folder, which another run cannot use.
    config = replace(config, run_dir=None)
    path = Path(settings.out or _default_name(config.env, config.algo))
    _check_writable(path, settings.force)
    from briskrl.training.hooks import StopRequest
    from briskrl.tuning.run import tune

    show_progress = _reporter(optional(sys.stderr))
    try:
        with StopRequest() as request:
            outcome = tune(
                config,
                settings,
                stop=lambda: request.requested is not None,
                progress=show_progress,
            )
    finally:
        show_progress.close()
    _write(path, outcome, argv)
    if args.json:
        print_json(as_json(outcome, settings, path))
    else:
        print(report(outcome, settings, path), flush=True)
    return EXIT_CODES[request.requested or "finished"]


def report(outcome: Outcome, settings: TuneConfig, path: Path) -> str:
    """The result as text."""
    from briskrl.tuning.space import KINDS

    lines = [_verdict(outcome, settings)]
    if outcome.is_proven:
        rows = [("setting", "start", "tuned", "effect besides speed")]
        rows += [
            (axis, show(outcome.start[axis]), show(outcome.best[axis]), KINDS[axis])
            for axis in outcome.best.changed_axes(outcome.start)
        ]
        lines.append(format_columns(rows))
        lines += _rollout_note(outcome)
    if outcome.remembered:
        lines.append(f"Cached result of {outcome.remembered}; use --fresh to search again.")
    else:
        tried = len(outcome.findings.gains)
        lines.append(
            f"Tried {tried} of {outcome.points} points in {format_duration(outcome.seconds)}."
        )
    lines += [f"Skipped {point}: {why}" for point, why in outcome.findings.skipped.items()]
    changed = "tuned settings" if outcome.is_proven else "unchanged settings"
    lines.append(f"The {changed} are in {path}:")
    lines.append(f"  {command_name()} train --config {shlex.quote(str(path))}")
    return "\n".join(lines)


def as_json(outcome: Outcome, settings: TuneConfig, path: Path) -> dict[str, Any]:
    """The result as one JSON object."""
    gain = outcome.gain
    known = None if gain is None else asdict(gain)
    if known is not None and not known["high"] < float("inf"):
        known |= {"low": None, "high": None}
    findings = outcome.findings
    return {
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


def _verdict(outcome: Outcome, settings: TuneConfig) -> str:
    unit = "steps/s" if settings.objective == "wall" else "steps per CPU second"
    gain = outcome.gain
    if outcome.best == outcome.start and len(outcome.findings.gains) < 2:
        why = "Interrupted" if outcome.interrupted else "The budget ended"
        return f"{why} before anything but the start was measured."
    if outcome.best == outcome.start:
        return "No settings are clearly faster than the start."
    if gain is None or outcome.start_rate is None or outcome.best_rate is None:
        return f"Interrupted before the final comparison. Fastest so far, unproven: {outcome.best}."
    text = f"{gain.ratio:.2f} times as fast, 95 % interval {gain.low:.2f} to {gain.high:.2f}"
    pairs = f"{gain.pairs} pairs of new slices"
    if not outcome.is_proven:
        return (
            f"No settings are clearly faster than the start: the best ({outcome.best}) is {text}, "
            f"{pairs}, which is within measurement noise."
        )
    rates = f"{format_count(outcome.start_rate)} to {format_count(outcome.best_rate)} {unit}"
    return f"{text} ({rates}, {pairs})."


def _rollout_note(outcome: Outcome) -> list[str]:
    """Mention the setting that changed with the number of environments."""
    from briskrl.algos.ppo.config import PPOConfig

    algo = outcome.config.algo_config
    if not isinstance(algo, PPOConfig) or outcome.best["num_envs"] == outcome.start["num_envs"]:
        return []
    return [f"  update_steps is {algo.update_steps}, so that rollouts keep their size."]


def _with_file(argv: list[str]) -> list[str]:
    """The arguments with a TARGET that is a file or a run folder replaced by --config."""
    target = Path(argv[0])
    if argv[0].startswith("-"):
        return argv
    if target.is_dir() and (target / "config.toml").is_file():
        return ["--config", str(target / "config.toml"), *argv[1:]]
    is_file = target.suffix.lower() in PARSERS or argv[0].startswith(PREFIX)
    return ["--config", *argv] if is_file else argv


def _default_name(env: str, algo: str) -> str:
    return "tuned-" + re.sub(r"[^A-Za-z0-9.]+", "-", f"{env}-{algo}") + ".toml"


def _check_writable(path: Path, force: bool) -> None:
    """Refuse a file that could not be written, before the search starts."""
    if path.suffix != ".toml":
        raise ConfigError(f"Settings are written as TOML: {path} must end in .toml.")
    if path.exists() and (path.is_dir() or not force):
        raise ConfigError(f"{path} exists. Use --force to replace it, or name another with --out.")
    if not path.parent.is_dir():
        raise ConfigError(f"Cannot write {path}: there is no folder {path.parent}.")


def _write(path: Path, outcome: Outcome, argv: list[str]) -> None:
    gain = outcome.gain
    header = f"# Made by: brisk tune {escape_controls(shlex.join(argv))}\n"
    if gain is not None and outcome.is_proven:
        header += (
            f"# {gain.ratio:.2f} times as fast as its start on this machine ({gain.low:.2f} to "
        )
        header += f"{gain.high:.2f}): {outcome.best}\n"
    else:
        header += "# Nothing was clearly faster: these are the settings of the start.\n"
    try:
        path.write_text(header + to_toml(outcome.config), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}.") from None


def _parser() -> Parser:
    parser = Parser("brisk tune", HELP, EXAMPLES)
    parser.usage = "brisk tune TARGET [options of brisk train] [options]"
    add_flags(parser, TuneConfig)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _reporter(stream: TextIO) -> _Lines | _Bar:
    """A progress bar on a terminal, a line every few seconds elsewhere."""
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
        """Nothing to release."""


class _Bar:
    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            BarColumn(bar_width=24),
            TextColumn("{task.description}", markup=False),
            console=Console(file=drawing(stream), highlight=False, _environ=terminal_environ()),
            transient=True,
        )
        self._task = self._bar.add_task("building and compiling", total=1.0)
        self._bar.start()

    def __call__(self, progress: Progress) -> None:
        self._bar.update(
            self._task,
            completed=progress.fraction,
            description=escape_controls(_describe(progress)),
            refresh=True,
        )

    def close(self) -> None:
        self._bar.stop()


def _describe(progress: Progress) -> str:
    tried = f"{progress.tried} of {progress.points} tried"
    return f"{progress.stage}, {tried}, best {progress.gain:.2f}x: {progress.best}"
