"""How joint training divides its episodes, and which workflows are swept afterwards."""

from __future__ import annotations

import numpy as np

from briskrl.core.errors import ConfigError
from briskrl.core.rng import derive_seed
from briskrl.core.types import JSON
from briskrl.orders.order_arrays import order_ids, unique_orders
from briskrl.workflows.run.setup import RunSetup

MOST_SWEPT = 500
"""Workflows of a sweep, at most."""
FINETUNE_SHARE = 0.3
"""Part of all episodes that fine-tuning may reserve, at most."""


def sweep_ids(setup: RunSetup) -> list[int]:
    """Ids of the workflows that the joint policy is evaluated under."""
    space = setup.space
    if space.size <= MOST_SWEPT:
        orders = space.orders
    else:
        rng = np.random.default_rng(derive_seed(setup.config.seed, "sweep"))
        # Some may be drawn twice.
        orders = unique_orders(space.sample(rng, 2 * MOST_SWEPT))
        orders = orders[np.sort(rng.permutation(len(orders))[:MOST_SWEPT])]
    found: list[int] = order_ids(orders).tolist()
    return found


def joint_episodes(setup: RunSetup) -> int:
    """Training episodes of the joint policy: what the sweep and the fine-tuning leave.

    Raises:
        ConfigError: They leave too few.
    """
    config = setup.config
    sweep = len(sweep_ids(setup)) * setup.sweep_episodes
    finetune = config.finetune * (setup.budget.cap + setup.budget.eval_episodes)
    finetune = min(finetune, int(FINETUNE_SHARE * config.total_episodes))
    left = config.total_episodes - sweep - finetune
    if left < config.num_envs:
        share = FINETUNE_SHARE if config.finetune else 0.0
        smallest = int(np.ceil((sweep + config.num_envs) / (1 - share)))
        raise ConfigError(
            f"total_episodes {config.total_episodes} is too small: the sweep takes {sweep} and "
            f"fine-tuning {finetune}. The smallest number is {smallest}; lower sweep_episodes or "
            "finetune to need fewer."
        )
    return left


def joint_plan(setup: RunSetup) -> dict[str, JSON]:
    """How the episodes are divided.

    Raises:
        ConfigError: They are too few.
    """
    config = setup.config
    training = joint_episodes(setup)
    sweep = len(sweep_ids(setup)) * setup.sweep_episodes
    return {
        "space_size": setup.space.size,
        "total_episodes": config.total_episodes,
        "joint_episodes": training,
        "sweep_episodes": sweep,
        "swept_workflows": len(sweep_ids(setup)),
        "finetune_episodes": config.total_episodes - training - sweep,
        "finetune_workflows": config.finetune,
    }
