"""Threads are left alone while waiting for them costs more than they save, and not longer."""

from __future__ import annotations

from briskrl.parallel.backoff import LONGEST_RETREAT, RETREAT_GROWTH, SHORTEST_RETREAT, Backoff


def length_of(retreat: Backoff) -> int:
    """How many pieces of work are done alone now."""
    return next(count for count in range(2 * LONGEST_RETREAT) if not retreat.goes_on())


def test_a_retreat_follows_waiting_that_costs_more_than_was_saved_and_is_longer_each_time():
    retreat = Backoff()
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
    retreat = Backoff()
    for k in range(1, 10_000):
        retreat.judge(took_s=6e-3 if k % 20 == 0 else 6e-4, work_s=1e-3)
        assert not retreat.goes_on()


def test_cores_that_are_lost_most_of_the_time_are_left_alone_most_of_the_time():
    """One piece in three takes ten times as long, which the others do not make up for."""
    retreat = Backoff()
    together = 0
    for _ in range(100_000):
        if not retreat.goes_on():
            together += 1
            retreat.judge(took_s=6e-3 if together % 3 == 0 else 6e-4, work_s=1e-3)
    assert together < 1000
