"""`brisk envs`: list the environments and their options."""

from __future__ import annotations

from briskrl.cli.flags import Parser
from briskrl.cli.output import print_json
from briskrl.cli.tables import options
from briskrl.core.config import field_defaults
from briskrl.core.format import format_columns
from briskrl.envs.registry import ENVS
from briskrl.training.resolve import env_config_class

EXAMPLES = """\
examples:
  brisk envs
  brisk envs snake     every option of one environment"""


def run(argv: list[str]) -> int:
    """List the environments, or the options of one."""
    parser = Parser("brisk envs", "List the environments and their options.", EXAMPLES)
    parser.usage = "brisk envs [ENV] [--json]"
    parser.add_argument("ENV", nargs="?", help="show the options of this environment")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse(argv)
    names = [args.ENV] if args.ENV else list(ENVS)
    if args.json:
        print_json({name: _facts(name) for name in names})
    elif args.ENV:
        print(f"{args.ENV}: {ENVS.get(args.ENV).summary}\n")
        print(options(env_config_class(args.ENV)))
        family = ENVS.get(args.ENV)
        for label, names_of in (("players", family.players), ("suites", family.suites)):
            if names_of:
                print(f"\n{label}: {', '.join(names_of)}")
    else:
        print(format_columns([(name, ENVS.get(name).summary) for name in names], indent=""))
        print("\nTo list the options of one: brisk envs NAME. To train: brisk train NAME")
    return 0


def _facts(name: str) -> dict[str, object]:
    return {"summary": ENVS.get(name).summary, "options": field_defaults(env_config_class(name))}
