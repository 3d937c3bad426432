"""Settings of a batch of grids as kernels read them, and the memory it needs."""

from __future__ import annotations

from math import factorial

import numpy as np

from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.envs.native_batch import BatchMemory
from briskrl.envs.ordered_visit.config import OrderedVisitConfig
from briskrl.envs.ordered_visit.kernels import step as k
from briskrl.orders.workflow import Workflow, parse_workflow

_CACHE_LINE_WORDS = 8
NUM_MOVES = 4


def hidden_order(config: OrderedVisitConfig) -> Workflow:
    """The rewarded order: the given one, or the default of this number of regions."""
    if config.hidden_order is not None:
        return parse_workflow(config.hidden_order, config.names)
    return Workflow.from_id(config.names, factorial(config.regions) * 5 // 8)


def obs_size(config: OrderedVisitConfig) -> int:
    """Position, offset and visit of every region, and the cells around."""
    return 2 + 3 * config.regions + (2 * k.VIEW + 1) ** 2


def memory_of(config: OrderedVisitConfig, num_envs: int, chunks: int) -> BatchMemory:
    """The memory of N grids that are stepped in this number of chunks."""
    row = -(-(k.WALLS + config.side) // _CACHE_LINE_WORDS) * _CACHE_LINE_WORDS
    incidents = num_envs * row
    params = np.zeros(k.NUM_PARAMS, np.int64)
    order = hidden_order(config).order
    for at, number in {
        k.R_ROW: row,
        k.R_SIDE: config.side,
        k.R_SIZE: config.region_size,
        k.R_REGIONS: config.regions,
        k.R_THRESHOLD: round(config.walls * k.WALL_SCALE),
        k.R_MAX_STEPS: config.max_steps,
        k.R_HIDDEN: sum(region << 4 * place for place, region in enumerate(order)),
        k.R_INCIDENTS: incidents,
        k.R_SCRATCH: incidents + num_envs,
    }.items():
        params[at] = number
    return BatchMemory(row, num_envs + 2 * config.side * chunks, params)


def spec_of(config: OrderedVisitConfig) -> EnvSpec:
    """The spec of one grid with these settings."""
    return EnvSpec(
        obs=ArraySpec.of((obs_size(config),), "float32", -1.0, 1.0),
        action=DiscreteSpec(NUM_MOVES),
        max_steps=config.max_steps,
        has_mask=False,
        exact_state=True,
    )
