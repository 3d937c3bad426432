"""The objects of one run, wired together; one training iteration; their state as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from briskrl.algos.base import Algorithm
from briskrl.algos.components import BuildContext, Components, OffPolicyComponents
from briskrl.algos.engines import EngineName
from briskrl.algos.registry import ALGOS
from briskrl.core.counters import Counters
from briskrl.core.errors import ConfigError, InvalidStateError
from briskrl.core.phase import PhaseTimer
from briskrl.core.registry import load_object
from briskrl.core.rng import Streams, derive_seed
from briskrl.core.state_checks import mapping, whole
from briskrl.core.types import EpisodeStats, ObsCodec, State
from briskrl.envs.base import VecEnv
from briskrl.envs.make import make_env
from briskrl.envs.registry import check_teacher
from briskrl.nets.compute import Compute
from briskrl.nets.replica_group import ReplicaGroup, own_stream
from briskrl.training.async_collector import AsyncCollector
from briskrl.training.collector import (
    Actor,
    Collecting,
    Collector,
    DoubleBuffer,
    StepSlots,
    collect_round,
)
from briskrl.training.config import TrainConfig
from briskrl.training.curriculum import Curriculum, check_stages
from briskrl.training.device import TorchSettings, choose_device
from briskrl.training.learner import Learner, OffPolicyLearner, OnPolicyLearner
from briskrl.training.overlap import DeferredSlots, Overlap, check_overlap
from briskrl.training.resolve import stage_env_config
from briskrl.training.storage.checkpoint import RunState
from briskrl.training.update_schedule import RatioSchedule, RolloutSchedule, UpdateSchedule


class Trainer:
    """Environments, algorithm, memory, update schedule and learner of one run.

    Args:
        config: The complete settings of the run.
        env: Environments to train on instead of those that the config names.
        note: Receives messages for the user while all is built.
        group: The replicas of the run; this one has an equal part of the environments.
    """

    def __init__(
        self,
        config: TrainConfig,
        env: VecEnv | None = None,
        note: Callable[[str], None] = lambda text: None,
        group: ReplicaGroup | None = None,
    ) -> None:
        self.config = config
        self._note = note
        self._group = group
        self.num_replicas = 1 if group is None else group.size
        if self.num_replicas != config.replicas:
            raise ConfigError(
                f"This is done by one process, but replicas is {config.replicas}. Replicas are for "
                "`brisk train` and `brisk resume`."
            )
        self.num_envs = config.num_envs // self.num_replicas
        """Environments of this process."""
        self._first_env = 0 if group is None else group.rank * self.num_envs
        self.device = choose_device(config.device)
        budget = config.budget
        self.counters = Counters(total_steps=budget.steps, total_episodes=budget.episodes)
        self.timer = PhaseTimer()
        self.streams = Streams(config.seed)
        check_stages(config)
        self.curriculum = Curriculum(config.curriculum)
        self._env_stage = self.curriculum.stage
        self.env = env or self._make_env()
        self.components = self._build_components()
        self.algo: Algorithm = self.components.algo
        self.memory = self.components.memory
        self.pretrained = self.components.pretraining is None
        """Whether pretraining is done, or not asked for."""
        self.pretraining: State | None = None
        """Loaded state of pretraining that was stopped."""
        self._round_steps = self._transitions_per_round()
        self.schedule, self.learner, self.overlap = self._build_learner()
        self.collector = self.build_collector()
        self.engine_note = _describe_engine(self.algo)
        """Which engine computes, and why."""
        self.last_collected = 0
        """Transitions of the last iteration."""
        self._torch_settings = TorchSettings(config.num_threads)

    @property
    def start_seed(self) -> int:
        """Seed of the first episodes, which differs from that of runs with nearby seeds."""
        return derive_seed(self.config.seed, "env")

    @property
    def is_done(self) -> bool:
        """Whether the budget is spent."""
        return self.config.budget.is_spent(self.counters.env_steps, self.counters.episodes)

    def start(self) -> None:
        """Begin the first episodes."""
        self._begin_episodes(self.start_seed)

    def _begin_episodes(self, seed: int) -> None:
        """Begin new episodes everywhere; env i of the run gets seed + i."""
        self.collector.start(seed + self._first_env)

    def iterate(self) -> EpisodeStats:
        """Collect transitions and do the updates due; returns the episodes that ended."""
        if self.overlap is None:
            self.last_collected, ended = self.collect()
            self.learner.learn(self.schedule.due(self.last_collected))
        else:
            self.last_collected, ended = self.overlap.collect(self.collect)
            self.overlap.schedule(self.schedule.due(self.last_collected))
        self.counters.iterations += 1
        if self.curriculum.observe(self.last_collected, ended):
            self.enter_next_stage()
        return ended

    def collect(self) -> tuple[int, EpisodeStats]:
        """Collect the transitions of one iteration; see Collecting.collect."""
        if self._round_steps == 0:
            return self.collector.collect()
        return collect_round(self.collector, self._round_steps)

    def agreed(self, seconds: dict[EngineName, float]) -> dict[EngineName, float]:
        """Measured times as all replicas know them, so that they decide the same."""
        if self._group is None:
            return seconds
        means = self._group.gather(np.array(list(seconds.values()))).mean(axis=0)
        return dict(zip(seconds, means.tolist(), strict=True))

    def restart_envs(self) -> None:
        """Begin new episodes everywhere, for environments whose state cannot be restored."""
        self._end_episodes()
        self._begin_episodes(derive_seed(self.config.seed, f"env after {self.counters.env_steps}"))

    def state(self) -> RunState:
        """Everything that decides how the run goes on."""
        if self.overlap is not None:
            self.overlap.discard_prefetched()
        bookkeeping = State(
            scalars={
                "cadence": self.schedule.state(),
                "streams": self.streams.state(),
                "engine": self.algo.engines.name,
                "owed": 0 if self.overlap is None else self.overlap.pending,
                "pretrained": self.pretrained,
            }
        )
        states = {
            **self.algo.state(),
            "collector": self.collector.state(),
            "memory": self.memory.state(),
            "curriculum": self.curriculum.state(),
            "bookkeeping": bookkeeping,
        }
        return RunState(states=states, counters=self.counters.state(), memory=self.memory)

    def load_state(self, states: dict[str, State], counters: dict[str, int]) -> None:
        """Continue from saved states; the memory's chunks are loaded by the checkpointer.

        Raises:
            InvalidStateError: They are states of other settings, or impossible; the trainer needs
                another state then.
        """
        self.curriculum.load_state(states["curriculum"])
        if self.curriculum.stage != self._env_stage:
            self._open_stage()
        bookkeeping = states["bookkeeping"].scalars
        self._use_saved_engine(bookkeeping.get("engine"))
        self.algo.load_state(states)
        # A rollout buffer decides which of its slots the collector acts on.
        self.memory.load_state(states["memory"])
        self.collector.load_state(states["collector"])
        self._load_pretraining(states.get("pretraining"))
        self.schedule.load_state(mapping(bookkeeping, "cadence"))
        self.counters.load_state(counters)
        if self.overlap is not None:
            self.overlap.discard_prefetched()
            self.overlap.pending = whole(bookkeeping, "owed", self._most_pending)
        self.streams.load_state(mapping(bookkeeping, "streams"))
        self.pretrained = bool(bookkeeping.get("pretrained", True))
        self._check_progress()

    def _load_pretraining(self, saved: State | None) -> None:
        """Keep the state of pretraining that was stopped, after checking it.

        Raises:
            InvalidStateError: It is impossible.
        """
        if saved is not None:
            # `Pretrainer` loads them again, when it is too late for another checkpoint.
            self.counters.load_state(mapping(saved.scalars, "counters"))
            self.schedule.load_state(mapping(saved.scalars, "schedule"))
            self._check_progress()
            losses = saved.arrays.get("losses")
            if losses is None or losses.dtype != np.float64 or losses.ndim != 1:
                raise InvalidStateError("the losses of pretraining are missing")
            if not isinstance(saved.scalars.get("plays"), bool):
                raise InvalidStateError("it is unknown whether the teacher plays")
        self.pretraining = saved

    def _transitions_per_round(self) -> int:
        """Transitions between two rounds of updates; 0 if every step of the collector is one."""
        components = self.components
        if not isinstance(components, OffPolicyComponents) or components.update_every == 1:
            return 0
        return components.update_every * self.num_envs

    @property
    def _most_pending(self) -> int:
        """Updates that one iteration can make due."""
        assert isinstance(self.components, OffPolicyComponents)
        steps = self._round_steps or self.config.num_envs
        return int(steps * self.components.updates_per_step) + 1

    def _check_progress(self) -> None:
        """Check that the loaded memory and schedule are of the same moment.

        Raises:
            InvalidStateError: They are not, so that a rollout would never become full.
        """
        components = self.components
        if isinstance(components, OffPolicyComponents):
            return
        filled, counted = components.memory.filled, self.schedule.counted_steps
        if int(filled.sum()) != counted // self.num_replicas % components.rollout_steps:
            raise InvalidStateError("the rollout holds another number of steps than were counted")
        if self.env.async_env is None and filled.min() != filled.max():
            raise InvalidStateError("the rollout holds more steps of some environments than others")

    def close(self) -> None:
        """Close the environments and restore the process-wide settings."""
        self._torch_settings.restore()
        self.env.close()

    def _use_saved_engine(self, engine: Any) -> None:
        """Use the engine of the saved run, unless the config asks for another one."""
        engines = self.algo.engines
        if engine in engines.candidates and engine != engines.name:
            engines.use(engine)
            self.engine_note = f"engine {engine}, as before"

    def enter_next_stage(self) -> None:
        """Begin the next stage of the curriculum."""
        self.curriculum.promote()
        self._end_episodes()
        self._open_stage()
        self._begin_episodes(derive_seed(self.config.seed, f"env of stage {self.curriculum.stage}"))

    def _end_episodes(self) -> None:
        """End the episodes under way, also in the memory."""
        self.collector.cancel_or_wait()
        if self.overlap is not None:
            self.overlap.discard_prefetched()
        self.memory.truncate_episodes(self.collector.now)

    def _open_stage(self) -> None:
        """Replace the environments by those of the current stage."""
        self.env.close()
        self.env = self._make_env()
        self.collector = self.build_collector()

    def _make_env(self) -> VecEnv:
        config = self.config
        self._env_stage = self.curriculum.stage
        return make_env(
            config.env,
            self.num_envs,
            config=stage_env_config(config.env_config, self.curriculum.current),
            threads=config.num_threads,
        )

    def _build_components(self) -> Components:
        config = self.config
        compute = Compute(
            self.device,
            amp=config.amp,
            compile=config.compile,
            # Only the fused engine can act while another thread learns.
            engine="fused" if config.overlap and config.engine == "auto" else config.engine,
            threads=config.num_threads,
            overlap=config.overlap,
            replicas=self._group,
        )
        context = BuildContext(
            spec=self.env.env_spec,
            num_envs=self.num_envs,
            streams=self.streams,
            compute=compute,
            codec=self._codec,
            note=self._note,
        )
        components: Components = load_object(ALGOS.get(config.algo).build)(
            config.algo_config, context
        )
        if components.pretraining is not None:
            check_teacher(config.env, components.pretraining.teacher)
        return components

    def _build_learner(self) -> tuple[UpdateSchedule, Learner, Overlap | None]:
        components, rng = self.components, self.streams[own_stream("sample", self._group)]
        if isinstance(components, OffPolicyComponents):
            learner = OffPolicyLearner(
                components,
                rng,
                self.timer,
                self.counters,
                spec=self.env.env_spec,
                num_envs=self.num_envs,
            )
            schedule = RatioSchedule(
                updates_per_step=components.updates_per_step,
                learning_starts=components.learning_starts,
            )
            overlap = self._build_overlap(components, learner) if self.config.overlap else None
            return schedule, learner, overlap
        if self.config.overlap:
            check_overlap(on_policy=True, asynchronous=False, compiled=False)
        rollouts = RolloutSchedule(
            rollout_steps=components.rollout_steps * self.num_replicas,
            updates=components.epochs * components.minibatches,
            reuse=components.reuse,
        )
        return rollouts, OnPolicyLearner(components, rng, self.timer, self.counters), None

    def _build_overlap(self, components: OffPolicyComponents, learner: OffPolicyLearner) -> Overlap:
        compiled = components.algo.compiled_updates
        check_overlap(
            on_policy=False,
            asynchronous=self.env.async_env is not None,
            compiled=compiled is not None,
        )
        assert compiled is not None
        return Overlap(learner, compiled, self.streams["sample"], self.timer, self.counters)

    @property
    def _codec(self) -> ObsCodec | None:
        """Decodes stored observations; codes of several stages would mean different things."""
        return None if self.config.curriculum else self.env.codec

    @property
    def memory_note(self) -> str | None:
        """Size of a replay buffer that stores codes; None for others, whose size is obvious."""
        components = self.components
        if self._codec is None or not isinstance(components, OffPolicyComponents):
            return None
        memory, spec = components.memory, self.env.env_spec
        whole = spec.obs.size * spec.obs.dtype.itemsize
        return (
            f"memory: {memory.capacity:,} transitions in {memory.nbytes / 1e6:,.0f} MB "
            f"({8 * spec.code_words:,} bytes an observation instead of {whole:,})"
        )

    def build_collector(self, actor: Actor | None = None) -> Collecting:
        """What collects into the memory; `actor` acts instead of the algorithm."""
        env, components, actor = self.env, self.components, actor or self.algo
        off_policy = isinstance(components, OffPolicyComponents)
        if env.async_env is not None:
            return AsyncCollector(
                env.async_env,
                actor,
                components.memory,
                self.timer,
                self.counters,
                on_policy=not off_policy,
            )
        slots: StepSlots
        if isinstance(components, OffPolicyComponents):
            slots = DoubleBuffer(components.memory, env.env_spec, env.num_envs)
        else:
            slots = components.memory
        if self.overlap is not None:
            slots = DeferredSlots(slots, self.overlap, self.timer)
        replicas = self.num_replicas
        return Collector(env, actor, slots, self.timer, self.counters, replicas=replicas)


def _describe_engine(algo: Algorithm) -> str:
    engines = algo.engines
    reason = f" and not fused: {engines.refusal}" if engines.refusal else ""
    return f"engine {engines.name}{reason}"
