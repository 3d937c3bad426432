"""`brisk bench env-share`: does an environment slow training down, at equal networks?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from time import process_time
from typing import Any

from briskrl.bench.compare import PairedComparison
from briskrl.bench.config import ShareBench
from briskrl.bench.padded_cartpole import PaddedCartPole
from briskrl.core.errors import ConfigError
from briskrl.core.phase import Phase
from briskrl.envs.base import VecEnv
from briskrl.training.config import TrainConfig
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up


@dataclass(frozen=True, slots=True)
class ShareFigures:
    """Training on an environment against training on CartPole, with the same network."""

    ratio: float
    """Steps per CPU second on the environment over those on CartPole."""
    ratio_low: float | None
    """Ends of its 95 % interval; None with fewer than two pairs of slices."""
    ratio_high: float | None
    steps_per_cpu_s: float
    """Medians over the slices."""
    cartpole_steps_per_cpu_s: float
    env_share: float
    """Part of the time of training that is spent stepping the environment."""
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
    """Train what the config says, and the same on CartPole in disguise, in alternating slices.

    Raises:
        ConfigError: CartPole cannot stand in for the environment.
    """
    with ExitStack() as stack:
        ours = _Side(config)
        stack.callback(ours.close)
        spec = ours.trainer.env.env_spec
        if getattr(ours.trainer.env, "partial", False):
            raise ConfigError("The environment must be one that steps all of its games together.")
        # Both sides have the engine that suits the first one.
        settled = replace(config, engine=ours.engine)
        carts = PaddedCartPole(spec, config.num_envs, threads=config.num_threads)
        stand_in = _Side(settled, carts)
        stack.callback(stand_in.close)
        rounds = ours.rounds_in(bench.seconds)
        comparison = PairedComparison(old=_slice(stand_in, rounds), new=_slice(ours, rounds))
        comparison.take_turns(bench.slices)
        found = comparison.estimate()
        known = bench.slices > 1
        return ShareFigures(
            ratio=found.ratio,
            ratio_low=found.low if known else None,
            ratio_high=found.high if known else None,
            steps_per_cpu_s=comparison.median("new"),
            cartpole_steps_per_cpu_s=comparison.median("old"),
            env_share=ours.env_share,
            cartpole_env_share=stand_in.env_share,
            env=config.env,
            env_config=asdict(config.env_config),
            algo=config.algo,
            engine=ours.engine,
            num_envs=config.num_envs,
            inputs=spec.obs.size,
            actions=getattr(spec.action, "n", 0),
            masked=spec.has_mask,
            slices=bench.slices,
        )


class _Side:
    """A session that trains in whole rounds of collecting and learning."""

    def __init__(self, config: TrainConfig, env: VecEnv | None = None) -> None:
        self.trainer = Trainer(config, env)
        try:
            warm_up(self.trainer)
            self.advance(1)
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

    def advance(self, rounds: int) -> float:
        """Train until something has been learnt so many times; returns steps per CPU second."""
        counters = self.trainer.counters
        first, begin = counters.env_steps, process_time()
        for _ in range(rounds):
            updates = counters.updates
            while counters.updates == updates:
                self.trainer.iterate()
        return (counters.env_steps - first) / (process_time() - begin)

    def rounds_in(self, seconds: float) -> int:
        """How many rounds take about so many CPU seconds."""
        begin = process_time()
        self.advance(1)
        return max(1, round(seconds / max(1e-9, process_time() - begin)))

    def close(self) -> None:
        self.trainer.close()


def _slice(side: _Side, rounds: int) -> Callable[[], float]:
    return lambda: side.advance(rounds)
