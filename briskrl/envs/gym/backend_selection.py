"""From an id of Gymnasium to a batch of environments, on the backend that suits their cost."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from briskrl.core.cpu import usable_cores
from briskrl.core.errors import ConfigError
from briskrl.core.spec import EnvSpec
from briskrl.envs.base import VecEnv
from briskrl.envs.gym.compiled.lookup import make_compiled, offer
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvRecipe, GymEnv
from briskrl.envs.gym.sync import GymSyncEnv
from briskrl.envs.gym.vector import adapt_vector

Backend = Literal["compiled", "sync", "process", "async", "vector"]

MOST_STEPS, FEWEST_STEPS = 200, 8
LONGEST_S = 0.25
"""How long an environment is measured: until enough steps, or this long with the fewest."""
CHEAP_S = 50e-6
"""A cheaper step costs less than learning from it does; workers would not be worth their start."""
HANDOVER_S = 100e-6
"""What one round of all workers costs beyond the environments' own steps."""
WORTH = 1.3
"""How many times faster a more complicated backend must promise to be."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What was measured of one environment."""

    seconds: NDArray[np.float64]
    """(M,): per step, resets included."""
    waits: bool = False
    """Whether most of it is sleeping or waiting, which needs no core."""

    @property
    def mean(self) -> float:
        """Seconds per step."""
        return float(self.seconds.mean())

    @property
    def spread(self) -> float:
        """Standard deviation of the steps, as a share of their mean."""
        return float(self.seconds.std() / self.seconds.mean())

    def barrier(self, num_envs: int, workers: int) -> float:
        """How many times longer a round takes than its work, because workers wait for the last.

        Estimated by drawing rounds from the measured steps.
        """
        rng = np.random.default_rng(0)
        rounds = rng.choice(self.seconds, (200, workers, max(1, num_envs // workers)))
        sums = rounds.sum(axis=2)
        return float(sums.max(axis=1).mean() / sums.mean())


@dataclass(frozen=True, slots=True)
class Crew:
    """How many workers there would be."""

    cores: int
    in_step: int
    """Workers of the process backend."""
    at_will: int
    """Workers of the async backend."""

    def at_once(self, workers: int, costs: Costs) -> int:
        """How many steps go on at the same time."""
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
    """N environments of Gymnasium with the id `member`.

    What is drawn or held is stepped by Gymnasium in this process, whatever the settings say.

    Raises:
        ConfigError: The id is unknown, or the environment cannot be made or used.
    """
    recipe = EnvRecipe(member, config)
    if render_mode is not None:
        check_drawing(recipe, render_mode)
    spec = recipe.spec()
    if config.min_ready > num_envs:
        raise ConfigError(f"min_ready ({config.min_ready}) is more than num_envs ({num_envs}).")
    if hold_ended or render_mode is not None:
        return GymSyncEnv(recipe, num_envs, spec, hold_ended=hold_ended, render_mode=render_mode)
    backend, notes = cast(Backend, config.backend), []
    if config.backend == "auto":
        backend, told = choose(recipe, num_envs)
        notes = [told]
    env = _make(backend, recipe, num_envs, spec, threads)
    env.notes += notes
    return cast(VecEnv, env)


def choose(recipe: EnvRecipe, num_envs: int) -> tuple[Backend, str]:
    """The backend for a recipe, and a sentence that says what was found and why it was chosen.

    Raises:
        ConfigError: The environment raised while it was measured.
    """
    found = offer(recipe)
    if found.stand_in is not None:
        return "compiled", (
            f"backend auto: gym:{recipe.id} has a compiled version, equal to it to the bit in "
            f"{found.tried:,} steps tried here, so compiled."
        )
    process: Any = import_module("briskrl.envs.gym.process")
    crew = Crew(
        cores=usable_cores(),
        in_step=process.num_workers(num_envs, recipe.config.workers, partial=False),
        at_will=process.num_workers(num_envs, recipe.config.workers, partial=True),
    )
    backend, told = decide(measure(recipe), num_envs, crew, f"gym:{recipe.id}")
    if found.refused:
        told = f"The compiled version of gym:{recipe.id} is not used: {found.refused}. {told}"
    return backend, told


def decide(costs: Costs, num_envs: int, crew: Crew, name: str) -> tuple[Backend, str]:
    """The backend for measured costs, and the sentence about it."""
    told = (
        f"backend auto: a step of {name} takes {_duration(costs.mean)} "
        f"(spread {100 * costs.spread:.0f}%, over {len(costs.seconds)} steps)"
    )
    if costs.mean < CHEAP_S:
        return "sync", f"{told}, less than learning from it, so sync."
    if crew.at_will < 2:
        return "sync", f"{told}; there is nothing to share out, so sync."
    alone = num_envs * costs.mean
    loss = costs.barrier(num_envs, crew.in_step)
    in_step = alone / crew.at_once(crew.in_step, costs) * loss + HANDOVER_S
    at_will = alone / crew.at_once(crew.at_will, costs) + HANDOVER_S
    if alone / min(in_step, at_will) < WORTH:
        gain = alone / min(in_step, at_will)
        return "sync", f"{told}; {crew.in_step} workers would make it {gain:.1f}x, so sync."
    if in_step / at_will >= WORTH:
        return "async", (
            f"{told}; {crew.at_will} workers that need not wait for the slowest should make it "
            f"{alone / at_will:.1f}x instead of {alone / in_step:.1f}x, so async."
        )
    return "process", (
        f"{told}; {crew.in_step} workers should make it {alone / in_step:.1f}x, so process."
    )


def measure(recipe: EnvRecipe) -> Costs:
    """What steps with random actions cost, on an instance that is then closed."""
    env = recipe.make()
    try:
        env.reset(seed=0)
        seconds, waited = _times(env, recipe.max_steps)
        return Costs(_without_largest(seconds), waited)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"gym:{recipe.id} raised {type(error).__name__}: {error}") from error
    finally:
        env.close()


def check_drawing(recipe: EnvRecipe, render_mode: str) -> None:
    """Refuse a render mode that the environment does not offer.

    Raises:
        ConfigError: It does not; the message names the modes it has.
    """
    env = recipe.make()
    modes = list(env.metadata.get("render_modes", []))
    env.close()
    if render_mode not in modes:
        raise ConfigError(
            f"gym:{recipe.id} cannot be drawn as {render_mode}. "
            f"Its render modes: {', '.join(modes) or 'none'}."
        )


def _times(env: GymEnv, limit: int | None) -> tuple[NDArray[np.float64], bool]:
    """Seconds of each step, and whether most of them were spent waiting."""
    space = copy.deepcopy(env.action_space)
    space.seed(0)
    actions = [space.sample() for _ in range(MOST_STEPS + 1)]
    env.step(actions[-1])
    times, length = [], 1
    begun = _Moment.now()
    for action in actions[:-1]:
        before = _Moment.now()
        _, _, terminated, truncated, _ = env.step(action)
        length += 1
        if terminated or truncated or length == limit:
            env.reset()
            length = 0
        after = _Moment.now()
        times.append(after.since(before))
        if len(times) >= FEWEST_STEPS and after.wall - begun.wall > LONGEST_S:
            break
    waited = sum(times) > 2 * (after.cpu - begun.cpu)
    return np.array(times), waited


@dataclass(frozen=True, slots=True)
class _Moment:
    """Where the clocks of this thread stand."""

    wall: float
    cpu: float
    waits: int | None
    """How often the thread has given up its core by itself; None if the system does not tell."""

    @classmethod
    def now(cls) -> _Moment:
        return cls(time.perf_counter(), time.thread_time(), _waits())

    def since(self, before: _Moment) -> float:
        """Seconds from `before` to this moment that are the environment's own.

        Computing counts without the time that other programs had the core; sleeping and waiting
        count as they are.
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
    """The times without the largest hundredth, which are likely other programs' doing."""
    ordered = np.sort(times)
    return ordered[: len(ordered) - len(ordered) // 100]


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} us"
    return f"{1e3 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _make(backend: Backend, recipe: EnvRecipe, num_envs: int, spec: EnvSpec, threads: int) -> Any:
    if backend == "compiled":
        return make_compiled(recipe, num_envs, spec, threads=threads)
    if backend == "sync":
        return GymSyncEnv(recipe, num_envs, spec)
    if backend == "vector":
        return adapt_vector(recipe.make_vector(num_envs))
    process: Any = import_module("briskrl.envs.gym.process")
    partial = backend == "async"
    return process.GymProcessEnv(recipe, num_envs, recipe.config, spec, partial=partial)
