"""The command table of `brisk`; imports nothing heavy, so that help and mistakes answer at once.

Every command is one module of this package with one function, `run(argv: list[str]) -> int`: it
gets the words after its own name, writes its answer to standard output and returns the exit code.
It is imported only when called, and imports torch, numba or gymnasium only inside `run`, after the
words have been checked. User mistakes are raised as `BriskError`; `main` turns them into one
paragraph on standard error and their exit code. Anything else that escapes is a fault of ours and
keeps its traceback, with exit code 1. Parsers come from `briskrl.cli.flags.Parser`, which refuses
unknown flags with the nearest right one.
"""

from __future__ import annotations

import sys
from importlib import import_module

from briskrl.core.errors import BriskError, nearest

COMMANDS = {
    "train": "train an agent",
    "resume": "continue a stopped run where it was, bit for bit",
    "eval": "measure how well a run plays, on fresh games",
    "play": "watch a game in the terminal, or write it as a GIF",
    "runs": "list the run folders",
    "envs": "list the environments and their options",
    "algos": "list the algorithms and their options",
    "doctor": "find what makes training slow, and prove the cure",
    "tune": "find the settings that train fastest on this machine",
    "bench": "measure speed: env, train, legacy, peers",
}
"""Commands and what they do, in the order of the help."""

EXAMPLES = """\
examples:
  brisk train snake                         train with the defaults
  brisk train snake --algo rainbow --help   every option of one combination
  brisk train snake --obs flood --algo rainbow --train-steps-ratio quality
  brisk eval runs/NAME --episodes 1000
  brisk play runs/NAME

`brisk COMMAND --help` explains a command. Exit codes: 0 done, 2 your mistake (one paragraph says
which), 1 ours, 130 or 143 interrupted (training has been saved)."""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code; the arguments default to those of the process."""
    words = sys.argv[1:] if argv is None else argv
    try:
        return _dispatch(words)
    except BriskError as error:
        print(f"brisk: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("brisk: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away (`brisk runs | head`); Python would complain again at exit.
        sys.stderr.close()
        return 141


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if words[0] in ("-V", "--version"):
        from briskrl import __version__

        print(f"brisk {__version__}")
        return 0
    name, rest = words[0], words[1:]
    if name not in COMMANDS:
        kind = "option" if name.startswith("-") else "command"
        raise BriskError(f"Unknown {kind} {name!r}. {nearest(name, COMMANDS)}")
    run = import_module(f"briskrl.cli.{name}").run
    return int(run(rest))


def _help() -> str:
    commands = "\n".join(f"  {name:<8}{summary}" for name, summary in COMMANDS.items())
    return (
        "usage: brisk COMMAND ...\n\n"
        "Reinforcement-learning training at the speed the machine allows.\n\n"
        f"commands:\n{commands}\n\n{EXAMPLES}"
    )
