"""The trained PPO policy, and how its network is built from a config."""

from __future__ import annotations

import numpy as np
import torch

from briskrl.algos.distributions import Distribution, distribution_of
from briskrl.algos.normalize import RunningMoments
from briskrl.algos.policy_base import Trained
from briskrl.algos.ppo.config import PPOConfig
from briskrl.core.spec import ActionSpec, ArraySpec, EnvSpec
from briskrl.core.types import Array, Bools, Decision
from briskrl.nets.actor_critic import ActorCritic, ActorCriticOptions, build_actor_critic
from briskrl.nets.bodies import BodyOptions
from briskrl.nets.flat_parameters import load_parameters


class StochasticPolicy:
    """Acts with the most likely actions of a trained actor-critic."""

    restart = None

    def __init__(
        self,
        config: PPOConfig,
        obs: ArraySpec,
        action: ActionSpec,
        arrays: dict[str, Array],
    ) -> None:
        self._trained = Trained(config, obs, action, arrays, config.normalize_obs)
        self._decision: Decision | None = None
        self.distribution = distribution_of(action)
        self.network = policy_network(config, obs, self.distribution, torch.Generator())
        load_parameters(self.network, arrays)
        if config.normalize_obs:
            moments = RunningMoments(obs.size)
            moments.load(arrays)
            self.network.inputs.set_moments(moments.mean, moments.deviation)

    def fitted(self, spec: EnvSpec) -> StochasticPolicy:
        """See Policy.fitted."""
        return self if self._trained.fits(spec) else self._trained.refitted(StochasticPolicy, spec)

    @torch.inference_mode()
    def sample(self, obs: Array, mask: Bools | None, rng: np.random.Generator) -> Array:
        """Actions drawn from the policy, (N,) or (N, D); takes the same numbers for any `obs`."""
        out = self.network.policy(torch.from_numpy(obs))
        if self._decision is None or len(self._decision.log_prob) != len(obs):
            spec = EnvSpec(self._trained.obs, self._trained.action, None, False, False)
            self._decision = Decision.allocate(spec, len(obs))
        self.distribution.sample(out.numpy(), mask, rng, self._decision)
        return self._decision.action.copy()

    @torch.inference_mode()
    def act(self, obs: Array, mask: Bools | None) -> Array:
        """The most likely legal actions, (N,) or (N, D)."""
        out = self.network.policy(torch.from_numpy(obs))
        legal = None if mask is None else torch.from_numpy(mask)
        actions: Array = self.distribution.mode(out, legal).numpy()
        return actions


def policy_network(
    config: PPOConfig,
    obs: ArraySpec,
    distribution: Distribution,
    generator: torch.Generator,
) -> ActorCritic:
    """The actor-critic of a config, with weights drawn from `generator` only."""
    options = ActorCriticOptions(
        body=BodyOptions(config.body, config.net, config.channels, config.activation),
        shared=config.shared,
        standardize=config.normalize_obs,
        continuous=distribution.continuous,
    )
    return build_actor_critic(obs, distribution.outputs, options, generator)
