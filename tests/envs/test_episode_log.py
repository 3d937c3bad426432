"""The episode log against a plain list of the recorded episodes."""

from __future__ import annotations

import pickle
from collections import deque
from dataclasses import fields, replace
from itertools import pairwise

import numba
import numpy as np
import pytest

from briskrl.core.types import EpisodeStats
from briskrl.envs.episode_log import EpisodeLog
from briskrl.envs.kernels import episode_log as episode_log_kernels

COLUMNS = [field.name for field in fields(EpisodeStats)]


@numba.njit
def write(log, lane, envs):
    episode_log_kernels.tick(log, lane)
    for env in envs:
        episode_log_kernels.record(log, lane, env, env + 1, 0.5 * env, 2 * env, False, 1)


@pytest.mark.parametrize("num_lanes", [1, 2, 7])
@pytest.mark.parametrize("num_steps", [0, 5, 400])
def test_the_newest_records_are_drained_by_step_and_env(num_lanes: int, num_steps: int) -> None:
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
    assert log.latest()[:, episode_log_kernels.REC_ENV].tolist() == sorted(latest)
    wanted = [env for _, env in sorted(entry for lane in kept for entry in lane)]
    stats = log.drain()
    assert stats.env.tolist() == wanted
    assert stats.steps.tolist() == [env + 1 for env in wanted]
    assert log.drain().count == 0
    if num_steps == 400:
        assert sum(map(len, kept)) >= 4096


@pytest.mark.parametrize("cuts", [(0, 600), (0, 200, 450, 600)])
def test_drained_episodes_do_not_change_later(cuts: tuple[int, ...]) -> None:
    """With more episodes than are allocated at once, read after all of them were drained."""
    bounds = list(pairwise(cuts))
    log = EpisodeLog(bounds)
    rng = np.random.default_rng(2)
    wanted = [np.flatnonzero(rng.random(600) < share) for share in rng.random(40) * 0.5]
    assert sum(map(len, wanted)) > 5000
    drained = []
    for envs in wanted:
        for lane, (low, high) in enumerate(bounds):
            write(log.rows, lane, envs[(envs >= low) & (envs < high)])
        drained.append(log.drain())
    for envs, stats in zip(wanted, drained, strict=True):
        assert stats.count == len(envs)
        assert stats.env.tolist() == envs.tolist()
        assert stats.steps.tolist() == (envs + 1).tolist()
        assert stats.returns.tolist() == (0.5 * envs).tolist()
        assert stats.score.tolist() == (2.0 * envs).tolist()
        assert stats.cause.tolist() == [1] * len(envs)
        assert not stats.won.any()
        kinds = [getattr(stats, name).dtype.name for name in COLUMNS]
        assert kinds == ["int32", "int32", "float32", "float32", "bool", "uint8"]


def test_drained_episodes_can_be_copied_and_changed() -> None:
    log = EpisodeLog([(0, 9)])
    write(log.rows, 0, np.arange(1, 4))
    stats = log.drain()
    other = replace(stats, score=np.zeros(2, np.float32), env=np.arange(2, dtype=np.int32))
    assert other.count == 2
    assert other.steps.tolist() == stats.steps.tolist() == [2, 3, 4]
    again = pickle.loads(pickle.dumps(stats))
    assert again.count == 3
    assert again.env.tolist() == [1, 2, 3]
    with pytest.raises(AttributeError):
        _ = stats.length  # type: ignore[attr-defined]
