"""A value network as a policy: how it is built from a config, read, and acted on greedily."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from briskrl.algos.distributions import best_actions
from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.losses import legal_values
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
    """The greedy agent of a trained value network; noisy layers act without noise."""

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
        self._compute = Compute(torch.device("cpu"))
        self._support = support_of(config, self._compute.device)
        self._taken = num_taken(action)

    def fitted(self, spec: EnvSpec) -> QPolicy:
        """See Policy.fitted."""
        return self if self._trained.fits(spec) else self._trained.refitted(QPolicy, spec)

    def act(self, obs: Array, mask: Bools | None) -> Ints:
        """Greedy actions (N,) or (N, k)."""
        return greedy_actions(
            self.network, obs, mask, self._support, self._compute, taken=self._taken
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
    """Expected returns (B, A) from a network's output (B, A) or logits (B, A, Z)."""
    return out if support is None else out.softmax(2) @ support


def of_actions(out: Tensor, action: Tensor) -> Tensor:
    """What outputs (B, A) or (B, A, Z) say of one action (B, 1) each: (B, 1) or (B, 1, Z).

    Of outputs (B, A) several actions (B, k) may be asked.
    """
    if out.dim() == 3:
        action = action.unsqueeze(2).expand(-1, 1, out.shape[2])
    return out.gather(1, action)


def num_actions(action: ActionSpec) -> int:
    """How many actions there are to choose from.

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
    """How many actions of one set are taken at once; None for a single one."""
    return action.k if isinstance(action, SubsetSpec) else None


def value_network(
    config: DQNConfig, obs: ArraySpec, actions: int, generator: torch.Generator
) -> QNetwork:
    """The network a config asks for, with weights drawn from `generator` alone."""
    options = QOptions(
        body=BodyOptions(config.body, config.net, config.channels),
        dueling=config.dueling,
        noisy_sigma=config.noisy_sigma if config.noisy else None,
        atoms=config.atoms,
    )
    return build_q_network(obs, actions, options, generator)


def support_of(config: DQNConfig, device: torch.device) -> Tensor | None:
    """The returns (Z,) that a distribution is over, or None if the mean alone is learnt."""
    if config.atoms == 1:
        return None
    return torch.linspace(config.v_min, config.v_max, config.atoms, device=device)
