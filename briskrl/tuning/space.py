"""The search space: which settings may change, within which bounds.

There are three kinds of settings. Engine, threads and backend do not change the algorithm: runs
differ as runs with different seeds do. The number of environments and `overlap` change the age of
the policy that collects, which is harmless within bounds derived from the algorithm's settings.
Everything else changes learning and is tuned only on request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import log2
from typing import Any

from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.ppo.config import PPOConfig
from briskrl.envs.gym.compiled.registry import find_compiled
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.training.config import TrainConfig
from briskrl.tuning.config import TuneConfig

SMALLEST = 8
"""Fewest environments; one call steps them all, so fewer only raise the overhead per step."""
MOST_ENVS = 16_384
MOST_ENVS_IN_PYTHON = 256
"""Most environments: compiled, and Gymnasium environments that are stepped one by one."""
TARGET_SHARE = 8
"""The updates of an iteration are at most 1 / TARGET_SHARE of the target network's period."""
BUFFER_SHARE = 64
"""The transitions of an iteration are at most 1 / BUFFER_SHARE of the replay buffer."""
STARTS_SHARE = 4
"""The transitions of an iteration are at most 1 / STARTS_SHARE of `learning_starts`."""
STEPS_EACH = 1000
"""Fewest steps per environment in the run."""
SMALLEST_MINIBATCH = 64

KINDS = {
    "engine": "rounding only",
    "threads": "rounding only",
    "backend": "nothing; runs with async are not reproducible to the bit",
    "num_envs": "the age of the acting policy, within bounds",
    "overlap": "the acting policy is one iteration behind",
    "minibatch": "the minibatch size, tuned on request",
}
"""Effect of each setting on a run besides its speed."""

Value = int | str | bool


@dataclass(frozen=True, slots=True)
class Point:
    """One value per axis, in the order of the space."""

    values: tuple[tuple[str, Value], ...]

    def __getitem__(self, axis: str) -> Value:
        return dict(self.values)[axis]

    def __str__(self) -> str:
        return ", ".join(f"{axis} {_show(value)}" for axis, value in self.values)

    def as_dict(self) -> dict[str, Value]:
        """Axes and their values."""
        return dict(self.values)

    def changed_axes(self, other: Point) -> list[str]:
        """Axes in which two points differ."""
        return [axis for axis, value in self.values if value != other[axis]]


class Space:
    """The points of the search, and their configs.

    Args:
        config: The complete config of the start.
        settings: What to keep and what to tune in addition.
        cores: Cores available to this process.
        fused: Whether the fused engine supports these networks.
    """

    def __init__(
        self,
        config: TrainConfig,
        settings: TuneConfig,
        *,
        cores: int,
        fused: bool,
    ) -> None:
        self.config = config
        self._replays = isinstance(config.algo_config, DQNConfig)
        free = "num_envs" in settings.also
        backends = _backends(config)
        self._most_envs = MOST_ENVS_IN_PYTHON if "sync" in backends else MOST_ENVS
        axes: dict[str, list[Value]] = {
            "num_envs": list(self._env_counts(free)),
            "threads": list(_thread_counts(config.num_threads, cores)),
            "engine": ["fused", "torch"] if fused else ["torch"],
        }
        if backends:
            axes["backend"] = [*backends, *(["vector"] if "vector" in settings.also else [])]
        if self._replays and fused and cores > 1:
            axes["overlap"] = [False, True]
        if "minibatch" in settings.also and not self._replays:
            axes["minibatch"] = list(self._minibatches())
        self._free = free
        self.start = Point(tuple((axis, self._start_value(axis)) for axis in axes))
        for axis in set(settings.keep) & set(axes):
            axes[axis] = [self.start[axis]]
        self.axes = {axis: tuple(values) for axis, values in axes.items()}

    @property
    def points(self) -> list[Point]:
        """The start, its changes of one setting, and every other valid combination.

        If the start has `auto` settings, its single changes keep them: otherwise every other point
        would differ from the start in several settings, and single effects could not be estimated.
        """
        found = [self.start, *self._single_changes()]
        for values in product(*self.axes.values()):
            found.append(Point(tuple(zip(self.axes, values, strict=True))))
        return [point for point in dict.fromkeys(found) if self._can_work(point)]

    def _single_changes(self) -> Iterator[Point]:
        present = self.start.as_dict()
        for axis, values in self.axes.items():
            for value in values:
                yield Point(tuple((present | {axis: value}).items()))

    def apply(self, point: Point) -> TrainConfig:
        """The config of a point; for the start, the original config itself."""
        if point == self.start:
            return self.config
        config, values = self.config, point.as_dict()
        algo, env = config.algo_config, config.env_config
        plain = ("threads", "engine", "overlap")
        changes: dict[str, Any] = {axis: values[axis] for axis in plain if axis in values}
        num_envs = int(values["num_envs"])
        if num_envs != config.num_envs:
            changes |= self._with_envs(num_envs)
            algo = changes.pop("algo_config", algo)
        if "minibatch" in values:
            algo = replace(algo, minibatch_size=int(values["minibatch"]))
        if "backend" in values:
            waits = values["backend"] == "async"
            env = replace(env, backend=values["backend"], min_ready=env.min_ready if waits else 0)
        return replace(config, **changes, algo_config=algo, env_config=env)

    def distance(self, point: Point) -> float:
        """Amount of change relative to the start; smaller is better among near ties."""
        changed = point.changed_axes(self.start)
        far = float(len(changed))
        if "num_envs" in changed:
            far += abs(log2(int(point["num_envs"]) / self.config.num_envs))
        return far + (10.0 if "minibatch" in changed else 0.0)

    def _start_value(self, axis: str) -> Value:
        """Value of the start; `auto` is a value of its own."""
        config = self.config
        if axis == "backend":
            return str(config.env_config.backend)
        if axis == "minibatch":
            return int(config.algo_config.minibatch_size)
        value: Value = config.num_threads if axis == "threads" else getattr(config, axis)
        return value

    def _can_work(self, point: Point) -> bool:
        values = point.as_dict()
        if point == self.start or not values.get("overlap"):
            return True
        return values["engine"] in ("fused", "auto") and values.get("backend") != "async"

    def _env_counts(self, free: bool) -> Iterator[int]:
        """Powers of two within the bounds, and the current number."""
        config = self.config
        most = max(config.num_envs, self._most_envs)
        fits = self._preserves_learning if not free else (lambda _: True)
        counts = {2**power for power in range(15)} | {config.num_envs}
        for count in sorted(counts):
            if count == config.num_envs or (SMALLEST <= count <= most and fits(count)):
                yield count

    def _preserves_learning(self, count: int) -> bool:
        """Whether learning is unchanged with this number of environments."""
        config, algo = self.config, self.config.algo_config
        steps = config.budget.steps
        if count > config.num_envs and steps is not None and count * STEPS_EACH > steps:
            return False
        if self._replays:
            return count < config.num_envs or count <= max_replay_envs(algo)
        if isinstance(algo, PPOConfig):
            return _keeps_rollout(algo, config.num_envs, count)
        return False

    def _with_envs(self, count: int) -> dict[str, Any]:
        """Settings that change with the number of environments."""
        config = self.config
        changes: dict[str, Any] = {"num_envs": count}
        if not self._replays and not self._free:
            rollout = config.num_envs * config.algo_config.update_steps
            changes["algo_config"] = replace(config.algo_config, update_steps=rollout // count)
        if config.max_episodes is not None:
            # max_episodes counts per environment; the length of the run must not change.
            changes |= {"max_episodes": None, "episodes": config.budget.episodes}
        return changes

    def _minibatches(self) -> Iterator[int]:
        algo, num_envs = self.config.algo_config, self.config.num_envs
        rollout = num_envs * algo.update_steps
        sizes = {2**power for power in range(21) if SMALLEST_MINIBATCH <= 2**power <= rollout}
        yield from sorted(sizes | {algo.minibatch_size})


def max_replay_envs(algo: DQNConfig) -> int:
    """The most environments with which the acting policy stays recent enough."""
    # Soft updates move the target network the share tau of the way every time.
    period = algo.target_every / algo.tau
    if algo.target_unit == "updates":
        period /= algo.ratio
    bounds = (period / TARGET_SHARE, algo.buffer_size / BUFFER_SHARE)
    return int(min(*bounds, max(algo.learning_starts, 1) / STARTS_SHARE))


def _keeps_rollout(algo: PPOConfig, present: int, count: int) -> bool:
    """Whether the rollout keeps its size and stays longer than the horizon of GAE.

    GAE weighs the TD error k steps later by (gamma * lambda)^k, so steps beyond the sum of these
    weights matter little. With lambda 1 it extends to the end of the rollout, which must not move.
    """
    rollout = present * algo.update_steps
    if rollout % count or algo.gae_lambda >= 1:
        return False
    horizon = 1 / (1 - algo.gamma * algo.gae_lambda)
    return rollout // count >= min(algo.update_steps, horizon)


def _backends(config: TrainConfig) -> list[Value]:
    """Backends for a Gymnasium environment; empty for native environments.

    A compiled version behaves identically and is far faster than all other backends.
    """
    family, _, member = config.env.partition(":")
    if family != "gym":
        return []
    if find_compiled(EnvFactory(member, config.env_config)).version is not None:
        return ["compiled"]
    return ["sync", "process", "async"]


def _thread_counts(present: int, cores: int) -> list[int]:
    doubled = {2**power for power in range(11) if 2**power <= cores}
    return sorted(doubled | {cores, present})


def _show(value: Value) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
