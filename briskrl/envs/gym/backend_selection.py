"""Make a batch of Gymnasium environments, and choose its backend by the cost of a step."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from briskrl.core.cpu import usable_cores
from briskrl.core.errors import ConfigError, EnvWorkerError
from briskrl.core.spec import EnvSpec
from briskrl.envs.base import VecEnv
from briskrl.envs.gym.compiled.registry import find_compiled, make_compiled
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.deadline import Deadline
from briskrl.envs.gym.env_factory import EnvFactory, GymEnv
from briskrl.envs.gym.preprocessing import ATARI_PACKAGE
from briskrl.envs.gym.returned import InvalidReturnError, to_flags, unpack_step
from briskrl.envs.gym.sync import GymSyncEnv
from briskrl.envs.gym.user_code import describe_error
from briskrl.envs.gym.vector import adapt_vector

Backend = Literal["compiled", "sync", "process", "async", "vector"]

MAX_STEPS, MIN_STEPS = 200, 8
MAX_MEASURE_S = 0.25
"""An environment is measured for MAX_STEPS, or this long if at least MIN_STEPS were taken."""
CHEAP_S = 50e-6
"""A cheaper step costs less than training on it; starting workers would not pay off."""
ROUND_OVERHEAD_S = 100e-6
"""Overhead of one step of all workers, beyond the environments' own steps."""
MIN_SPEEDUP = 1.3
"""Expected speedup that justifies a more complicated backend."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Measured costs of one environment."""

    seconds: NDArray[np.float64]
    """(M,): seconds per step, resets included."""
    waits: bool = False
    """Whether most of the time is spent sleeping or waiting, which needs no core."""

    @property
    def mean(self) -> float:
        """Seconds per step."""
        return float(self.seconds.mean())

    @property
    def spread(self) -> float:
        """Standard deviation of the steps, as a fraction of their mean."""
        return float(self.seconds.std() / self.seconds.mean())

    def barrier(self, num_envs: int, workers: int) -> float:
        """Factor by which a lockstep round takes longer because workers wait for the slowest.

        Estimated by resampling rounds from the measured steps.
        """
        rng = np.random.default_rng(0)
        rounds = rng.choice(self.seconds, (200, workers, max(1, num_envs // workers)))
        sums = rounds.sum(axis=2)
        return float(sums.max(axis=1).mean() / sums.mean())


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """How many workers each backend would have."""

    cores: int
    lockstep: int
    """Workers of the process backend."""
    independent: int
    """Workers of the async backend."""

    def concurrent_steps(self, workers: int, costs: Costs) -> int:
        """How many steps run at the same time."""
        return workers if costs.waits else min(workers, self.cores)


def build(
    member: str,
    num_envs: int,
    config: GymConfig,
    *,
    threads: int = 1,
    hold_ended: bool = False,
    render_mode: str | None = None,
) -> VecEnv:
    """N Gymnasium environments with the id `member`.

    With a render mode or `hold_ended`, the backend is always sync.

    Raises:
        ConfigError: The id is unknown, or the environment cannot be made or used.
    """
    return build_from(
        EnvFactory(member, config),
        num_envs,
        threads=threads,
        hold_ended=hold_ended,
        render_mode=render_mode,
    )


def build_from(
    factory: EnvFactory,
    num_envs: int,
    *,
    threads: int = 1,
    hold_ended: bool = False,
    render_mode: str | None = None,
) -> VecEnv:
    """N environments of a factory; see `build`."""
    config = factory.config
    if render_mode is not None:
        check_render_mode(factory, render_mode)
    spec = factory.spec()
    if config.min_ready > num_envs:
        raise ConfigError(f"min_ready ({config.min_ready}) is more than num_envs ({num_envs}).")
    if hold_ended or render_mode is not None:
        return GymSyncEnv(factory, num_envs, spec, hold_ended=hold_ended, render_mode=render_mode)
    backend, notes = config.backend, [_describe_left_out(spec), _advise_atari(factory)]
    if backend == "auto":
        backend, note = choose(factory, num_envs)
        notes.append(note)
    env = _make(backend, factory, num_envs, spec, threads)
    env.notes.extend(filter(None, notes))
    made: VecEnv = env
    return made


def _describe_left_out(spec: EnvSpec) -> str:
    if not spec.left_out:
        return ""
    return f"Parts of the observations are text and are left out: {', '.join(spec.left_out)}."


def _advise_atari(factory: EnvFactory) -> str:
    config = factory.config.expanded()
    if config.preprocesses or not str(factory.entry_point).startswith(ATARI_PACKAGE):
        return ""
    return (
        f"{factory.name} shows raw frames. The usual preprocessing of Atari games (--atari: 84x84, "
        "grayscale, every fourth frame, the last four at once) makes updates cheaper and games "
        "easier to learn."
    )


def choose(factory: EnvFactory, num_envs: int) -> tuple[Backend, str]:
    """The backend for an environment, and a note for the user that gives the reason.

    Raises:
        ConfigError: The environment raised while it was measured.
    """
    found = find_compiled(factory)
    if found.version is not None:
        return "compiled", (
            f"backend auto: {factory.name} has a compiled version, bit-identical in "
            f"{found.steps_compared:,} steps compared here, so compiled."
        )
    process: Any = import_module("briskrl.envs.gym.process")
    workers = WorkerCounts(
        cores=usable_cores(),
        lockstep=process.num_workers(num_envs, factory.config.workers, partial=False),
        independent=process.num_workers(num_envs, factory.config.workers, partial=True),
    )
    backend, note = decide(measure(factory), num_envs, workers, factory.name)
    if found.reason:
        note = f"The compiled version of {factory.name} is not used: {found.reason}. {note}"
    return backend, note


def decide(costs: Costs, num_envs: int, workers: WorkerCounts, name: str) -> tuple[Backend, str]:
    """The backend for measured costs, and a note for the user that gives the reason."""
    cost = (
        f"backend auto: a step of {name} takes {_duration(costs.mean)} "
        f"(spread {100 * costs.spread:.0f}%, over {len(costs.seconds)} steps)"
    )
    if costs.mean < CHEAP_S:
        return "sync", f"{cost}, less than training on it, so sync."
    if workers.independent < 2:
        return "sync", f"{cost}; there is only one worker, so sync."
    alone = num_envs * costs.mean
    loss = costs.barrier(num_envs, workers.lockstep)
    lockstep_s = alone / workers.concurrent_steps(workers.lockstep, costs) * loss + ROUND_OVERHEAD_S
    independent_s = alone / workers.concurrent_steps(workers.independent, costs) + ROUND_OVERHEAD_S
    if alone / min(lockstep_s, independent_s) < MIN_SPEEDUP:
        gain = alone / min(lockstep_s, independent_s)
        return (
            "sync",
            f"{cost}; {workers.lockstep} workers would make it {gain:.1f}x, so sync.",
        )
    if lockstep_s / independent_s >= MIN_SPEEDUP:
        return "async", (
            f"{cost}; {workers.independent} workers that need not wait for the slowest should "
            f"make it {alone / independent_s:.1f}x instead of {alone / lockstep_s:.1f}x, so async."
        )
    return "process", (
        f"{cost}; {workers.lockstep} workers should make it {alone / lockstep_s:.1f}x, so process."
    )


def measure(factory: EnvFactory) -> Costs:
    """Measure steps with random actions, on an instance that is then closed."""
    env = factory.make()
    try:
        with factory.deadline("cannot be used: a step or reset") as deadline:
            env.reset(seed=0)
            seconds, waited = _times(env, factory.max_steps, deadline)
        return Costs(_without_largest(seconds), waited)
    except (ConfigError, EnvWorkerError):
        raise
    except InvalidReturnError as error:
        raise ConfigError(f"{factory.name} returned {error}.") from error
    except Exception as error:
        raise ConfigError(f"{factory.name} raised {describe_error(error)}") from error
    finally:
        env.close()


def check_render_mode(factory: EnvFactory, render_mode: str) -> None:
    """Check that the environment supports a render mode.

    Raises:
        ConfigError: It does not; the message names the modes it has.
    """
    env = factory.make()
    modes = list(env.metadata.get("render_modes", []))
    env.close()
    if render_mode not in modes:
        raise ConfigError(
            f"{factory.name} cannot be rendered as {render_mode}. "
            f"Its render modes: {', '.join(modes) or 'none'}."
        )


def _times(env: GymEnv, limit: int | None, deadline: Deadline) -> tuple[NDArray[np.float64], bool]:
    """Seconds of each step, and whether most of them were spent waiting."""
    space = copy.deepcopy(env.action_space)
    space.seed(0)
    actions = [space.sample() for _ in range(MAX_STEPS + 1)]
    deadline.restart()
    unpack_step(env.step(actions[-1]))
    times, length = [], 1
    start = _Clock.now()
    for action in actions[:-1]:
        deadline.restart()
        before = _Clock.now()
        _, _, terminated, truncated, _ = unpack_step(env.step(action))
        length += 1
        if any(to_flags(terminated, truncated)) or length == limit:
            env.reset()
            length = 0
        after = _Clock.now()
        times.append(after.since(before))
        if len(times) >= MIN_STEPS and after.wall - start.wall > MAX_MEASURE_S:
            break
    waited = sum(times) > 2 * (after.cpu - start.cpu)
    return np.array(times), waited


@dataclass(frozen=True, slots=True)
class _Clock:
    """Wall time and CPU time of this thread."""

    wall: float
    cpu: float
    waits: int | None
    """Voluntary context switches of the thread; None if the system does not count them."""

    @classmethod
    def now(cls) -> _Clock:
        return cls(time.perf_counter(), time.thread_time(), _waits())

    def since(self, before: _Clock) -> float:
        """Seconds from `before` to this moment that the environment used.

        CPU time if the thread never waited, which excludes time that other programs had the core;
        wall time otherwise.
        """
        computed = self.waits is not None and self.waits == before.waits
        return self.cpu - before.cpu if computed else self.wall - before.wall


def _waits() -> int | None:
    try:
        import resource

        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    except (ImportError, AttributeError):
        return None


def _without_largest(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """The times without the largest one percent, which are likely due to other programs."""
    ordered = np.sort(times)
    return ordered[: len(ordered) - len(ordered) // 100]


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} us"
    return f"{1e3 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _make(backend: Backend, factory: EnvFactory, num_envs: int, spec: EnvSpec, threads: int) -> Any:
    if backend == "compiled":
        return make_compiled(factory, num_envs, spec, threads=threads)
    if backend == "sync":
        return GymSyncEnv(factory, num_envs, spec)
    if backend == "vector":
        return adapt_vector(factory.make_vector(num_envs))
    process: Any = import_module("briskrl.envs.gym.process")
    partial = backend == "async"
    return process.GymProcessEnv(factory, num_envs, factory.config, spec, partial=partial)
