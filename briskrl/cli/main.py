"""The entry point of `brisk` and its command table; imports nothing heavy.

Every command is a module of this package with a function `run(argv: list[str]) -> int`. It gets the
arguments after the command's name, prints its result to standard output and returns the exit code.
The module is imported only when its command is called, and imports torch, numba or gymnasium only
after the arguments have been checked, so that help and error messages are instant. User errors are
raised as `BriskError`; `main` prints them as one paragraph on standard error and returns their exit
code. Any other exception is a bug and keeps its traceback, with exit code 1.
"""

from __future__ import annotations

import sys
from importlib import import_module

from briskrl.cli.output import StandardStreams
from briskrl.core.errors import BriskError, nearest
from briskrl.core.exit_watch import ExitWatch, StoppedError

COMMANDS = {
    "train": "train an agent",
    "resume": "continue a stopped run, bit-identical to one that never stopped",
    "sweep": "train with many settings or seeds, on a grid or with a search, and compare them",
    "workflow": "train policies that obey an order of incidents, and find the best order",
    "eval": "evaluate a trained policy on new episodes",
    "play": "show an episode in the terminal, or save it as a GIF",
    "export": "write the policy of a run as ONNX, TorchScript or a bundle",
    "runs": "list the run folders",
    "dash": "watch runs in the browser",
    "compare": "compare groups of runs: curves, final scores, time to a score",
    "plot": "draw curves of runs as PNG, SVG or PDF",
    "report": "write one page about a run or a sweep",
    "envs": "list the environments and their options",
    "algos": "list the algorithms and their options",
    "zoo": "list tuned settings per environment and algorithm, and reproduce them",
    "doctor": "find what makes training slow, and measure what would help",
    "tune": "find the settings that train fastest on this machine",
    "bench": "measure speed: env, train, engines, backends and more",
    "cluster": "start, stop or show a Ray cluster on this machine, to rehearse with",
}
"""Commands and their summaries, in the order of the help."""

EXAMPLES = """\
examples:
  brisk train snake                         train with the defaults
  brisk train snake --algo rainbow --help   every option of one combination
  brisk train snake --obs flood --algo rainbow --train-steps-ratio quality
  brisk eval runs/NAME --episodes 1000
  brisk play runs/NAME

`brisk COMMAND --help` explains a command. Exit codes: 0 success, 2 invalid arguments or settings,
1 any other error, 129, 130 or 143 stopped by a signal (a run in training has been saved), 141 a
reader of the output that has ended (a run in training continues)."""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code.

    Without `argv` this is the program itself: its arguments are those of the process, and signals
    end it within seconds.
    """
    with StandardStreams() as streams:
        return streams.exit_code(_run(argv))


def _run(argv: list[str] | None) -> int:
    try:
        if argv is not None:
            return _dispatch(argv)
        with ExitWatch():
            return _dispatch(sys.argv[1:])
    except BriskError as error:
        print(f"brisk: {error}", file=sys.stderr)
        return error.exit_code
    except StoppedError as stopped:
        print(f"brisk: {stopped}", file=sys.stderr)
        return stopped.exit_code
    except KeyboardInterrupt:
        print("brisk: interrupted", file=sys.stderr)
        return 130
    except SystemExit as left:
        # argparse leaves this way after printing a help text.
        return left.code if isinstance(left.code, int) else 0
    except UnicodeEncodeError as error:
        # Python cannot name a file with such characters in the C locale.
        if error.encoding == "utf-8":
            raise
        print(
            f"brisk: The locale cannot represent {error.object!r} ({error.encoding}). "
            "Set LC_ALL=C.UTF-8 or PYTHONUTF8=1.",
            file=sys.stderr,
        )
        return 2


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if arguments[0] in ("-V", "--version"):
        from briskrl import __version__

        print(f"brisk {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        kind = "option" if name.startswith("-") else "command"
        raise BriskError(f"Unknown {kind} {name!r}. {nearest(name, COMMANDS)}")
    run = import_module(f"briskrl.cli.{name}").run
    return int(run(rest))


def _help() -> str:
    width = max(map(len, COMMANDS)) + 2
    commands = "\n".join(f"  {name:<{width}}{summary}" for name, summary in COMMANDS.items())
    return (
        "usage: brisk COMMAND ...\n\n"
        "Fast reinforcement-learning training on CPUs.\n\n"
        f"commands:\n{commands}\n\n{EXAMPLES}"
    )
