"""A run's parts, wired together, and their state as one."""

from __future__ import annotations

from typing import Any, cast

from briskrl.algos.base import Algorithm
from briskrl.algos.registry import ALGOS
from briskrl.core.counters import Counters
from briskrl.core.phase import PhaseTimer
from briskrl.core.registry import load_object
from briskrl.core.rng import Streams, derive_seed
from briskrl.core.spec import EnvSpec
from briskrl.core.types import EpisodeStats, ObsCodec, State
from briskrl.envs.base import CodedVecEnv, PartialVecEnv, VecEnv
from briskrl.envs.make import make_env
from briskrl.envs.teachers import check_teacher
from briskrl.memory.base import Memory, ReplayMemory, RolloutMemory
from briskrl.memory.registry import MEMORIES
from briskrl.nets.compute import Compute
from briskrl.training.async_collector import AsyncCollector
from briskrl.training.collector import Actor, Collecting, Collector, DoubleBuffer, StepSlots
from briskrl.training.config import TrainConfig
from briskrl.training.curriculum import Curriculum, check_stages
from briskrl.training.device import Arithmetic, choose_device
from briskrl.training.learner import LEARNERS, Learner, ReplayLearner
from briskrl.training.overlap import DeferredSlots, Overlap, check_overlap
from briskrl.training.resolve import stage_env_config
from briskrl.training.storage.checkpoint import RunState
from briskrl.training.update_schedule import SCHEDULES, UpdateSchedule


class Trainer:
    """Environment, algorithm, memory, cadence and learner of one run, and one iteration of it.

    Args:
        config: What to train, complete.
        env: Environments to train on instead of those the config names.
    """

    def __init__(self, config: TrainConfig, env: VecEnv | None = None) -> None:
        self.config = config
        self.device = choose_device(config.device)
        budget = config.budget
        self.counters = Counters(total_steps=budget.steps, total_episodes=budget.episodes)
        self.timer = PhaseTimer()
        self.streams = Streams(config.seed)
        check_stages(config)
        teacher = getattr(config.algo_config, "pretrain_from", None)
        if teacher is not None:
            check_teacher(config.env, teacher)
        self.pretrained = teacher is None
        """Whether all has been learnt from the teacher, if there is one."""
        self.curriculum = Curriculum(config.curriculum)
        self._env_stage = self.curriculum.stage
        self.env = env or self._make_env()
        spec = self.env.env_spec
        compute = Compute(
            self.device,
            amp=config.amp,
            compile=config.compile,
            # Only the fused engine can act while another thread learns.
            engine="fused" if config.overlap and config.engine == "auto" else config.engine,
            threads=config.num_threads,
            overlap=config.overlap,
        )
        self.algo = build_algorithm(config, spec, self.streams, compute)
        self.memory, self.cadence, self.learner = self._build_parts(spec)
        self.overlap = self._build_overlap() if config.overlap else None
        self.collector = self.build_collector()
        self.engine_note = _describe_engine(self.algo)
        """Which engine computes, and why."""
        self.last_collected = 0
        """Transitions of the last iteration."""
        self._arithmetic = Arithmetic(config.num_threads)

    @property
    def start_seed(self) -> int:
        """Seed of the first episodes, which no neighbouring run shares."""
        return derive_seed(self.config.seed, "env")

    def start(self) -> None:
        """Begin the first episodes."""
        self.collector.start(self.start_seed)

    def iterate(self) -> EpisodeStats:
        """Collect transitions, do the updates due; returns the episodes that ended."""
        if self.overlap is None:
            self.last_collected, ended = self.collector.collect()
            self.learner.learn(self.cadence.due(self.last_collected))
        else:
            self.last_collected, ended = self.overlap.collect(self.collector)
            self.overlap.earn(self.cadence.due(self.last_collected))
        self.counters.iterations += 1
        if self.curriculum.observe(self.last_collected, ended):
            self.curriculum.promote()
            self._enter_stage()
        return ended

    def restart_envs(self) -> None:
        """Begin new episodes everywhere, for environments that cannot go on where they were."""
        self._cut()
        self.collector.start(derive_seed(self.config.seed, f"env after {self.counters.env_steps}"))

    def state(self) -> RunState:
        """Everything that decides how the run goes on."""
        if self.overlap is not None:
            self.overlap.forget()
        bookkeeping = State(
            scalars={
                "cadence": self.cadence.state(),
                "streams": self.streams.state(),
                "engine": self.algo.engines.name,
                "owed": 0 if self.overlap is None else self.overlap.owed,
                "pretrained": self.pretrained,
            }
        )
        parts = {
            **self.algo.state(),
            "collector": self.collector.state(),
            "memory": self.memory.state(),
            "curriculum": self.curriculum.state(),
            "bookkeeping": bookkeeping,
        }
        return RunState(parts=parts, counters=self.counters.state(), memory=self.memory)

    def load_parts(self, parts: dict[str, State], counters: dict[str, int]) -> None:
        """Continue from saved parts; the memory's chunks are loaded by the checkpointer."""
        self.curriculum.load_state(parts["curriculum"])
        if self.curriculum.stage != self._env_stage:
            self._open_stage()
        bookkeeping = parts["bookkeeping"].scalars
        self._continue_with(bookkeeping.get("engine"))
        self.algo.load_state(parts)
        # A rollout memory says which of its rows the collector acts on.
        self.memory.load_state(parts["memory"])
        self.collector.load_state(parts["collector"])
        self.cadence.load_state(bookkeeping["cadence"])
        if self.overlap is not None:
            self.overlap.forget()
            self.overlap.owed = bookkeeping["owed"]
        self.streams.load_state(bookkeeping["streams"])
        self.pretrained = bookkeeping.get("pretrained", True)
        self.counters.load_state(counters)

    def close(self) -> None:
        """Release the environments and give the process its settings back."""
        self._arithmetic.restore()
        self.env.close()

    def _continue_with(self, engine: Any) -> None:
        """Compute with the engine of the saved run, unless another one is asked for."""
        engines = self.algo.engines
        if engine in engines.candidates and engine != engines.name:
            engines.use(engine)
            self.engine_note = f"engine {engine}, as before"

    def _enter_stage(self) -> None:
        self._cut()
        self._open_stage()
        self.collector.start(derive_seed(self.config.seed, f"env of stage {self.curriculum.stage}"))

    def _cut(self) -> None:
        """End the episodes under way, also in the memory."""
        self.collector.cancel_or_wait()
        if self.overlap is not None:
            self.overlap.forget()
        self.memory.truncate_episodes(self.collector.now)

    def _open_stage(self) -> None:
        """Exchange the environments for those of the present stage."""
        self.env.close()
        self.env = self._make_env()
        self.collector = self.build_collector()

    def _make_env(self) -> VecEnv:
        config = self.config
        self._env_stage = self.curriculum.stage
        return make_env(
            config.env,
            config.num_envs,
            config=stage_env_config(config.env_config, self.curriculum.present),
            threads=config.num_threads,
        )

    def _build_parts(self, spec: EnvSpec) -> tuple[Memory, UpdateSchedule, Learner]:
        num_envs = self.config.num_envs
        parts = self.config.algo_config.parts(num_envs)
        options = parts.memory_options
        if parts.learner == "replay" and self._codec is not None:
            options = {**options, "codec": self._codec}
        memory = MEMORIES.get(parts.memory)(spec=spec, num_envs=num_envs, **options)
        learner = LEARNERS.get(parts.learner)(
            self.algo,
            memory,
            self.streams["sample"],
            self.timer,
            self.counters,
            spec=spec,
            num_envs=num_envs,
            **parts.learner_options,
        )
        return memory, SCHEDULES.get(parts.cadence)(**parts.cadence_options), learner

    @property
    def _codec(self) -> ObsCodec | None:
        """What rebuilds observations; codes of several stages would be of different settings."""
        if not self.env.env_spec.code_words or self.config.curriculum:
            return None
        return cast(CodedVecEnv, self.env).codec

    @property
    def memory_note(self) -> str | None:
        """How large a memory of codes is; None for others, whose size follows from the settings."""
        if self._codec is None or hasattr(self.memory, "next_slot"):
            return None
        memory, spec = cast(ReplayMemory, self.memory), self.env.env_spec
        whole = spec.obs.size * spec.obs.dtype.itemsize
        return (
            f"memory: {memory.capacity:,} transitions in {memory.nbytes / 1e6:,.0f} MB "
            f"({8 * spec.code_words:,} bytes an observation instead of {whole:,})"
        )

    def _build_overlap(self) -> Overlap:
        engines = self.algo.engines
        check_overlap(
            replays=not hasattr(self.memory, "next_slot"),
            partial=getattr(self.env, "partial", False),
            engine=engines.name,
        )
        learner = cast(ReplayLearner, self.learner)
        return Overlap(learner, self.algo, self.streams["sample"], self.timer)

    def build_collector(self, actor: Actor | None = None) -> Collecting:
        """What collects into the memory; `actor` decides instead of the algorithm."""
        env, memory, actor = self.env, self.memory, actor or self.algo
        holds_rollouts = hasattr(memory, "next_slot")
        if getattr(env, "partial", False):
            partial = cast(PartialVecEnv, env)
            return AsyncCollector(
                partial,
                actor,
                memory,
                self.timer,
                self.counters,
                min_ready=partial.min_ready,
                on_policy=holds_rollouts,
            )
        rows: StepSlots
        if holds_rollouts:
            rows = cast(RolloutMemory, memory)
        else:
            rows = DoubleBuffer(memory, env.env_spec, env.num_envs)
        if self.overlap is not None:
            rows = DeferredSlots(rows, self.overlap, self.timer)
        return Collector(env, actor, rows, self.timer, self.counters)


def build_algorithm(config: TrainConfig, spec: EnvSpec, streams: Streams, compute: Compute) -> Any:
    """The algorithm that the config names, on or off policy."""
    factory = load_object(ALGOS.get(config.algo).factory)
    algo: Algorithm = factory(config.algo_config, spec, streams, compute)
    return algo


def _describe_engine(algo: Any) -> str:
    engines = algo.engines
    reason = f" and not fused: {engines.refusal}" if engines.refusal else ""
    return f"engine {engines.name}{reason}"
