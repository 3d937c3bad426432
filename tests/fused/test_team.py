"""Threads that share work: all of it is done, errors come back, nobody stays behind."""

from __future__ import annotations

import gc
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from briskrl.fused.team import (
    LONGEST_RETREAT,
    RETREAT_GROWTH,
    SHORTEST_RETREAT,
    Retreat,
    Team,
    share,
)


@given(
    count=st.integers(0, 10_000),
    size=st.integers(1, 9),
    whole=st.sampled_from([1, 16, 64, 256]),
)
def test_shares_cover_all_rows_once_and_in_order(count, size, whole):
    parts = [share(count, size, number, whole) for number in range(size)]
    assert [row for begin, end in parts for row in range(begin, end)] == list(range(count))
    assert all(begin % whole == 0 or begin == count for begin, _ in parts)
    lengths = [end - begin for begin, end in parts]
    assert max(lengths) - min(lengths) < 2 * whole


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_member_does_its_part_in_a_thread_of_its_own(size):
    seen = {}
    Team(size).run(lambda number: seen.update({number: threading.get_ident()}), size)
    assert sorted(seen) == list(range(size))
    assert len(set(seen.values())) == size
    assert seen[0] == threading.get_ident()


def test_every_part_is_done_once_whoever_does_it():
    """Some of these parts are far slower than the caller's own, so that it retreats in between."""
    team, seen = Team(3), []

    def part(number: int) -> None:
        if number == 2 and len(seen) < 30:
            time.sleep(0.002)
        seen.append(number)

    for k in range(200):
        team.run(part, 3)
        assert sorted(seen[3 * k :]) == [0, 1, 2]


def length_of(retreat: Retreat) -> int:
    """How many pieces of work are done alone now."""
    return next(count for count in range(2 * LONGEST_RETREAT) if not retreat.goes_on())


def test_a_retreat_follows_waiting_that_costs_more_than_was_saved_and_is_longer_each_time():
    retreat = Retreat()
    lengths = []
    for _ in range(8):
        retreat.judge(took_s=3e-3, work_s=1e-3)
        lengths.append(length_of(retreat) + 1)
    growing = [SHORTEST_RETREAT * RETREAT_GROWTH**k for k in range(8)]
    assert lengths == [min(length, LONGEST_RETREAT) for length in growing]
    for _ in range(200):
        retreat.judge(took_s=6e-4, work_s=1e-3)
        assert not retreat.goes_on()
    retreat.judge(took_s=1.0, work_s=1e-3)
    assert length_of(retreat) == SHORTEST_RETREAT - 1


def test_a_core_that_is_lost_now_and_then_is_no_reason_to_retreat():
    """One piece in twenty takes ten times as long, which all the others make up for."""
    retreat = Retreat()
    for k in range(1, 10_000):
        retreat.judge(took_s=6e-3 if k % 20 == 0 else 6e-4, work_s=1e-3)
        assert not retreat.goes_on()


def test_cores_that_are_lost_most_of_the_time_are_left_alone_most_of_the_time():
    """One piece in three takes ten times as long, which the others do not make up for."""
    retreat = Retreat()
    together = 0
    for _ in range(100_000):
        if not retreat.goes_on():
            together += 1
            retreat.judge(took_s=6e-3 if together % 3 == 0 else 6e-4, work_s=1e-3)
    assert together < 1000


def test_fewer_than_all_may_take_part():
    team, seen = Team(4), []
    team.run(seen.append, 2)
    assert sorted(seen) == [0, 1]


def test_parts_really_run_side_by_side():
    barrier = threading.Barrier(3, timeout=30)
    Team(3).run(lambda number: barrier.wait() and None, 3)
    assert not barrier.broken


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_error_comes_back_after_all_parts_are_done(number):
    team, done = Team(3), []

    def part(member: int) -> None:
        if member == number:
            raise ValueError(f"part {member}")
        time.sleep(0.02)
        done.append(member)

    with pytest.raises(ValueError, match=f"part {number}"):
        team.run(part, 3)
    assert sorted(done) == sorted({0, 1, 2} - {number})
    done.clear()
    team.run(done.append, 3)
    assert sorted(done) == [0, 1, 2]


def test_a_team_that_nobody_needs_any_more_ends_its_threads():
    before = set(threading.enumerate())
    team = Team(4)
    team.run(lambda number: None, 4)
    mine = set(threading.enumerate()) - before
    assert len(mine) == 3
    del team
    gc.collect()
    for thread in mine:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in mine)
