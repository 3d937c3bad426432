"""`brisk bench env-share`: its words and its table."""

from __future__ import annotations

from briskrl.bench.config import ShareBench
from briskrl.cli.flags import Parser, add_flags
from briskrl.cli.tables import print_result
from briskrl.cli.train import parse_args
from briskrl.core.errors import ConfigError

HELP = """\
Whether an environment slows training down, at equal networks.

Trains on ENV, and in alternating slices on our compiled CartPole, made to look like ENV: its four
numbers are followed by zeros up to the same length of observations, its actions are folded from as
many, and if ENV has masks so has it. Networks, settings and engine are then really the same.

  ratio       steps per CPU second on ENV over those on CartPole, with a 95 % interval
  env_share   part of training that is spent stepping, on both sides

Every option of `brisk train` can be given except --run-dir; the algorithm is PPO unless --algo or a
--config file says otherwise."""

EXAMPLES = """\
examples:
  brisk bench env-share cage2
  brisk bench env-share cage2 --edition competition --red mixed --slices 25 --json
  brisk bench env-share --config configs/cage2_current.toml"""


def run(argv: list[str]) -> int:
    """Measure, and print a table or one JSON object."""
    if "-h" in argv or "--help" in argv:
        print(_parser().format_help())
        return 0
    flags = {word.partition("=")[0] for word in argv}
    for flag in sorted(flags & {"--run-dir", "--print-config"}):
        raise ConfigError(f"bench env-share keeps no run: leave out {flag}.")
    words = argv if flags & {"--config", "--algo"} else [*argv, "--algo", "ppo"]
    config, args = parse_args(words, prog="brisk bench env-share", own=ShareBench)
    bench: ShareBench = args.own
    from briskrl.bench.env_share import measure_share

    wait_s = 2 * (bench.slices + 1) * bench.seconds + 5
    return print_result(lambda: measure_share(config, bench), as_json=args.json, wait_s=wait_s)


def _parser() -> Parser:
    parser = Parser("brisk bench env-share", HELP, EXAMPLES)
    parser.usage = "brisk bench env-share ENV [options]"
    add_flags(parser, ShareBench)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser
