"""The trained PQN policy, and how its network is built from a config."""

from __future__ import annotations

import torch

from briskrl.algos.dqn.policy import greedy_actions, num_actions
from briskrl.algos.normalize import RunningMoments
from briskrl.algos.policy_base import Trained
from briskrl.algos.pqn.config import PQNConfig
from briskrl.core.spec import ActionSpec, ArraySpec, EnvSpec
from briskrl.core.types import Array, Bools, Ints
from briskrl.nets.bodies import BodyOptions
from briskrl.nets.compute import Compute
from briskrl.nets.flat_parameters import load_parameters
from briskrl.nets.q_network import QNetwork, QOptions, build_q_network


class PQNPolicy:
    """Acts greedily with a trained Q-network."""

    restart = None

    def __init__(
        self,
        config: PQNConfig,
        obs: ArraySpec,
        action: ActionSpec,
        arrays: dict[str, Array],
    ) -> None:
        self._trained = Trained(config, obs, action, arrays, config.normalize_obs)
        self.network = pqn_network(config, obs, num_actions(action), torch.Generator())
        load_parameters(self.network, arrays)
        self.network.eval()
        if config.normalize_obs:
            moments = RunningMoments(obs.size)
            moments.load(arrays)
            self.network.inputs.set_moments(moments.mean, moments.deviation)
        self._compute = Compute(torch.device("cpu"))

    def fitted(self, spec: EnvSpec) -> PQNPolicy:
        """See Policy.fitted."""
        return self if self._trained.fits(spec) else self._trained.refitted(PQNPolicy, spec)

    def act(self, obs: Array, mask: Bools | None) -> Ints:
        """Greedy actions (N,)."""
        return greedy_actions(self.network, obs, mask, None, self._compute)


def pqn_network(
    config: PQNConfig, obs: ArraySpec, actions: int, generator: torch.Generator
) -> QNetwork:
    """The Q-network of a config, with weights drawn from `generator` only."""
    options = QOptions(
        body=BodyOptions(config.body, config.net, config.channels, layer_norm=config.layer_norm),
        dueling=config.dueling,
        noisy_sigma=None,
        atoms=1,
        standardize=config.normalize_obs,
    )
    return build_q_network(obs, actions, options, generator)
