"""`brisk algos`: list the algorithms, their presets and their options."""

from __future__ import annotations

from collections.abc import Mapping

from briskrl.algos.registry import ALGOS
from briskrl.cli.flags import Parser
from briskrl.cli.output import print_json
from briskrl.cli.tables import options
from briskrl.core.config import field_defaults
from briskrl.core.format import format_columns
from briskrl.core.text_values import show
from briskrl.training.resolve import algo_config_class

EXAMPLES = """\
examples:
  brisk algos
  brisk algos rainbow     every option of one algorithm, with its preset"""


def run(argv: list[str]) -> int:
    """List the algorithms, or the options of one."""
    parser = Parser("brisk algos", "List the algorithms and their options.", EXAMPLES)
    parser.usage = "brisk algos [ALGO] [--json]"
    parser.add_argument("ALGO", nargs="?", help="show the options of this algorithm")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse(argv)
    names = [args.ALGO] if args.ALGO else list(ALGOS)
    if args.json:
        print_json({name: _facts(name) for name in names})
    elif args.ALGO:
        entry = ALGOS.get(args.ALGO)
        print(f"{args.ALGO}: {entry.summary}\n")
        print(options(algo_config_class(args.ALGO), entry.preset))
        if in_python := entry.python_run_preset | entry.python_preset:
            print(f"\nOn environments stepped in Python, such as gym:ID: {_written(in_python)}")
    else:
        print(
            format_columns([(name, ALGOS.get(name).summary, _preset(name)) for name in names], "")
        )
        print(
            "\nTo list the options of one: brisk algos NAME. To train: brisk train ENV --algo NAME"
        )
    return 0


def _preset(name: str) -> str:
    return _written(ALGOS.get(name).preset)


def _written(values: Mapping[str, object]) -> str:
    return "  ".join(f"{key}={show(value)}" for key, value in values.items())


def _facts(name: str) -> dict[str, object]:
    entry = ALGOS.get(name)
    defaults = field_defaults(algo_config_class(name))
    return {
        "summary": entry.summary,
        "preset": entry.preset,
        "preset_in_python": entry.python_run_preset | entry.python_preset,
        "options": defaults | entry.preset,
    }
