"""Saved states of PPO in the replicas of a run, divided anew among another number of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from briskrl.core.division import divide
from briskrl.core.types import State

_RETURNS = "reward.returns"
"""Array of the optimizer's state: discounted returns, one per environment."""


def divide_states(
    states: Sequence[Mapping[str, State]], replicas: int, seed: int
) -> list[dict[str, State]]:
    """The states of `replicas` replicas; all have the same network, optimizer and statistics.

    Args:
        states: The saved states of every replica.
        replicas: Their new number.
        seed: Unused: PPO has no random numbers of its own.
    """
    model, optim = states[0]["model"], states[0]["optim"]
    divided = []
    for rank in range(replicas):
        arrays = dict(optim.arrays)
        if _RETURNS in arrays:
            saved = [state["optim"].arrays[_RETURNS] for state in states]
            arrays[_RETURNS] = divide(saved, replicas)[rank]
        divided.append({"model": model, "optim": State(arrays, optim.scalars)})
    return divided
