"""`brisk bench env-share`: how much an environment slows training, at equal networks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from time import process_time
from typing import TYPE_CHECKING, Any

from briskrl.bench.command import Seconds, Slices, TrainBenchCommand
from briskrl.bench.compare import PairedComparison
from briskrl.bench.train_loop import train_rounds
from briskrl.core.errors import ConfigError
from briskrl.core.phase import Phase

if TYPE_CHECKING:
    from briskrl.envs.base import VecEnv
    from briskrl.training.config import TrainConfig

DESCRIPTION = """\
How much an environment slows training, at equal networks.

Trains on ENV, and in alternating slices on the compiled CartPole padded to the shapes of ENV: zeros
follow its four numbers up to the size of ENV's observations, action a acts as a % 2, and it has
action masks if ENV has them. Both sides train the same network with the same settings and engine.

  ratio       steps per CPU second on ENV over those on CartPole, with a 95 % interval
  env_share   fraction of training time spent in environment steps, on both sides

Every option of `brisk train` can be given except --run-dir. The algorithm is PPO unless --algo or a
--config file is given."""

EXAMPLES = """\
examples:
  brisk bench env-share cage2
  brisk bench env-share cage2 --edition competition --red mixed --slices 25 --json
  brisk bench env-share --config zoo:cage2_current"""


@dataclass(frozen=True, slots=True)
class ShareBench:
    """Settings of `brisk bench env-share`."""

    slices: Slices = 15
    """Slices of each side."""
    seconds: Seconds = 0.5
    """Approximate CPU seconds per slice."""


@dataclass(frozen=True, slots=True)
class ShareFigures:
    """Training on an environment compared with training on CartPole, with the same network."""

    ratio: float
    """Steps per CPU second on the environment over those on CartPole."""
    ratio_low: float | None
    """Ends of its 95 % interval; None with a single slice."""
    ratio_high: float | None
    steps_per_cpu_s: float
    """Median over the slices, as is the next one."""
    cartpole_steps_per_cpu_s: float
    env_share: float
    """Fraction of training time spent in environment steps."""
    cartpole_env_share: float
    env: str
    env_config: dict[str, Any]
    algo: str
    engine: str
    num_envs: int
    inputs: int
    actions: int
    masked: bool
    slices: int


def measure_share(config: TrainConfig, bench: ShareBench) -> ShareFigures:
    """Train the config, and the same on padded CartPole, in alternating slices.

    Raises:
        ConfigError: CartPole cannot replace the environment.
    """
    from briskrl.bench.padded_cartpole import PaddedCartPole
    from briskrl.core.spec import DiscreteSpec
    from briskrl.training.async_collector import AsyncCollector

    with ExitStack() as stack:
        ours = _TrainSide(config)
        stack.callback(ours.close)
        spec = ours.trainer.env.env_spec
        if isinstance(ours.trainer.collector, AsyncCollector):
            raise ConfigError("bench env-share needs an environment that steps all games together.")
        # Both sides use the engine chosen for the environment.
        carts = PaddedCartPole(spec, config.num_envs, threads=config.num_threads)
        cartpole = _TrainSide(replace(config, engine=ours.engine), carts)
        stack.callback(cartpole.close)
        rounds = ours.rounds_in(bench.seconds)
        comparison = PairedComparison(
            cartpole=cartpole.slice_of(rounds), environment=ours.slice_of(rounds)
        )
        comparison.take_turns(bench.slices)
        found = comparison.estimate()
        has_interval = bench.slices > 1
        return ShareFigures(
            ratio=found.ratio,
            ratio_low=found.low if has_interval else None,
            ratio_high=found.high if has_interval else None,
            steps_per_cpu_s=comparison.median("environment"),
            cartpole_steps_per_cpu_s=comparison.median("cartpole"),
            env_share=ours.env_share,
            cartpole_env_share=cartpole.env_share,
            env=config.env,
            env_config=asdict(config.env_config),
            algo=config.algo,
            engine=ours.engine,
            num_envs=config.num_envs,
            inputs=spec.obs.size,
            actions=spec.action.n if isinstance(spec.action, DiscreteSpec) else 0,
            masked=spec.has_mask,
            slices=bench.slices,
        )


class _TrainSide:
    """A trainer that runs whole rounds of collecting and learning."""

    def __init__(self, config: TrainConfig, env: VecEnv | None = None) -> None:
        from briskrl.training.trainer import Trainer
        from briskrl.training.warmup import warm_up

        self.trainer = Trainer(config, env)
        try:
            warm_up(self.trainer)
            self.train(1)
            self.trainer.timer.reset()
        except BaseException:
            self.close()
            raise

    @property
    def engine(self) -> Any:
        return self.trainer.algo.engines.name

    @property
    def env_share(self) -> float:
        seconds = self.trainer.timer.seconds()
        busy = sum(seconds.values()) - seconds["other"]
        return seconds[Phase.ENV.name.lower()] / busy

    def train(self, rounds: int) -> float:
        return train_rounds(self.trainer.counters, self.trainer.iterate, rounds)

    def slice_of(self, rounds: int) -> Callable[[], float]:
        return lambda: self.train(rounds)

    def rounds_in(self, seconds: float) -> int:
        """Number of rounds that take about `seconds` of CPU time."""
        begin = process_time()
        self.train(1)
        return max(1, round(seconds / max(1e-9, process_time() - begin)))

    def close(self) -> None:
        self.trainer.close()


COMMAND = TrainBenchCommand(
    DESCRIPTION,
    EXAMPLES,
    ShareBench,
    measure=lambda config, settings, _report: measure_share(config, settings),
    cpu_seconds=lambda _config, settings: 2 * (settings.slices + 1) * settings.seconds + 5,
    default_flags=("--algo", "ppo"),
)
