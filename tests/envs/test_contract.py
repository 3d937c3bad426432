"""The contract of `briskrl.envs.base`, tested for every environment.

A new environment or backend only adds rows to `contract_cases.CASES`.
"""

from __future__ import annotations

import sys
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from briskrl.core.types import EpisodeStats, StepBuffers
from briskrl.envs.registry import ENVS
from briskrl.envs.workflow.env import WorkflowVecEnv
from tests.envs.contract_cases import CASES, Case, every_case, native_case, opened, stepped
from tests.envs.recording import (
    SEED,
    assert_same,
    assert_same_rows,
    assert_same_stats,
    assert_within,
    play,
    poisoned,
    random_actions,
    record,
)

NUM_STEPS = 120


def test_every_registered_environment_has_a_case() -> None:
    assert {case.name.partition(":")[0] for case in CASES} == set(ENVS) - {"given"}


@every_case
def test_observations_match_their_spec(case: Case) -> None:
    with opened(case, 16) as env:
        spec = env.env_spec
        trace = play(env, random_actions(spec, NUM_STEPS, 16), byte=0xFF)
    assert_within(spec.obs, trace.first_obs)
    assert_within(spec.obs, trace.rows["obs"])
    assert trace.ended.any()
    assert_within(spec.obs, trace.rows["final_obs"][trace.ended])
    assert np.isfinite(trace.rows["reward"]).all()
    assert not (trace.rows["terminated"] & trace.rows["truncated"]).any()


@every_case
def test_garbage_in_the_buffers_changes_nothing(case: Case) -> None:
    with opened(case, 8) as one, opened(case, 8) as other:
        actions = random_actions(one.env_spec, NUM_STEPS, 8)
        assert_same(play(one, actions, byte=0xFF), play(other, actions, byte=0x5A))


@every_case
def test_no_step_is_spent_on_a_reset(case: Case) -> None:
    with opened(case, 8) as env:
        trace = play(env, random_actions(env.env_spec, NUM_STEPS, 8))
        stats = env.drain_stats()
    for i in range(8):
        when = np.flatnonzero(trace.ended[:, i]) + 1
        np.testing.assert_array_equal(np.cumsum(stats.steps[stats.env == i]), when)


@every_case
def test_an_ending_step_shows_both_episodes(case: Case) -> None:
    """final_obs is the last observation of the ended episode, obs the first of the next one."""
    with opened(case, 16) as env:
        trace = play(env, random_actions(env.env_spec, NUM_STEPS, 16))
    final, first = trace.rows["final_obs"][trace.ended], trace.rows["obs"][trace.ended]
    differ = (final != first).reshape(len(final), -1).any(axis=1)
    assert len(differ) > 16
    assert differ.mean() > 0.5


@every_case
def test_a_trajectory_depends_on_its_seed_and_actions_alone(case: Case) -> None:
    with opened(case, 8) as env:
        actions = random_actions(env.env_spec, NUM_STEPS, 8)
        whole = play(env, actions)
    for envs in (slice(0, 1), slice(5, 6), slice(2, 8)):
        count = envs.stop - envs.start
        with opened(case, count) as env:
            part = play(env, actions[:, envs], seed=SEED + envs.start)
        assert_same(whole.of(envs), part)


@native_case
def test_threads_change_nothing(case: Case) -> None:
    with opened(case, 1) as env:
        num_envs = max(1500, stepped(env).smallest_parallel_batch)
    with opened(case, num_envs) as one, opened(case, num_envs, threads=2) as two:
        assert stepped(two)._lanes == 2
        actions = random_actions(one.env_spec, 24, num_envs)
        assert_same(play(one, actions), play(two, actions))
        assert_same_stats(one.drain_stats(), two.drain_stats())


@every_case
def test_starting_again_equals_a_fresh_environment(case: Case) -> None:
    with opened(case, 4) as env, opened(case, 4) as fresh:
        actions = random_actions(env.env_spec, 40, 4)
        play(env, actions, seed=99)
        env.drain_stats()
        assert_same(play(env, actions), play(fresh, actions))
        assert_same_stats(env.drain_stats(), fresh.drain_stats())


@every_case
@pytest.mark.parametrize("fresh", [False, True], ids=["same", "fresh"])
def test_a_restored_state_continues_to_the_bit(case: Case, fresh: bool) -> None:
    with opened(case, 8) as env, opened(case, 8) as other:
        if not env.env_spec.exact_state:
            pytest.skip("the environment says that its state is not exact")
        actions = random_actions(env.env_spec, NUM_STEPS, 8)
        out = StepBuffers.allocate(env.env_spec, 8)
        env.start(SEED, out)
        record(env, actions[:37], out)
        env.drain_stats()
        state = env.get_state()
        kept = {name: array.copy() for name, array in state.items()}
        expected = record(env, actions[37:], out)
        stats = env.drain_stats()
        for name, array in state.items():
            assert array.dtype != object
            np.testing.assert_array_equal(array, kept[name], err_msg="state is not a copy")
        again = other if fresh else env
        if fresh:
            again.start(5, StepBuffers.allocate(env.env_spec, 8))
        again.set_state(state)
        assert_same_rows(record(again, actions[37:], out), expected)
        assert_same_stats(again.drain_stats(), stats)


@every_case
def test_set_state_copies_the_state(case: Case) -> None:
    with opened(case, 4) as env:
        if not env.env_spec.exact_state:
            pytest.skip("the environment says that its state is not exact")
        actions = random_actions(env.env_spec, 40, 4)
        out = StepBuffers.allocate(env.env_spec, 4)
        env.start(SEED, out)
        record(env, actions[:10], out)
        state = {name: array.copy() for name, array in env.get_state().items()}
        expected = record(env, actions[10:], out)
        env.set_state(state)
        for array in state.values():
            array.view(np.uint8)[...] = 0x5A
        assert_same_rows(record(env, actions[10:], out), expected)


def peak_bytes(call: Callable[[], None]) -> tuple[int, int]:
    """The most memory that was in use at once during a call, and what stayed afterwards."""
    tracemalloc.start()
    try:
        call()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        call()
        after, peak = tracemalloc.get_traced_memory()
        return peak - before, after - before
    finally:
        tracemalloc.stop()


def kernel_allocations(case: Case, num_envs: int, num_steps: int) -> int:
    """How many blocks compiled code asked for during some steps."""
    with opened(case, num_envs) as env:
        out = StepBuffers.allocate(env.env_spec, num_envs)
        actions = random_actions(env.env_spec, num_steps, num_envs)
        env.start(SEED, out)
        env.step_into(actions[0], out)
        _nrt_python.memsys_enable_stats()
        before = rtsys.get_allocation_stats().alloc
        for row in actions:
            env.step_into(row, out)
        return int(rtsys.get_allocation_stats().alloc - before)


@native_case
def test_step_into_allocates_nothing(case: Case) -> None:
    """Python may make a few small objects per call, but no array."""
    num_envs, num_steps = 4096, 16
    with opened(case, num_envs) as env:
        out = StepBuffers.allocate(env.env_spec, num_envs)
        actions = random_actions(env.env_spec, num_steps, num_envs)
        env.start(SEED, out)

        def run() -> None:
            for row in actions:
                env.step_into(row, out)

        run()
        tries = []
        for _ in range(3):
            env.drain_stats()
            tries.append(peak_bytes(run))
        env.drain_stats()
        # Threads of other tests and caches of Python may allocate meanwhile: the best try counts.
        grown = min(blocks_grown(run) for _ in range(5))
    # One byte per environment would be 4096 on top of a few objects.
    assert min(peak for peak, _ in tries) < 4096
    assert min(left for _, left in tries) < 1024
    assert grown < 32


def blocks_grown(run: Callable[[], None]) -> int:
    blocks = sys.getallocatedblocks()
    run()
    return sys.getallocatedblocks() - blocks


@native_case
def test_kernels_allocate_nothing(case: Case) -> None:
    """Numba wraps each array argument in a small block, and that is all."""
    num_steps = 16
    few, many = (kernel_allocations(case, num_envs, num_steps) for num_envs in (2, 900))
    assert many == few
    # Nine arrays go into a step, three into each of two masks, and nine into the judging of a step.
    assert few <= (24 if case.name.startswith("workflow:") else 15) * num_steps


@every_case
def test_each_finished_episode_is_reported_once(case: Case) -> None:
    with opened(case, 8) as env:
        actions = random_actions(env.env_spec, NUM_STEPS, 8)
        out = StepBuffers.allocate(env.env_spec, 8)
        env.start(SEED, out)
        steps, returns = np.zeros(8, np.int64), np.zeros(8)
        expected: list[tuple[int, int]] = []
        expected_returns: list[float] = []
        reported: list[EpisodeStats] = []
        for t, row in enumerate(actions):
            env.step_into(row, out)
            steps += 1
            returns += out.reward
            ended = out.terminated | out.truncated
            expected += [(int(i), int(steps[i])) for i in np.flatnonzero(ended)]
            expected_returns += returns[ended].tolist()
            steps[ended] = 0
            returns[ended] = 0
            if t % 17 == 16:
                reported.append(env.drain_stats())
        reported.append(env.drain_stats())
        assert env.drain_stats().count == 0
        bonus = env.drain_compliance().bonus if isinstance(env, WorkflowVecEnv) else 0.0
    assert sum(stats.count for stats in reported) == len(expected) > 8
    rows = [row for stats in reported for row in zip(stats.env, stats.steps, strict=True)]
    assert rows == expected
    # Rewards contain the bonus of a workflow, returns do not.
    found = np.concatenate([stats.returns for stats in reported]) + bonus
    np.testing.assert_allclose(found, expected_returns, rtol=1e-5, atol=1e-4)
    assert all(
        len(getattr(stats, field.name)) == stats.count
        for stats in reported
        for field in fields(stats)
    )


@every_case
def test_rollout_rows_are_written_in_place(case: Case) -> None:
    """`out` may be row t of a (T, N, ...) memory; no other row is touched."""
    num_steps, num_envs = 30, 6
    with opened(case, num_envs) as env, opened(case, num_envs) as plain:
        spec = env.env_spec
        actions = random_actions(spec, num_steps, num_envs)
        expected = play(plain, actions)
        whole = poisoned(spec, num_envs * (num_steps + 1), 0x5B)
        memory = {
            field.name: array.reshape(num_steps + 1, num_envs, *array.shape[1:])
            for field in fields(whole)
            if (array := getattr(whole, field.name)) is not None
        }
        env.start(SEED, StepBuffers.allocate(spec, num_envs))
        for t, row in enumerate(actions):
            beyond = {name: array[t + 1 :].copy() for name, array in memory.items()}
            env.step_into(row, StepBuffers(**{name: array[t] for name, array in memory.items()}))
            for name, array in memory.items():
                np.testing.assert_array_equal(array[t + 1 :], beyond[name], err_msg=name)
    for name, array in memory.items():
        got = array[:-1].copy()
        if name.startswith("final_"):
            got[~expected.ended] = 0
        np.testing.assert_array_equal(got, expected.rows[name], err_msg=name)


@every_case
def test_masks_are_written_exactly_if_the_spec_says_so(case: Case) -> None:
    with opened(case, 16) as env:
        spec = env.env_spec
        out = poisoned(spec, 16, 0xFF)
        assert (out.mask is not None) == spec.has_mask
        if not spec.has_mask:
            return
        env.start(SEED, out)
        assert out.mask is not None
        assert out.mask.any(axis=1).all()
        trace = record(env, random_actions(spec, NUM_STEPS, 16), out)
    assert trace["mask"].dtype == bool
    assert trace["mask"].shape == (NUM_STEPS, 16, spec.mask_width)
    assert not trace["mask"].all()
    ended = trace["terminated"] | trace["truncated"]
    assert not trace["final_mask"][ended].all()


@every_case
def test_buffers_that_do_not_fit_are_refused(case: Case) -> None:
    """Kernels would write beyond them."""
    with opened(case, 4) as env:
        spec = env.env_spec
        env.start(SEED, StepBuffers.allocate(spec, 4))
        actions = random_actions(spec, 1, 4)[0]
        short = StepBuffers.allocate(spec, 3)
        narrow = StepBuffers.allocate(spec, 4)
        narrow.obs = narrow.obs[..., :-1]
        coarse = StepBuffers.allocate(spec, 4)
        coarse.reward = coarse.reward.astype(np.float64)  # type: ignore[assignment]
        strided = StepBuffers.allocate(spec, 4)
        strided.final_obs = np.zeros((8, *spec.obs.shape), spec.obs.dtype)[::2]
        for wrong in (short, narrow, coarse, strided):
            with pytest.raises(ValueError, match="must be"):
                env.step_into(actions, wrong)
            with pytest.raises(ValueError, match="must be"):
                env.start(SEED, wrong)


@every_case
def test_actions_are_only_read(case: Case) -> None:
    with opened(case, 4) as env:
        out = StepBuffers.allocate(env.env_spec, 4)
        env.start(SEED, out)
        actions = random_actions(env.env_spec, 1, 4)[0]
        before = actions.copy()
        actions.flags.writeable = False
        env.step_into(actions, out)
        out.obs[...] = 0
        env.step_into(actions, out)
    assert np.array_equal(actions, before)


@every_case
def test_close_may_be_called_twice(case: Case) -> None:
    env = case.make(2)
    env.start(SEED, StepBuffers.allocate(env.env_spec, 2))
    env.close()
    assert env.close() is None
    lanes = [thread.name for thread in threading.enumerate() if thread.name.startswith("brisk")]
    assert lanes == []


@every_case
def test_envs_of_one_batch_differ(case: Case) -> None:
    with opened(case, 16) as env:
        actions = np.repeat(random_actions(env.env_spec, NUM_STEPS, 1), 16, axis=1)
        trace = play(env, actions)
    assert not (trace.rows["obs"] == trace.rows["obs"][:, :1]).all()
