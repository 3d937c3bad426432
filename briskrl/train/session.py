"""A run's parts, wired together, and their state as one."""

from __future__ import annotations

from briskrl.algos.base import OffPolicy
from briskrl.algos.registry import ALGOS
from briskrl.core.clock import Clock
from briskrl.core.phase import PhaseTimer
from briskrl.core.registry import load_object
from briskrl.core.rng import Streams, derive_seed
from briskrl.core.spec import EnvSpec
from briskrl.core.types import EpisodeStats, State
from briskrl.envs.make import make_env
from briskrl.memory.base import Memory
from briskrl.memory.registry import MEMORIES
from briskrl.nets.compute import Compute
from briskrl.train.cadence import CADENCES, Cadence
from briskrl.train.checkpoint import RunState
from briskrl.train.collector import Collector
from briskrl.train.config import TrainConfig
from briskrl.train.device import Arithmetic, choose_device
from briskrl.train.learner import Learner


class Session:
    """Environment, algorithm, memory and cadence of one run, and one iteration of it."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.device = choose_device(config.device)
        budget = config.budget
        self.clock = Clock(total_steps=budget.steps, total_episodes=budget.episodes)
        self.timer = PhaseTimer()
        self.streams = Streams(config.seed)
        self.env = make_env(
            config.env, config.num_envs, config=config.env_config, threads=config.threads
        )
        spec = self.env.env_spec
        self.algo = build_algorithm(
            config, spec, self.streams, Compute(self.device, config.amp, config.compile)
        )
        self.memory, self.cadence = _build_parts(config, spec)
        self.collector = Collector(self.env, self.algo, self.memory, self.timer, self.clock)
        self.learner = Learner(
            self.algo,
            self.memory,
            self.streams["sample"],
            self.timer,
            self.clock,
            spec=spec,
            batch_size=config.algo_config.batch_size,
        )
        self._arithmetic = Arithmetic(config.threads)

    def start(self) -> None:
        """Begin the first episodes, with a seed that no neighbouring run shares."""
        self.collector.start(derive_seed(self.config.seed, "env"))

    def iterate(self) -> EpisodeStats:
        """Collect one transition per environment, do the updates due; returns ended episodes."""
        ended = self.collector.collect()
        self.learner.learn(self.cadence.due(self.config.num_envs))
        self.clock.iterations += 1
        return ended

    def state(self) -> RunState:
        """Everything that decides how the run goes on."""
        bookkeeping = State(
            scalars={"cadence": self.cadence.state(), "streams": self.streams.state()}
        )
        parts = {
            **self.algo.state(),
            "collector": self.collector.state(),
            "memory": self.memory.state(),
            "bookkeeping": bookkeeping,
        }
        return RunState(parts=parts, clock=self.clock.state(), memory=self.memory)

    def load_parts(self, parts: dict[str, State], clock: dict[str, int]) -> None:
        """Continue from saved parts; the memory's chunks are loaded by the checkpointer."""
        self.algo.load_state(parts)
        self.collector.load_state(parts["collector"])
        self.memory.load_state(parts["memory"])
        bookkeeping = parts["bookkeeping"].scalars
        self.cadence.load_state(bookkeeping["cadence"])
        self.streams.load_state(bookkeeping["streams"])
        self.clock.load_state(clock)

    def close(self) -> None:
        """Release the environments and give the process its settings back."""
        self._arithmetic.restore()
        self.env.close()


def build_algorithm(
    config: TrainConfig, spec: EnvSpec, streams: Streams, compute: Compute
) -> OffPolicy:
    """The algorithm that the config names."""
    factory = load_object(ALGOS.get(config.algo).factory)
    algo: OffPolicy = factory(config.algo_config, spec, streams, compute)
    return algo


def _build_parts(config: TrainConfig, spec: EnvSpec) -> tuple[Memory, Cadence]:
    parts = config.algo_config.parts(config.num_envs)
    memory = MEMORIES.get(parts.memory)(spec=spec, num_envs=config.num_envs, **parts.memory_options)
    cadence = CADENCES.get(parts.cadence)(**parts.cadence_options)
    return memory, cadence
