from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from briskrl.training.update_schedule import RatioSchedule, RolloutSchedule

RATIOS = st.floats(1e-4, 4.0).map(lambda value: round(value, 6)).filter(lambda value: value > 0)


@given(
    ratio=RATIOS,
    starts=st.integers(0, 5000),
    arrivals=st.lists(st.integers(0, 4096), max_size=60),
)
def test_updates_are_exactly_the_floor_of_transitions_times_ratio(ratio, starts, arrivals):
    schedule = RatioSchedule(updates_per_step=ratio, learning_starts=starts)
    issued = sum(schedule.due(count) for count in arrivals)
    earning = max(0, sum(arrivals) - starts)
    assert schedule.counted_steps == earning
    assert issued == (earning * Fraction(str(ratio))).__floor__()


@given(ratio=RATIOS, num_envs=st.integers(1, 512), rounds=st.integers(1, 40))
def test_the_number_of_envs_does_not_change_the_ratio(ratio, num_envs, rounds):
    batched = RatioSchedule(updates_per_step=ratio, learning_starts=100)
    single = RatioSchedule(updates_per_step=ratio, learning_starts=100)
    for _ in range(rounds):
        assert batched.due(num_envs) == sum(single.due(1) for _ in range(num_envs))


def test_a_ratio_is_the_exact_decimal_number():
    schedule = RatioSchedule(updates_per_step=0.004, learning_starts=0)
    assert [schedule.due(249), schedule.due(1), schedule.due(250)] == [0, 1, 1]


@pytest.mark.parametrize(("ratio", "updates"), [(0.29, 29), (0.57, 57), (1.15, 115)])
def test_products_that_binary_fractions_miss_are_exact(ratio, updates):
    assert int(100 * ratio) < updates
    assert RatioSchedule(updates_per_step=ratio, learning_starts=0).due(100) == updates


@given(ratio=RATIOS, first=st.integers(0, 10_000), second=st.integers(0, 10_000))
def test_a_resume_issues_no_burst_of_updates(ratio, first, second):
    whole = RatioSchedule(updates_per_step=ratio, learning_starts=50)
    whole.due(first)
    resumed = RatioSchedule(updates_per_step=ratio, learning_starts=50)
    resumed.load_state(whole.state())
    assert resumed.due(second) == whole.due(second)


@given(
    rollout=st.integers(1, 64),
    updates=st.integers(1, 16),
    reuse=st.integers(0, 3),
    data=st.data(),
)
def test_the_updates_of_a_rollout_are_issued_once_for_any_arrival_sizes(
    rollout, updates, reuse, data
):
    schedule = RolloutSchedule(rollout_steps=rollout, updates=updates, reuse=reuse)
    for number in range(1, 6):
        left, issued = rollout, []
        while left:
            size = data.draw(st.integers(1, left))
            issued.append(schedule.due(size))
            left -= size
        assert issued[:-1] == [0] * (len(issued) - 1)
        assert issued[-1] == updates * min(number, reuse + 1)
        copy = RolloutSchedule(rollout_steps=rollout, updates=updates, reuse=reuse)
        copy.load_state(schedule.state())
        assert copy.counted_steps == schedule.counted_steps == number * rollout


def test_transitions_past_the_end_of_a_rollout_raise():
    schedule = RolloutSchedule(rollout_steps=10, updates=1, reuse=0)
    with pytest.raises(ValueError, match="2 transitions"):
        schedule.due(12)
