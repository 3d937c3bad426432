"""Threads and spinning are avoided while they cost more than they save, and no longer."""

from __future__ import annotations

from briskrl.parallel.backoff import (
    LONGEST_REST,
    LONGEST_RETREAT,
    RETREAT_GROWTH,
    SHORTEST_RETREAT,
    SpinBackoff,
    TeamBackoff,
)


def length_of(backoff: TeamBackoff) -> int:
    """How many pieces of work are done alone in a row."""
    return next(count for count in range(2 * LONGEST_RETREAT) if not backoff.skips())


def test_work_is_done_alone_for_longer_each_time_that_threads_cost_more_than_they_save():
    backoff = TeamBackoff()
    lengths = []
    for _ in range(8):
        backoff.judge(took_s=3e-3, work_s=1e-3)
        lengths.append(length_of(backoff) + 1)
    growing = [SHORTEST_RETREAT * RETREAT_GROWTH**k for k in range(8)]
    assert lengths == [min(length, LONGEST_RETREAT) for length in growing]
    for _ in range(200):
        backoff.judge(took_s=6e-4, work_s=1e-3)
        assert not backoff.skips()
    backoff.judge(took_s=1.0, work_s=1e-3)
    assert length_of(backoff) == SHORTEST_RETREAT - 1


def test_a_core_that_is_lost_now_and_then_is_no_reason_to_work_alone():
    """One piece in twenty takes ten times as long, which all the others make up for."""
    backoff = TeamBackoff()
    for k in range(1, 10_000):
        backoff.judge(took_s=6e-3 if k % 20 == 0 else 6e-4, work_s=1e-3)
        assert not backoff.skips()


def test_work_is_done_alone_most_of_the_time_when_cores_are_lost_most_of_the_time():
    """One piece in three takes ten times as long, which the others do not make up for."""
    backoff = TeamBackoff()
    together = 0
    for _ in range(100_000):
        if not backoff.skips():
            together += 1
            backoff.judge(took_s=6e-3 if together % 3 == 0 else 6e-4, work_s=1e-3)
    assert together < 1000


def rests(backoff: SpinBackoff) -> int:
    """How many waits in a row do not spin."""
    return next(count for count in range(2 * LONGEST_REST) if backoff.spin_s())


def test_spinning_that_finds_nothing_is_left_out_for_longer_each_time():
    backoff = SpinBackoff(1e-4)
    assert backoff.spin_s() == 1e-4
    lengths = []
    for _ in range(10):
        backoff.judge(1e-4, found=False)
        lengths.append(rests(backoff))
    assert lengths == [1, 3, 7, 15, 31, 63, 127, 255, 256, 256]


def test_spinning_that_succeeds_goes_on_and_shortens_the_next_rest():
    backoff = SpinBackoff(1e-4)
    for _ in range(4):
        backoff.judge(1e-4, found=False)
        rests(backoff)
    for _ in range(3):
        backoff.judge(1e-5, found=True)
        assert backoff.spin_s() == 1e-4
    backoff.judge(1e-4, found=False)
    assert rests(backoff) == 3


def test_a_spin_during_which_the_core_was_lost_is_followed_by_the_longest_rest():
    backoff = SpinBackoff(1e-4)
    backoff.judge(5e-4, found=True)
    assert rests(backoff) == LONGEST_REST - 1
