"""Who plays in environments with a workflow: trained policies, and the baselines."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from briskrl.algos.base import Policy
from briskrl.core.errors import ConfigError
from briskrl.core.types import Array, Bools, StepBuffers
from briskrl.envs.workflow.env import WorkflowVecEnv
from briskrl.envs.workflow.task import Oracle
from briskrl.training.random_policy import RandomPolicy


class WorkflowPlayer(Protocol):
    """Chooses actions in one batch of environments with workflows."""

    def begin(self, env: WorkflowVecEnv, rng: np.random.Generator) -> None:
        """Play in these environments, whose episodes have just begun, with these random numbers."""
        ...

    def act(self, now: StepBuffers) -> Array:
        """Actions (N,) or (N, D) for the present observations."""
        ...


@runtime_checkable
class SamplingPolicy(Policy, Protocol):
    """A policy that can draw actions as it did in training."""

    def sample(self, obs: Array, mask: Bools | None, rng: np.random.Generator) -> Array:
        """Random actions (N,) or (N, D) for observations (N, *obs)."""
        ...


class PolicyPlayer:
    """A trained policy.

    Args:
        policy: The policy.
        stochastic: Draw actions as in training, instead of taking the most likely ones.

    Raises:
        ConfigError: The policy cannot draw actions.
    """

    def __init__(self, policy: Policy, *, stochastic: bool = True) -> None:
        if stochastic and not isinstance(policy, SamplingPolicy):
            raise ConfigError("This policy has only greedy actions; evaluate it with greedy.")
        self._policy, self._stochastic = policy, stochastic

    def begin(self, env: WorkflowVecEnv, rng: np.random.Generator) -> None:
        """See WorkflowPlayer."""
        self._policy, self._rng = self._policy.fitted(env.env_spec), rng
        if self._policy.restart:
            self._policy.restart(np.ones(env.num_envs, np.bool_))

    def act(self, now: StepBuffers) -> Array:
        """See WorkflowPlayer."""
        policy = self._policy
        if policy.restart:
            policy.restart(now.terminated | now.truncated)
        if self._stochastic and isinstance(policy, SamplingPolicy):
            return policy.sample(now.obs, now.mask, self._rng)
        return policy.act(now.obs, now.mask)


class OraclePlayer:
    """Repairs a random open target of the required category, by the true state."""

    def begin(self, env: WorkflowVecEnv, rng: np.random.Generator) -> None:
        """See WorkflowPlayer.

        Raises:
            ConfigError: The task knows no actions for its categories.
        """
        if not isinstance(env.task, Oracle):
            raise ConfigError("This task has no oracle: it does not say which actions repair what.")
        self._env, self._oracle, self._rng = env, env.task, rng

    def act(self, now: StepBuffers) -> Array:
        """See WorkflowPlayer."""
        return self._oracle.fix(self._env.required, self._rng)


class RandomPlayer:
    """Uniformly random legal actions."""

    def begin(self, env: WorkflowVecEnv, rng: np.random.Generator) -> None:
        """See WorkflowPlayer."""
        self._policy = RandomPolicy(env.env_spec.action, int(rng.integers(2**62)))

    def act(self, now: StepBuffers) -> Array:
        """See WorkflowPlayer."""
        return self._policy.act(now.obs, now.mask)
