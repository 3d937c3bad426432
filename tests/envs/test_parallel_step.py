"""Threads that share passes: every env is stepped once, and no thread outlives its batch."""

from __future__ import annotations

import gc
import threading
import time

import numba
import numpy as np
import pytest

from briskrl.compiler.atomics import fetch_add
from briskrl.core.types import StepBuffers
from briskrl.envs.kernels import parallel_step
from briskrl.envs.snake.env import SnakeVecEnv

NUM_ENVS = 1037
RULES = {"obs": "flood", "height": 6, "width": 6, "start": "random"}


def lanes() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("brisk-lane")]


def begun(threads: int) -> tuple[SnakeVecEnv, StepBuffers]:
    env = SnakeVecEnv(NUM_ENVS, threads=threads, **RULES)
    out = StepBuffers.allocate(env.env_spec, NUM_ENVS)
    env.start(3, out)
    return env, out


def assert_same_play(pair: list[tuple[SnakeVecEnv, StepBuffers]], num_steps: int) -> None:
    rng = np.random.default_rng(num_steps)
    for t in range(num_steps):
        actions = rng.integers(3, size=NUM_ENVS)
        for env, out in pair:
            env.step_into(actions, out)
        (one, out), (many, shared) = pair
        for name in ("obs", "reward", "terminated", "truncated"):
            np.testing.assert_array_equal(getattr(shared, name), getattr(out, name))
        if t % 10 == 9:
            wanted, got = one.drain_stats(), many.drain_stats()
            assert wanted.count > 0
            for name in ("env", "steps", "returns", "score", "cause"):
                np.testing.assert_array_equal(getattr(got, name), getattr(wanted, name))
    np.testing.assert_array_equal(many.get_state()["snake"], one.get_state()["snake"])


@pytest.mark.parametrize("threads", [2, 5])
def test_every_environment_is_stepped_once_per_pass_and_logged_in_order(threads: int) -> None:
    pair = [begun(1), begun(threads)]
    assert len(lanes()) == threads - 1
    assert_same_play(pair, 1500)
    for env, _ in pair:
        env.close()
    assert lanes() == []


def test_passes_still_run_after_the_threads_have_ended() -> None:
    pair = [begun(1), begun(3)]
    assert_same_play(pair, 20)
    pair[1][0].close()
    assert lanes() == []
    assert_same_play(pair, 50)


def test_threads_without_work_sleep_and_wake_up_again() -> None:
    pair = [begun(1), begun(2)]
    assert_same_play(pair, 10)
    time.sleep(0.2)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1
    assert_same_play(pair, 20)
    pair[1][0].close()


def test_deleting_an_environment_ends_its_threads() -> None:
    pair = [begun(1), begun(2)]
    assert_same_play(pair, 10)
    assert len(lanes()) == 1
    del pair
    gc.collect()
    assert lanes() == []


@numba.njit(nogil=True)
def count_up(numbers, times):
    for _ in range(times):
        fetch_add(numbers, 1, 1)


def test_atomic_adds_of_several_threads_lose_nothing() -> None:
    numbers = np.zeros(3, np.int64)
    count_up(numbers, 0)
    threads = [threading.Thread(target=count_up, args=(numbers, 300_000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers.tolist() == [0, 1_200_000, 0]


@numba.njit
def write_elsewhere(like, place, values):
    there = parallel_step.at_address(like, parallel_step.address_of(place))
    for i in range(len(values)):
        there[i] = values[i]
    return there.size


def test_an_array_can_be_rebuilt_from_its_address() -> None:
    like, place = np.zeros(5, np.float32), np.zeros(5, np.float32)
    values = np.arange(1, 6, dtype=np.float32)
    assert write_elsewhere(like, place, values) == 5
    assert place.tolist() == values.tolist()
    assert like.tolist() == [0] * 5


@numba.njit
def sum_elsewhere(like, place):
    there = parallel_step.flat_at_address(like, parallel_step.address_of(place), place.size)
    total = 0
    for number in there:
        total += number
    return there.size, total, there.view(np.int32).size


def test_a_flat_array_can_be_rebuilt_with_a_size_of_its_own() -> None:
    """Bounds checks of compiled code compare indices with it."""
    like, place = np.zeros(5, np.int64), np.arange(1, 101)
    assert sum_elsewhere(like, place) == (100, 5050, 200)
