"""`brisk bench`: what is measured, how, and the figures as a table or one JSON object."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from briskrl.bench.config import (
    BackendsBench,
    EnginesBench,
    EnvBench,
    LegacyBench,
    MachineBench,
    PeersBench,
    RolloutBench,
    WildfireBench,
)
from briskrl.cli.flags import Parser, add_flags, flag_layer, flag_name
from briskrl.cli.tables import print_result
from briskrl.core.config import build, field_hints
from briskrl.core.errors import BriskError, ConfigError, nearest
from briskrl.core.format import columns
from briskrl.core.registry import load_from_checkout
from briskrl.training.resolve import env_config_class

TRAIN_STEPS = 2_000_000
"""Long enough for costs that grow with time to show."""

COMMANDS = {
    "env": "steps per second of the environment alone",
    "train": "the whole training loop: speed, phases, steadiness, memory",
    "legacy": "ours against the slow path the project comes from",
    "peers": "ours against Stable-Baselines3, SBX, JAX, PufferLib, Sample Factory...",
    "rollout": "collecting a rollout against acting and stepping alone",
    "backends": "worker processes for Gymnasium environments against Gymnasium's own",
    "env-share": "whether an environment slows training down, at equal networks",
    "engines": "the fused engine against torch, and two threads against one",
    "ratio": "what each preset of --train-steps-ratio costs, and what it buys",
    "machine": "what this machine can do, for runs to be compared with",
}

OVERVIEW = """\
examples:
  brisk bench env snake --obs flood
  brisk bench train snake --steps 5e5
  brisk bench legacy --json
  brisk bench peers

Compare CPU seconds, not wall seconds: they change little with whatever else the machine does.
`brisk bench COMMAND --help` explains what is measured. benchmarks/README.md tells the methods."""

ENV_HELP = """\
Steps per second of the environment alone, one thread unless asked otherwise.

A safe heuristic plays first, so that snakes are of the lengths met in practice; then a stretch of
its moves is recorded, and replayed from the same state until the time is up. Only stepping is
timed, not the heuristic. Every replay must end like the recording, or the benchmark fails. In other
games of ours the best hand-written player plays, with half of its moves at random, unless --player
says otherwise, and every option of the environment can be given; --obs, --height and --width are
Snake's."""

ENV_EXAMPLES = """\
examples:
  brisk bench env snake
  brisk bench env snake --obs grid --seconds 5
  brisk bench env cartpole --num-envs 1024
  brisk bench env cage2 --red meander --player random
  brisk bench env wildfire --size 40      has figures and options of its own
  brisk bench env snake --obs flood --num-envs 4096 --threads 2 --json"""

WILDFIRE_HELP = """\
Fires and steps per CPU second on made-up landscapes: five fuels, 20 km/h wind, 12 hours.

  fires_per_cpu_s          single fires without breaks, one thread
  mean_burned_cells        how large they get
  steps_per_cpu_s          steps of episodes that are measured with 32 fires each
  untreated_drift_sigma    how far losses without breaks changed over the run, in standard errors

The benchmark fails if untreated losses drift beyond sampling error: faster because the fires got
smaller is not faster."""

WILDFIRE_EXAMPLES = """\
examples:
  brisk bench env wildfire
  brisk bench env wildfire --size 100 --seconds 10 --json"""

TRAIN_HELP = f"""\
usage: brisk bench train ENV [options of brisk train] [--json]

The whole training loop, as `brisk train` runs it, in a folder that is removed afterwards.

  steps_per_cpu_s   transitions per CPU second, warm-up apart
  early_ratio       speed of the first five episodes per game after learning has begun, over the
                    speed of the rest: 1 means full speed from the first episode
  late_cost_ratio   CPU per step in the last fifth over that in the second: 1 means no slowing down
  *_single_pass     the same two ratios within the one run, moments apart, with the machine's unrest
  steady_spread     how far such a ratio moves in the rest of the run, by that unrest alone
  machine_fraction  achieved_gflops (the networks' arithmetic per CPU second) over machine_gflops,
                    the best that one thread of this machine can do: see brisk bench machine
  rss_growth_mb     memory growth from the end of warm-up to the end
  phases            where the time went

Early and late are compared with the run itself, turn by turn on one core: other processes train the
same settings and seed, and are where the run was when they take turns with it.

Every option of `brisk train` can be given (brisk train ENV --help lists them) except --run-dir.
Without --steps or a --config file, {TRAIN_STEPS:,} steps are trained.

examples:
  brisk bench train snake
  brisk bench train snake --algo rainbow --obs flood --steps 5e5
  brisk bench train snake --train-steps-ratio quality --seed 1 --json"""

LEGACY_HELP = """\
Ours against the slow path the project comes from, re-created on the same task.

  push_speedup    storing one transition of each game: a Python loop with two array copies and
                  three .item() calls each, against one batched write
  flood_speedup   reachable space of each game: a search with a Python queue per direction, against
                  our whole compiled step (rules, rewards and features included)
  loop_speedup    training steps per CPU second: num_envs // 4 updates per vector step, pushes one
                  by one, a print and a flushed CSV row per episode, against ours by default

Both sides take turns in one process; figures are medians over the turns, by CPU time."""

LEGACY_EXAMPLES = """\
examples:
  brisk bench legacy
  brisk bench legacy --slices 25 --json"""

PEERS_HELP = """\
Ours against other libraries on the same tasks, one thread each.

DQN on our Snake against Stable-Baselines3: same game, network (128x128), batch (64), updates per
transition (1 in 32), memory and schedules. Its figures stand at the top level.

PPO on CartPole-v1 against Stable-Baselines3, and against SBX if it is installed: same network
(64x64 tanh, apart for policy and values), epochs (4), loss and optimizer, environments in process.
  ppo.equal      64 environments x 32 steps, minibatches of 256, both sides
  ppo.cleanrl    CleanRL's settings: 4 environments x 128 steps, minibatches of 128, both sides
  ppo.defaults   ours as it comes (1024 x 32, minibatches of 4096, and the backend that auto takes,
                 which is compiled code equal to Gymnasium's) against 64 x 32 and 256
  ppo.vector     the same with --backend vector: CartPole in the version that Gymnasium itself
                 steps in one call

The sides take turns in one process; figures are medians over the turns, by CPU time. PPO's turns
are whole rollouts with the learning from them. Needs the peers extra: pip install "briskrl[peers]".

Whole loops: PPO on CartPole with 1024 environments x 32 steps and minibatches of 4096 on all sides,
each with the CartPole and in the process that suits it best: ours compiled, against JAX with game
and learning in one compiled program, PufferLib, Sample Factory and Tianshou. Steps: 1024 games of
CartPole without learning, against EnvPool. Each library is measured in the Python that has it,
which is given with --peer-python, or in BRISK_PEER_PYTHON as NAME=PATH,... (jax, pufferlib,
sample-factory, tianshou, envpool).
  whole.cpu_ratio      steps per CPU second, ours over each peer's
  whole.wall_ratio     steps per second likewise; use --threads 2 and an idle machine
  stepping.cpu_ratio   the same for steps alone"""

PEERS_EXAMPLES = """\
examples:
  brisk bench peers
  brisk bench peers --only ppo
  brisk bench peers --only whole --peer-python jax=/path/to/venv/bin/python
  brisk bench peers --only step --peer-python envpool=/path/to/venv/bin/python
  brisk bench peers --slices 25 --json"""

ROLLOUT_HELP = """\
Collecting a rollout of Snake (flood observations) with PPO's policy, as training does it, against
the calls it cannot do without: acting on the same observations, and stepping the same games with
the same actions.

  rollout_cost_ratio   CPU of collecting over CPU of acting alone plus stepping alone

The three take turns, rollout by rollout, from the same state, and must come to the same actions
and observations, or the benchmark fails."""

ROLLOUT_EXAMPLES = """\
examples:
  brisk bench rollout
  brisk bench rollout --num-envs 4096 --slices 25 --json"""

BACKENDS_HELP = """\
Gymnasium environments in our worker processes, in Gymnasium's and in none.

  cheap_vs_async_vector_env   CartPole: the process backend over Gymnasium's AsyncVectorEnv
  busy_vs_async_vector_env    2 ms of Python per step: likewise
  busy_vs_sync                2 ms of Python per step: the process backend over the sync one
  first_ready_vs_barrier      steps that sleep 1 ms, one in ten 10 ms: going on with half of the
                              environments over waiting for all, with as many workers

The sides take turns in one run; figures are medians over the turns, by wall time, because they are
about waiting. Measure on an idle machine."""

BACKENDS_EXAMPLES = """\
examples:
  brisk bench backends
  brisk bench backends --num-envs 64 --slices 25 --json"""

ENGINES_HELP = """\
The fused engine against torch, and two threads of it against one.

  update.SIZE    one DQN update of an 11-128-128-3 network with batches of that size
  dqn, ppo       whole training: DQN on Snake, PPO on the compiled CartPole (1024 x 32, minibatches
                 of 4096, 4 epochs)
  dqn_overlap    DQN with --overlap against one thread
  ppo_threads    PPO with --threads 2 against one thread
  busy_ratio     the same while other processes keep every core busy

The sides take turns in one process; figures are medians over the turns. Engines are compared by CPU
time, threads by wall time: measure those on an idle machine."""

ENGINES_EXAMPLES = """\
examples:
  brisk bench engines
  brisk bench engines --slices 25 --json"""

MACHINE_HELP = """\
What this machine can do. The figures are saved, and every later run tells its share of them:
machine_fraction in its JSON, "x% of this machine" in its progress.

  gflops               billions of operations per second of the fastest product on one thread, and
  gflops_of            whose it is: torch's or our own, at which rows x inputs x outputs
  two_threads_gflops   the same on two threads
  products             all rates: torch.mm, the product of the fused engine, on one and two threads
  memory_gb_per_s      copy by NumPy, triad (a = b + c * d) by compiled code
  calls                microseconds of a call that does nothing: of Python, of compiled code, of
                       torch on one number, of handing over to another thread

The fastest of many short slices counts; those of one thread are by CPU time, those of two threads
by wall time. Measure on an idle machine."""

MACHINE_EXAMPLES = """\
examples:
  brisk bench machine
  brisk bench machine --seconds 20 --json"""


def run(argv: list[str]) -> int:
    """Run one benchmark and print its figures."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_help())
        return 0
    name, words = argv[0], argv[1:]
    if name not in COMMANDS:
        raise BriskError(f"Unknown benchmark {name!r}. {nearest(name, COMMANDS)}")
    runners = {
        "env": _env,
        "train": _train,
        "legacy": _legacy,
        "peers": _peers,
        "rollout": _rollout,
        "backends": _backends,
        "env-share": _env_share,
        "engines": _engines,
        "ratio": _ratio,
        "machine": _machine,
    }
    return runners[name](words)


def _help() -> str:
    told = columns(list(COMMANDS.items()))
    return f"usage: brisk bench COMMAND ...\n\nMeasure speed.\n\ncommands:\n{told}\n\n{OVERVIEW}"


def _wildfire(words: list[str]) -> int:
    parser = _parser("env wildfire", WILDFIRE_HELP, WILDFIRE_EXAMPLES, WildfireBench)
    args = parser.parse(words)
    bench = build(WildfireBench, flag_layer(args, {"": WildfireBench}).values)
    from briskrl.bench.wildfire import measure_wildfire

    return print_result(
        lambda: measure_wildfire(bench), as_json=args.json, wait_s=bench.seconds + 5
    )


def _env(words: list[str]) -> int:
    if "wildfire" in words:
        return _wildfire([word for word in words if word != "wildfire"])
    parser = _parser("env", ENV_HELP, ENV_EXAMPLES, EnvBench, places="ENV ")
    parser.add_argument("ENV", nargs="?", default="snake", help="environment")
    help_wanted = {"-h", "--help"} & set(words)
    name = "snake" if help_wanted else parser.parse_known_args(words)[0].ENV
    classes: dict[str, type] = {"": EnvBench}
    if name != "snake":
        classes["env_config"] = env_config_class(name)
        own = [flag_name(field) for field in field_hints(EnvBench)]
        add_flags(parser, classes["env_config"], section="env_config", taken=own)
    args = parser.parse(words)
    layer = flag_layer(args, classes)
    bench = build(EnvBench, layer.values)
    given = [field for field in ("obs", "height", "width") if field in layer.values]
    if given and name != "snake":
        raise ConfigError(f"--{given[0]} is an option of snake, not of {name}.")
    settings: Any = None
    if name != "snake":
        settings = build(classes["env_config"], layer.table("env_config"))
    elif "player" in layer.values:
        raise ConfigError("--player is for other games than snake, whose heuristic always plays.")
    from briskrl.bench.env import measure_env

    wait_s = bench.seconds + 1
    return print_result(
        lambda: measure_env(bench, name, settings), as_json=args.json, wait_s=wait_s
    )


def _train(words: list[str]) -> int:
    if "-h" in words or "--help" in words:
        print(TRAIN_HELP)
        return 0
    from briskrl.cli.train import parse_args

    if not any(word.partition("=")[0] in ("--config", "--steps") for word in words):
        words = [*words, "--steps", str(TRAIN_STEPS)]
    config, args = parse_args(words)
    if config.run_dir is not None or args.print_config:
        raise ConfigError(
            "bench train keeps no run and prints no settings: leave out --run-dir and "
            "--print-config, or use brisk train."
        )
    from briskrl.bench.train import measure_train

    return print_result(
        lambda: measure_train(config), as_json=args.json, wait_s=(config.steps or 0) / 4e4
    )


def _legacy(words: list[str]) -> int:
    parser = _parser("legacy", LEGACY_HELP, LEGACY_EXAMPLES, LegacyBench)
    args = parser.parse(words)
    bench = build(LegacyBench, flag_layer(args, {"": LegacyBench}).values)
    measure_legacy = _from_checkout("legacy").measure_legacy
    wait_s = 2 * (bench.slices + 1) * bench.seconds + 5
    return print_result(lambda: measure_legacy(bench), as_json=args.json, wait_s=wait_s)


def _peers(words: list[str]) -> int:
    parser = _parser("peers", PEERS_HELP, PEERS_EXAMPLES, PeersBench)
    args = parser.parse(words)
    bench = build(PeersBench, flag_layer(args, {"": PeersBench}).values)
    measure_peers = _from_checkout("peers").measure_peers
    sides = {"dqn": 3, "ppo": 6, "whole": 3, "step": 2, None: 9}[bench.only]
    wait_s = sides * (bench.slices + 1) * bench.seconds + 10
    return print_result(lambda: measure_peers(bench), as_json=args.json, wait_s=wait_s)


def _from_checkout(name: str) -> ModuleType:
    return load_from_checkout(f"benchmarks.{name}.compare", f"brisk bench {name}")


def _rollout(words: list[str]) -> int:
    parser = _parser("rollout", ROLLOUT_HELP, ROLLOUT_EXAMPLES, RolloutBench)
    args = parser.parse(words)
    bench = build(RolloutBench, flag_layer(args, {"": RolloutBench}).values)
    from briskrl.bench.rollout import measure_rollout

    wait_s = (bench.slices + 1) * bench.seconds + 5
    return print_result(lambda: measure_rollout(bench), as_json=args.json, wait_s=wait_s)


def _engines(words: list[str]) -> int:
    parser = _parser("engines", ENGINES_HELP, ENGINES_EXAMPLES, EnginesBench)
    args = parser.parse(words)
    bench = build(EnginesBench, flag_layer(args, {"": EnginesBench}).values)
    from briskrl.bench.engines import measure_engines

    wait_s = 16 * (bench.slices + 1) * bench.seconds + 20
    return print_result(lambda: measure_engines(bench), as_json=args.json, wait_s=wait_s)


def _backends(words: list[str]) -> int:
    parser = _parser("backends", BACKENDS_HELP, BACKENDS_EXAMPLES, BackendsBench)
    args = parser.parse(words)
    bench = build(BackendsBench, flag_layer(args, {"": BackendsBench}).values)
    from briskrl.bench.backends import measure_backends

    wait_s = 8 * (bench.slices + 1) * bench.seconds + 5
    return print_result(lambda: measure_backends(bench), as_json=args.json, wait_s=wait_s)


def _ratio(words: list[str]) -> int:
    from briskrl.cli.ratio import run as run_ratio

    return run_ratio(words)


def _env_share(words: list[str]) -> int:
    from briskrl.cli.env_share import run as run_share

    return run_share(words)


def _machine(words: list[str]) -> int:
    parser = _parser("machine", MACHINE_HELP, MACHINE_EXAMPLES, MachineBench)
    args = parser.parse(words)
    bench = build(MachineBench, flag_layer(args, {"": MachineBench}).values)
    from briskrl.bench.machine import measure

    return print_result(lambda: measure(bench), as_json=args.json, wait_s=bench.seconds + 2)


def _parser(name: str, told: str, examples: str, cls: type, *, places: str = "") -> Parser:
    parser = Parser(f"brisk bench {name}", told, examples)
    parser.usage = f"brisk bench {name} {places}[options]"
    add_flags(parser, cls)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser
