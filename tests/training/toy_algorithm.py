"""A complete algorithm outside the package: linear Q-learning in NumPy.

It shows all that training requires of an algorithm: a settings dataclass, `build_components`, a
policy class, and an AlgoEntry in the public registry.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from briskrl.algos.components import BuildContext, OffPolicyComponents
from briskrl.algos.engines import Engines
from briskrl.algos.flops import Flops
from briskrl.algos.registry import ALGOS, AlgoEntry
from briskrl.core.types import State
from briskrl.memory.replay import ReplayBuffer

NAME = "toy-linear-q"


@dataclass(frozen=True, slots=True)
class LinearQConfig:
    """Settings of linear Q-learning."""

    lr: float = 0.01
    """Step size of gradient descent."""
    epsilon: float = 0.1
    """Probability of a random action."""
    gamma: float = 0.9
    """Discount factor."""
    batch_size: int = 16
    """Transitions per update."""


class NumpyEngine:
    """Computes in the algorithm itself."""

    def refresh(self):
        pass

    def drain(self):
        return {}


class LinearQ:
    """Q(s, a) = W[a] . s, learned from replayed transitions."""

    compiled_updates = None

    def __init__(self, config: LinearQConfig, context: BuildContext) -> None:
        self.config = config
        self.engines = Engines(context.compute, torch=NumpyEngine)
        self._rng = context.streams["explore"]
        shape = context.spec.action.n, context.spec.obs.size
        self._weights = context.streams["init"].normal(0, 0.1, shape)
        self._losses = []

    def act(self, obs, mask, counters, out):
        greedy = _greedy(self._weights, obs)
        random = self._rng.integers(0, len(self._weights), len(obs))
        out.action[...] = np.where(self._rng.random(len(obs)) < self.config.epsilon, random, greedy)

    def update(self, batch, updates, counters):
        errors = np.zeros(batch.reward.shape, np.float32)
        for k in range(updates):
            obs, next_obs = (
                array[k].reshape(len(array[k]), -1) for array in (batch.obs, batch.next_obs)
            )
            target = batch.reward[k] + batch.discount[k] * (next_obs @ self._weights.T).max(1)
            error = target - np.sum(self._weights[batch.action[k]] * obs, axis=1)
            np.add.at(
                self._weights, batch.action[k], self.config.lr * error[:, None] * obs / len(obs)
            )
            errors[k] = np.abs(error)
            self._losses.append(float(np.mean(error**2)))
        return errors

    def flops(self, num_envs):
        return Flops(per_step=2.0 * self._weights.size, per_update=6.0 * self._weights.size)

    def progress(self, counters):
        losses, self._losses = self._losses, []
        return {"loss": float(np.mean(losses))} if losses else {}

    def state(self):
        return {"model": State({"weights": self._weights.copy()})}

    def load_state(self, state):
        self._weights[...] = state["model"].arrays["weights"]


class LinearQPolicy:
    """The greedy agent of the learned weights."""

    restart = None

    def __init__(self, config, obs, action, arrays):
        self._weights = arrays["weights"]

    def act(self, obs, mask):
        return _greedy(self._weights, obs)

    def fitted(self, spec):
        return self


def _greedy(weights, obs):
    return (obs.reshape(len(obs), -1) @ weights.T).argmax(1)


def build_components(config: LinearQConfig, context: BuildContext) -> OffPolicyComponents:
    """The algorithm with a replay buffer and one update per 8 transitions."""
    memory = ReplayBuffer(
        spec=context.spec,
        num_envs=context.num_envs,
        capacity=512,
        n_step=1,
        gamma=config.gamma,
        codec=context.codec,
    )
    return OffPolicyComponents(
        algo=LinearQ(config, context),
        memory=memory,
        batch_size=config.batch_size,
        updates_per_step=0.125,
        learning_starts=100,
    )


def register() -> None:
    """Make the algorithm available by name."""
    if NAME not in ALGOS:
        module = "tests.training.toy_algorithm"
        ALGOS.add(
            NAME,
            AlgoEntry(
                summary="Linear Q-learning in NumPy",
                config=f"{module}:LinearQConfig",
                build=f"{module}:build_components",
                policy=f"{module}:LinearQPolicy",
            ),
        )
