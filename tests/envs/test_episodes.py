"""The log of episodes against a plain account of what was recorded."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import numba
import numpy as np
import pytest

from briskrl.envs import kernels
from briskrl.envs.episodes import EpisodeLog


@numba.njit
def write(log, lane, envs):
    kernels.tick(log, lane)
    for env in envs:
        kernels.record(log, lane, env, env + 1, 0.5 * env, 2 * env, False, 1)


@pytest.mark.parametrize("num_lanes", [1, 2, 7])
@pytest.mark.parametrize("num_steps", [0, 5, 400])
def test_the_newest_records_come_out_by_step_and_env(num_lanes: int, num_steps: int) -> None:
    rng = np.random.default_rng(num_steps)
    cuts = [60 * lane // num_lanes for lane in range(num_lanes + 1)]
    bounds = list(pairwise(cuts))
    log = EpisodeLog(bounds)
    room = [max(-(-4096 // num_lanes), 16 * (high - low)) for low, high in bounds]
    kept = [deque[tuple[int, int]](maxlen=size) for size in room]
    latest: list[int] = []
    for t in range(num_steps):
        latest = []
        for lane in rng.permutation(num_lanes).tolist():
            low, high = bounds[lane]
            envs = np.flatnonzero(rng.random(high - low) < 0.5) + low
            write(log.rows, lane, envs)
            kept[lane].extend((t, env) for env in envs.tolist())
            latest.extend(envs.tolist())
    assert log.latest()[:, kernels.REC_ENV].tolist() == sorted(latest)
    wanted = [env for _, env in sorted(entry for lane in kept for entry in lane)]
    stats = log.drain()
    assert stats.env.tolist() == wanted
    assert stats.steps.tolist() == [env + 1 for env in wanted]
    assert log.drain().count == 0
    if num_steps == 400:
        assert sum(map(len, kept)) >= 4096
