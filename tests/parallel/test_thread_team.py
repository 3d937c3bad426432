"""Threads that share compiled work: every part is done once, and no thread is left behind."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from briskrl.compiler.packed_args import PackedArgs
from briskrl.parallel.thread_team import MOST_PARTS, ThreadTeam, bounds_of
from tests.parallel import thread_kernels

NO_NAPS = np.zeros(9, np.int64)


def team_of(size: int) -> ThreadTeam:
    return ThreadTeam(tuple(PackedArgs((np.array([10.0 * member]),)) for member in range(size)))


@given(
    count=st.integers(0, 10_000),
    size=st.integers(1, 9),
    unit=st.sampled_from([1, 16, 64]),
    smallest=st.sampled_from([64, 128, 1000]),
)
def test_parts_cover_all_rows_in_order_and_shrink(count, size, unit, smallest):
    bounds = bounds_of(count, size, unit, smallest)
    assert bounds[0] == 0
    assert bounds[-1] == count
    assert all(begin % unit == 0 for begin in bounds[:-1])
    lengths = np.diff(bounds)
    assert len(lengths) <= MOST_PARTS * size
    assert (lengths > 0).all() or count == 0
    if len(lengths) > 1:
        assert lengths.min() > smallest - 2 * unit
    # Except for rounding to units, later parts are not longer than earlier ones.
    assert (lengths[1:] <= lengths[:-1] + unit).all()


def test_the_last_parts_are_an_eighth_of_a_share_if_that_is_enough():
    assert np.diff(bounds_of(4096, 2, 64, 128)).tolist() == [1792, 1792, 256, 256]
    assert np.diff(bounds_of(512, 2, 64, 128)).tolist() == [256, 256]
    assert bounds_of(255, 2, 64, 128) == (0, 255)


def test_one_thread_has_one_part():
    assert bounds_of(100_000, 1, 64, 128) == (0, 100_000)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_part_is_done_once(size):
    team = team_of(size)
    for rows in (1, 64, 5000):
        bounds = bounds_of(rows, size, 1, 8)
        for _ in range(50):
            seen, by = np.zeros(rows, np.int64), np.full(len(bounds) - 1, -1)
            team.run(thread_kernels.count, (seen, by, NO_NAPS), bounds)
            assert (seen == 1).all()
            assert set(by.tolist()) <= set(range(size))


def test_parts_run_at_the_same_time():
    begun = np.zeros(3, np.int64)
    team_of(3).run(thread_kernels.meet, (begun,), (0, 1, 2, 3))
    assert begun[0] == 3


def test_the_faster_thread_does_more():
    seen, by = np.zeros(4, np.int64), np.full(4, -1)
    naps = np.array([20_000, 0])
    team_of(2).run(thread_kernels.count, (seen, by, naps), (0, 1, 2, 3, 4))
    assert (seen == 1).all()
    # The first one is at its first part while the second one does all that is left.
    assert by.tolist().count(1) >= 2


def test_members_compute_with_their_own_arrays():
    team = team_of(2)
    for _ in range(20):
        found = np.full(4, -1.0)
        team.run(thread_kernels.write_member, (found,), (0, 1, 2, 3, 4))
        assert set(found.tolist()) <= {0.0, 10.0}


def test_arrays_and_their_dtypes_may_change_from_call_to_call():
    team = team_of(2)
    for number in range(12):
        kind = (np.float64, np.float32, np.int64)[number % 3]
        found = np.full((4, 2), -1, kind)[:, 0] if number % 2 else np.full(4, -1, kind)
        team.run(thread_kernels.write_member, (found,), (0, 1, 2, 3, 4))
        assert set(found.tolist()) <= {0, 10}


def test_a_sleeping_member_delays_nothing():
    team = team_of(2)
    for _ in range(10):
        time.sleep(0.02)
        seen, by = np.zeros(512, np.int64), np.full(4, -1)
        team.run(thread_kernels.count, (seen, by, NO_NAPS), (0, 128, 256, 384, 512))
        assert (seen == 1).all()


def test_a_team_that_is_collected_ends_its_threads():
    before = set(threading.enumerate())
    team = team_of(4)
    seen, by = np.zeros(8, np.int64), np.zeros(8, np.int64)
    team.run(thread_kernels.count, (seen, by, NO_NAPS), tuple(range(9)))
    mine = set(threading.enumerate()) - before
    assert len(mine) == 3
    del team
    gc.collect()
    for thread in mine:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in mine)
