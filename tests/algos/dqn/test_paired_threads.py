"""Updates stop using a helper thread that costs more time than it saves, for a while."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.dqn.kernels.paired_threads import (
    MAILBOX_SIZE,
    MAX_UNPAIRED,
    MIN_UNPAIRED,
    ROUND,
    SOLO_COST,
    UNPAIRED,
)
from tests.algos import transitions
from tests.fused.test_determinism import helper_thread_of
from tests.parallel import thread_kernels

SOLO = 1000
"""Cycles of an update by one thread."""


@pytest.fixture
def mailbox():
    made = np.zeros(MAILBOX_SIZE, np.int64)
    thread_kernels.weigh(made, False, SOLO)
    return made


def updates_until_unpaired(mailbox, took: int, most: int = 10_000) -> int:
    """Paired updates of `took` cycles each until pairing stops."""
    for count in range(1, most + 1):
        thread_kernels.weigh(mailbox, True, took)
        if mailbox[UNPAIRED]:
            return count
    return most


@pytest.mark.parametrize("took", [500, 900, 1000])
def test_pairing_that_saves_time_goes_on(mailbox, took):
    assert updates_until_unpaired(mailbox, took) == 10_000


@pytest.mark.parametrize("took", [1100, 1500, 5000])
def test_pairing_that_costs_time_stops_after_some_updates(mailbox, took):
    assert 1 < updates_until_unpaired(mailbox, took) < 20


def test_pairing_stops_for_longer_each_time(mailbox):
    lengths = []
    for _ in range(7):
        updates_until_unpaired(mailbox, 2 * SOLO)
        lengths.append(int(mailbox[UNPAIRED]))
        mailbox[UNPAIRED] = 0
    assert lengths[0] == MIN_UNPAIRED
    assert all(longer > length for length, longer in pairwise(lengths[:5]))
    assert lengths[-1] <= MAX_UNPAIRED
    for _ in range(2 * MAX_UNPAIRED):
        thread_kernels.weigh(mailbox, True, SOLO // 2)
    updates_until_unpaired(mailbox, 2 * SOLO)
    assert mailbox[UNPAIRED] == MIN_UNPAIRED


def test_one_update_that_lost_its_core_does_not_stop_pairing(mailbox):
    for _ in range(100):
        thread_kernels.weigh(mailbox, True, SOLO // 2)
    thread_kernels.weigh(mailbox, True, 1000 * SOLO)
    assert not mailbox[UNPAIRED]
    thread_kernels.weigh(mailbox, False, 1000 * SOLO)
    assert mailbox[SOLO_COST] < 1.2 * SOLO


@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_unpaired_updates_in_between_do_not_change_the_bits(preset):
    config = transitions.small(**{**DQN_PRESETS[preset], "net": (40, 24), "target_every": 7})
    env = transitions.spec()
    batch = transitions.random_batch(env, 30, 64)
    found = []
    for unpaired in (0, 7):
        engine = transitions.make(config, env, engine="fused", overlap=True).engines.now
        with helper_thread_of(engine, batch):
            for k in range(20):
                engine._mailbox[UNPAIRED] = unpaired
                engine.update(batch, 30, 30 * k)
        assert engine._mailbox[ROUND] > 0
        found.append(engine._model.online_flat.values.numpy())
    assert np.array_equal(*found)
