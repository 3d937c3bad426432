"""A partner that costs more than it saves is left out, for a while."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.dqn.kernels.paired_threads import (
    APART,
    COST_ALONE,
    LONGEST_APART,
    MAILBOX_SIZE,
    ROUND,
    SHORTEST_APART,
)
from tests.algos import transitions
from tests.fused.test_determinism import a_partner_of
from tests.parallel import thread_kernels as works

USUAL = 1000
"""Cycles of an update that is done alone."""


@pytest.fixture
def board():
    made = np.zeros(MAILBOX_SIZE, np.int64)
    works.weigh(made, False, USUAL)
    return made


def updates_until_apart(board, took: int, most: int = 10_000) -> int:
    """How many shared updates of so many cycles it takes."""
    for count in range(1, most + 1):
        works.weigh(board, True, took)
        if board[APART]:
            return count
    return most


@pytest.mark.parametrize("took", [500, 900, 1000])
def test_a_partner_that_saves_time_stays(board, took):
    assert updates_until_apart(board, took) == 10_000


@pytest.mark.parametrize("took", [1100, 1500, 5000])
def test_a_partner_that_costs_time_is_left_out_after_some_updates(board, took):
    assert 1 < updates_until_apart(board, took) < 20


def test_it_is_left_out_for_longer_each_time(board):
    lengths = []
    for _ in range(7):
        updates_until_apart(board, 2 * USUAL)
        lengths.append(int(board[APART]))
        board[APART] = 0
    assert lengths[0] == SHORTEST_APART
    assert all(longer > length for length, longer in pairwise(lengths[:5]))
    assert lengths[-1] <= LONGEST_APART
    for _ in range(2 * LONGEST_APART):
        works.weigh(board, True, USUAL // 2)
    updates_until_apart(board, 2 * USUAL)
    assert board[APART] == SHORTEST_APART


def test_a_core_that_is_lost_once_says_nothing_of_the_partner(board):
    for _ in range(100):
        works.weigh(board, True, USUAL // 2)
    works.weigh(board, True, 1000 * USUAL)
    assert not board[APART]
    works.weigh(board, False, 1000 * USUAL)
    assert board[COST_ALONE] < 1.2 * USUAL


@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_leaving_it_out_now_and_then_makes_no_difference_to_the_bits(preset):
    config = transitions.small(**{**DQN_PRESETS[preset], "net": (40, 24), "target_every": 7})
    env = transitions.spec()
    batch = transitions.random_batch(env, 30, 64)
    found = []
    for apart in (0, 7):
        engine = transitions.make(config, env, engine="fused", overlap=True).engines.now
        with a_partner_of(engine, batch):
            for k in range(20):
                engine._board[APART] = apart
                engine.update(batch, 30, 30 * k)
        assert engine._board[ROUND] > 0
        found.append(engine._parts.online_flat.values.numpy())
    assert np.array_equal(*found)
