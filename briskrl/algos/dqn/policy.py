"""The trained DQN policy, and how Q-networks are built from a config and evaluated."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from briskrl.algos.distributions import best_actions
from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.dqn.value_range import first_support, is_automatic, loaded_range
from briskrl.algos.losses import legal_values
from briskrl.algos.normalize import RunningMoments
from briskrl.algos.policy_base import Trained
from briskrl.core.errors import ConfigError
from briskrl.core.spec import (
    ActionSpec,
    ArraySpec,
    DiscreteSpec,
    EnvSpec,
    MultiDiscreteSpec,
    SubsetSpec,
)
from briskrl.core.types import Array, Bools, Ints
from briskrl.nets.bodies import BodyOptions
from briskrl.nets.compute import Compute
from briskrl.nets.flat_parameters import load_parameters
from briskrl.nets.q_network import QNetwork, QOptions, build_q_network


class QPolicy:
    """Acts greedily with a trained Q-network; noisy layers act without noise."""

    restart = None

    def __init__(
        self,
        config: DQNConfig,
        obs: ArraySpec,
        action: ActionSpec,
        arrays: dict[str, Array],
    ) -> None:
        self._trained = Trained(config, obs, action, arrays)
        self.network = value_network(config, obs, num_actions(action), torch.Generator())
        load_parameters(self.network, arrays)
        self.network.eval()
        if config.normalize_obs:
            moments = RunningMoments(obs.size)
            moments.load(arrays)
            self.network.inputs.set_moments(moments.mean, moments.deviation)
        self._compute = Compute(torch.device("cpu"))
        self.support = first_support(config, self._compute.device)
        if self.support is not None and is_automatic(config):
            low, high = loaded_range(arrays).tolist()
            self.support = torch.linspace(low, high, config.atoms)
        self._taken = num_taken(action)

    def fitted(self, spec: EnvSpec) -> QPolicy:
        """See Policy.fitted."""
        return self if self._trained.fits(spec) else self._trained.refitted(QPolicy, spec)

    def act(self, obs: Array, mask: Bools | None) -> Ints:
        """Greedy actions (N,) or (N, k)."""
        return greedy_actions(
            self.network, obs, mask, self.support, self._compute, taken=self._taken
        )


@torch.inference_mode()
def greedy_actions(
    network: Callable[[Tensor], Tensor],
    obs: Array,
    mask: Bools | None,
    support: Tensor | None,
    compute: Compute,
    *,
    taken: int | None = None,
) -> Ints:
    """The legal actions of highest value, int64: (N,), or the best `taken` of them (N, k)."""
    values = action_values(network(compute.tensor(obs)), support)
    legal = None if mask is None else compute.tensor(mask)
    if taken is not None:
        several: Ints = best_actions(values, legal, taken).cpu().numpy()
        return several
    actions: Ints = legal_values(values, legal).argmax(1).cpu().numpy()
    return actions


def action_values(out: Tensor, support: Tensor | None) -> Tensor:
    """Expected returns (B, A) from a network's output (B, A), logits or quantiles (B, A, Z)."""
    if support is not None:
        return out.softmax(2) @ support
    return out if out.dim() == 2 else out.mean(2)


def of_actions(out: Tensor, action: Tensor) -> Tensor:
    """The outputs of given actions: of (B, A) for actions (B, k), or of (B, A, Z) for (B, 1).

    Returns:
        (B, k) or (B, 1, Z).
    """
    if out.dim() == 3:
        action = action.unsqueeze(2).expand(-1, 1, out.shape[2])
    return out.gather(1, action)


def num_actions(action: ActionSpec) -> int:
    """The number A of actions.

    Raises:
        ConfigError: They are continuous, or several are taken at once.
    """
    if isinstance(action, MultiDiscreteSpec):
        raise ConfigError(
            "DQN chooses one action at a time, but this environment takes several at once "
            f"{list(action.nvec)}. Use --joint-actions to number all combinations, or --algo ppo."
        )
    if not isinstance(action, DiscreteSpec | SubsetSpec):
        raise ConfigError(
            "DQN chooses among a fixed set of actions, but this environment's are continuous. "
            "Use --algo ppo."
        )
    return action.n


def num_taken(action: ActionSpec) -> int | None:
    """Number k of actions taken at once (SubsetSpec); None for a single action."""
    return action.k if isinstance(action, SubsetSpec) else None


def value_network(
    config: DQNConfig, obs: ArraySpec, actions: int, generator: torch.Generator
) -> QNetwork:
    """The Q-network of a config, with weights drawn from `generator` only."""
    options = QOptions(
        body=BodyOptions(config.body, config.net, config.channels, layer_norm=config.layer_norm),
        dueling=config.dueling,
        noisy_sigma=config.noisy_sigma if config.noisy else None,
        atoms=config.atoms,
        standardize=config.normalize_obs,
    )
    return build_q_network(obs, actions, options, generator)
