"""Load a trained policy to act with: from a run folder or an exported bundle."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from briskrl.algos.base import Policy
from briskrl.core.config import to_dict
from briskrl.core.errors import BriskError, ConfigError
from briskrl.core.spec import ActionSpec, ArraySpec
from briskrl.core.types import Array, Bools, Floats
from briskrl.export.acting import ActingPolicy, Decisions, NetworkDecisions
from briskrl.export.runtime import is_bundle, load_bundle, memory_of
from briskrl.export.selection import ActionSelector, Outputs
from briskrl.export.trained_network import network_of
from briskrl.training.evaluate import TrainedAgent, load_trained


class LoadedPolicy(ActingPolicy):
    """The policy of a run folder; see ActingPolicy.

    `agent` is what `evaluate_agent` plays, and `policy` acts on batches of the environment's own
    observations.
    """

    def __init__(self, trained: TrainedAgent, *, memory: bool, seed: int | None) -> None:
        self.agent = trained.agent
        env, env_config = self.agent.env, self.agent.env_config
        super().__init__(
            decisions_of(self.policy, trained.obs, trained.action),
            trained.obs,
            trained.action,
            env=env,
            env_config=env_config,
            memory=memory_of(env, to_dict(env_config)) if memory else None,
            seed=seed,
        )

    @property
    def policy(self) -> Policy:
        """The policy as training saved it."""
        return self.agent.policy


class ForeignDecisions:
    """Decisions of a policy whose network is not known, of an algorithm from elsewhere.

    Args:
        policy: The policy.
        obs: Its observations.
    """

    def __init__(self, policy: Policy, obs: ArraySpec) -> None:
        self._policy = policy
        self._dtype = obs.dtype

    def greedy(self, rows: Floats, legal: Bools | None) -> Array:
        """See Decisions."""
        return self._policy.act(rows.astype(self._dtype, copy=False), legal)

    def sample(self, rows: Floats, legal: Bools | None, rng: np.random.Generator) -> Array:
        """Fails: a policy on its own only acts greedily."""
        raise BriskError(
            f"A {type(self._policy).__name__} draws no actions; call act with deterministic=True."
        )

    def outputs(self, rows: Floats, legal: Bools | None) -> Outputs:
        """The actions alone."""
        return {"action": self.greedy(rows, legal)}


def load_policy(
    path: str | Path,
    *,
    best: bool = False,
    trust: bool = False,
    memory: bool = True,
    seed: int | None = None,
) -> ActingPolicy:
    """Load a trained policy to act with: `load_policy(path).act(obs)`.

    Args:
        path: A run folder, or a folder that `brisk export --to bundle` wrote.
        best: The policy with the best evaluation during training instead of the newest.
        trust: Import the modules that the run names even if other users can change its folder.
        memory: Rebuild what the environment remembers for its observations, so that `act` takes
            raw ones (CAGE-2: 52 bits) and returns actions of the full set. False for a policy that
            takes what the environment itself shows.
        seed: Of actions that are drawn, with `deterministic=False`.

    Returns:
        A LoadedPolicy for a run folder, an ActingPolicy for a bundle.

    Raises:
        RunFolderError: There is no policy.
        ConfigError: The run names modules to import, others can change it, and `trust` is False.
    """
    folder = Path(path)
    # A run folder keeps its policy in a folder of its own.
    if is_bundle(folder):
        return load_bundle(folder, memory=memory, seed=seed)
    return LoadedPolicy(load_trained(folder, best=best, trust=trust), memory=memory, seed=seed)


def decisions_of(policy: Policy, obs: ArraySpec, action: ActionSpec) -> Decisions:
    """How a policy decides, with the numbers behind it if its network is known."""
    try:
        network = network_of(policy)
    except ConfigError:
        return ForeignDecisions(policy, obs)
    return NetworkDecisions(network.score, ActionSelector(action, network.kind))
