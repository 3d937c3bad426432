"""Turns end with a round of updates, and intervals contain the true ratio."""

from __future__ import annotations

import pytest

from briskrl.doctor.custom_loop import ModifiedLoop
from briskrl.doctor.paired_turns import Turn, compare, take_turn
from tests.doctor.fake_loops import SleepingLoop


def test_a_turn_ends_with_a_round_of_updates() -> None:
    loop = SleepingLoop(lambda i: 0.001, every=7)
    for _ in range(7):
        loop.iterate()
    for _ in range(5):
        turn = take_turn(loop, 0.003)
        assert turn.iterations % 7 == 0
        assert turn.updates == turn.iterations // 7
        assert turn.steps == 10 * turn.iterations


def test_a_loop_is_entered_and_left_around_every_turn() -> None:
    loop = SleepingLoop(lambda i: 0.0)
    take_turn(loop, 0.0)
    take_turn(loop, 0.0)
    assert (loop.entered, loop.left) == (2, 2)


def test_a_loop_that_fails_is_left_as_well() -> None:
    def fail(iteration: int) -> float:
        raise RuntimeError("broken")

    loop = SleepingLoop(fail)
    with pytest.raises(RuntimeError):
        take_turn(loop, 0.0)
    assert loop.left == 1


def test_sleeping_counts_as_the_loops_own_time() -> None:
    turn = take_turn(SleepingLoop(lambda i: 0.02), 0.1)
    assert turn.own_s >= 0.9 * 0.02 * turn.iterations
    assert turn.cpu_s < 0.5 * turn.wall_s


def test_time_that_other_programs_had_the_core_is_not_the_loops_own() -> None:
    turn = Turn(iterations=1, steps=60, updates=1, wall_s=2.0, cpu_s=1.0, queued_s=0.5)
    assert turn.own_s == 1.5
    assert (turn.steps_per_s, turn.own_steps_per_s, turn.steps_per_cpu_s) == (30, 40, 60)


def test_the_interval_contains_a_known_ratio() -> None:
    slow, fast = SleepingLoop(lambda i: 0.012), SleepingLoop(lambda i: 0.004)
    found = compare(slow, fast, seconds=3)
    assert found is not None
    assert found.gain.low <= found.gain.factor <= found.gain.high
    # Waking up takes a while longer than asked on a busy machine, and more so in short sleeps.
    assert 1.5 < found.gain.factor < 3.5
    assert found.gain.low > 1
    assert found.pairs >= 2


class FixedForGood(SleepingLoop):
    """Slow until its first turn with the change."""

    def __init__(self) -> None:
        super().__init__(lambda i: 0.002 if self.fixed else 0.008)
        self.fixed = False

    def fix(self) -> None:
        self.fixed = True


def test_a_lasting_change_is_compared_with_the_time_before() -> None:
    loop = FixedForGood()
    observed = take_turn(loop, 0.1).own_steps_per_s
    modified = ModifiedLoop(loop, loop.fix, loop.leave)
    found = compare(loop, modified, seconds=2, speed_before=observed)
    assert found is not None
    assert found.gain.low > 1.15


def test_a_loop_that_was_not_slower_before_shows_no_lasting_gain() -> None:
    loop = FixedForGood()
    modified = ModifiedLoop(loop, loop.fix, loop.leave)
    found = compare(loop, modified, seconds=2, speed_before=10 / 0.002)
    assert found is not None
    assert found.gain.low < 1.15


def test_too_little_time_for_two_pairs_gives_no_result() -> None:
    loops = SleepingLoop(lambda i: 0.1), SleepingLoop(lambda i: 0.1)
    assert compare(*loops, seconds=0.05) is None
