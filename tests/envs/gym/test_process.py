"""Environments in worker processes: the same trajectories, in lockstep and asynchronously."""

from __future__ import annotations

import os
import signal
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from briskrl.core.errors import BriskError, ConfigError
from briskrl.core.types import Array, StepBuffers
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.process import GymProcessEnv, num_workers
from briskrl.envs.gym.sync import GymSyncEnv
from tests.envs.gym import slow_envs
from tests.envs.recording import (
    SEED,
    Trace,
    assert_same,
    assert_same_rows,
    assert_same_stats,
    play,
    random_actions,
    record,
)

WALK = EnvFactory(slow_envs.WALK_ID, GymConfig(packages=(slow_envs.PACKAGE,)))
CARTPOLE = EnvFactory("CartPole-v1", GymConfig(max_steps=20))


@contextmanager
def opened(
    factory: EnvFactory,
    num_envs: int,
    *,
    partial: bool = False,
    workers: int = 2,
    **settings: object,
) -> Iterator[GymProcessEnv]:
    config = GymConfig(workers=workers, **settings)  # type: ignore[arg-type]
    env = GymProcessEnv(factory, num_envs, config, factory.spec(), partial)
    try:
        yield env
    finally:
        env.close()


class WaitsForAll:
    """Steps an async batch as a whole: sends all actions, in any order, and receives all."""

    def __init__(self, env: GymProcessEnv) -> None:
        self.env, self.env_spec, self.num_envs = env, env.env_spec, env.num_envs
        self._order = np.random.default_rng(3)
        self.start = env.start

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        ids = self._order.permutation(self.num_envs)
        self.env.send(actions[ids], ids)
        assert self.env.recv(self.num_envs, None, out).tolist() == list(range(self.num_envs))


@pytest.mark.parametrize("factory", [WALK, CARTPOLE], ids=["walk", "cartpole"])
@pytest.mark.parametrize("workers", [1, 3])
def test_sync_process_and_async_give_the_same_trajectories(
    factory: EnvFactory, workers: int
) -> None:
    num_envs = 7
    plain = GymSyncEnv(factory, num_envs, factory.spec())
    actions = random_actions(plain.env_spec, 80, num_envs) % 2
    expected, stats = play(plain, actions), plain.drain_stats()
    assert stats.count > num_envs
    with opened(factory, num_envs, workers=workers) as env:
        assert env.num_workers == workers
        assert_same(play(env, actions), expected)
        assert_same_stats(env.drain_stats(), stats)
    with opened(factory, num_envs, workers=workers, partial=True) as env:
        assert_same(play(WaitsForAll(env), actions), expected)  # type: ignore[arg-type]
        assert_same_stats(env.drain_stats(), stats)


def first_ready(
    env: GymProcessEnv, table: Array, min_ready: int, seed: int = SEED
) -> tuple[Trace, int]:
    """Take action table[t, i] in step t of env i; returns the trace and the number of calls."""
    num_steps, num_envs = table.shape
    out = StepBuffers.allocate(env.env_spec, num_envs)
    env.start(seed, out)
    first = out.obs.copy()
    rows = {
        name: np.zeros((num_steps, *getattr(out, name).shape), getattr(out, name).dtype)
        for name in ("obs", "reward", "terminated", "truncated", "final_obs")
    }
    at, calls = np.zeros(num_envs, int), 0
    free = np.arange(num_envs)
    while (at < num_steps).any():
        env.send(table[at[free], free], free)
        left = np.count_nonzero(at < num_steps)
        ids = env.recv(min(min_ready, left), None, out)
        assert len(ids) >= min(min_ready, left)
        calls += 1
        for k, i in enumerate(ids):
            for name, kept in rows.items():
                valid = not name.startswith("final") or out.terminated[k] or out.truncated[k]
                kept[at[i], i] = getattr(out, name)[k] if valid else 0
        at[ids] += 1
        free = ids[at[ids] < num_steps]
    return Trace(first, rows), calls


@pytest.mark.parametrize("min_ready", [1, 4])
def test_first_ready_delivers_each_transition_once_and_in_order(min_ready: int) -> None:
    settings = GymConfig(
        packages=(slow_envs.PACKAGE,), env_args={"sleep_s": 0.0002, "slow_share": 0.2}
    )
    factory = EnvFactory(slow_envs.WALK_ID, settings)
    plain = GymSyncEnv(factory, 9, factory.spec())
    table = random_actions(plain.env_spec, 60, 9)
    expected, stats = play(plain, table), plain.drain_stats()
    with opened(factory, 9, partial=True, workers=4) as env:
        found, calls = first_ready(env, table, min_ready)
        drained = env.drain_stats()
    assert_same(found, expected)
    assert calls > 60
    order = np.argsort(drained.env, kind="stable")
    wanted = np.argsort(stats.env, kind="stable")
    assert drained.steps[order].tolist() == stats.steps[wanted].tolist()
    np.testing.assert_array_equal(drained.returns[order], stats.returns[wanted])


def test_a_slow_env_delays_only_its_own_worker(tmp_path: Path) -> None:
    settings = GymConfig(
        packages=(slow_envs.PACKAGE,),
        env_args={"fault": "hang", "seed": 101, "at": 2, "mark": str(tmp_path / "hung")},
    )
    factory = EnvFactory(slow_envs.ID, settings)
    with opened(factory, 4, partial=True, workers=2) as env:
        out = StepBuffers.allocate(env.env_spec, 4)
        env.start(100, out)
        ids = np.arange(4)
        env.send(np.zeros(4, int), ids)
        env.recv(4, None, out)
        env.send(np.zeros(4, int), ids)
        got = env.recv(2, None, out).tolist()
        while len(got) < 3:
            got += env.recv(1, None, out).tolist()
        assert sorted(got) == [0, 2, 3]
        assert env.recv(1, 0.05, out).tolist() == []
        for _ in range(20):
            env.send(np.zeros(2, int), np.array([2, 3]))
            assert env.recv(2, None, out).tolist() == [2, 3]


def test_invalid_calls_of_send_and_recv_raise() -> None:
    with opened(WALK, 4, partial=True) as env:
        out = StepBuffers.allocate(env.env_spec, 4)
        with pytest.raises(BriskError, match="start"):
            env.send(np.zeros(1, int), np.array([0]))
        env.start(SEED, out)
        with pytest.raises(ValueError, match="0 to 3"):
            env.send(np.zeros(1, int), np.array([4]))
        with pytest.raises(ValueError, match="distinct"):
            env.send(np.zeros(2, int), np.array([1, 1]))
        env.send(np.zeros(2, int), np.array([1, 2]))
        with pytest.raises(ValueError, match="being stepped"):
            env.send(np.zeros(1, int), np.array([2]))
        with pytest.raises(ValueError, match="only 2"):
            env.recv(3, None, out)
        for call in (lambda: env.start(SEED, out), lambda: env.step_into(np.zeros(4, int), out)):
            with pytest.raises(RuntimeError, match="being stepped"):
                call()
        assert env.recv(2, None, out).tolist() == [1, 2]
        with pytest.raises(ValueError, match="shape"):
            env.step_into(np.zeros(1, int), out)
        env.step_into(np.zeros(4, int), out)


def test_a_state_can_move_between_backends() -> None:
    plain = GymSyncEnv(CARTPOLE, 5, CARTPOLE.spec())
    assert plain.env_spec.exact_state
    actions = random_actions(plain.env_spec, 60, 5)
    out = StepBuffers.allocate(plain.env_spec, 5)
    plain.start(SEED, out)
    record(plain, actions[:17], out)
    state = plain.get_state()
    expected = record(plain, actions[17:], out)
    with opened(CARTPOLE, 5, workers=2) as env, opened(CARTPOLE, 5, workers=3) as other:
        env.set_state(state)
        assert_same_rows(record(env, actions[17:40], out), {k: v[:23] for k, v in expected.items()})
        other.set_state(env.get_state())
        shown = StepBuffers.allocate(env.env_spec, 5)
        other.observe_into(shown)
        np.testing.assert_array_equal(shown.obs, out.obs)
        assert_same_rows(record(other, actions[40:], out), {k: v[23:] for k, v in expected.items()})


def test_a_state_saved_while_envs_are_busy_is_the_one_after_their_step() -> None:
    with opened(CARTPOLE, 4, partial=True) as env, opened(CARTPOLE, 4) as other:
        out, shown = (StepBuffers.allocate(env.env_spec, 4) for _ in range(2))
        env.start(SEED, out)
        env.send(np.ones(3, int), np.array([3, 0, 1]))
        other.set_state(env.get_state())
        other.observe_into(shown)
        assert env.recv(3, None, out).tolist() == [0, 1, 3]
        np.testing.assert_array_equal(shown.obs[[0, 1, 3]], out.obs[:3])


def test_stepping_allocates_nothing_that_grows_with_the_batch() -> None:
    with opened(CARTPOLE, 512) as env:
        out = StepBuffers.allocate(env.env_spec, 512)
        actions = random_actions(env.env_spec, 15, 512)
        env.start(SEED, out)
        for row in actions[:5]:
            env.step_into(row, out)
        env.drain_stats()
        env.start(SEED, out)
        tracemalloc.start()
        try:
            # No episode of CartPole ends within five steps; records of ended ones take memory.
            for row in actions[:5]:
                env.step_into(row, out)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            env.step_into(actions[5], out)
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    # One float32 observation of each env would be 8192.
    assert peak - before < 2048
    assert after - before < 512


def test_workers_load_neither_torch_nor_numba() -> None:
    with opened(CARTPOLE, 2) as env:
        for pid in env.worker_pids:
            mapped = Path(f"/proc/{pid}/maps").read_text()
            assert "numpy" in mapped
            assert "torch" not in mapped
            assert "llvmlite" not in mapped


def test_an_id_that_only_the_trainer_has_registered_reaches_the_workers() -> None:
    gymnasium.register("brisk-registered-v0", entry_point=f"{slow_envs.PACKAGE}:WalkEnv")
    factory = EnvFactory("brisk-registered-v0")
    with opened(factory, 2) as env:
        trace = play(env, random_actions(env.env_spec, 20, 2))
    assert trace.ended.any()


def test_an_environment_that_cannot_be_made_is_a_config_error() -> None:
    spec = WALK.spec()
    settings = GymConfig(packages=(slow_envs.PACKAGE,), env_args={"fault": "make"})
    with pytest.raises(ConfigError, match="no such world"):
        GymProcessEnv(EnvFactory(slow_envs.ID, settings), 2, settings, spec)


def test_workers_ignore_interrupts() -> None:
    with opened(WALK, 4) as env:
        out = StepBuffers.allocate(env.env_spec, 4)
        env.start(SEED, out)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for pid in env.worker_pids:
                os.kill(pid, number)
            env.step_into(np.zeros(4, int), out)
        assert env.respawns == 0


def test_waiting_for_slow_envs_uses_little_cpu_time() -> None:
    settings = GymConfig(packages=(slow_envs.PACKAGE,), env_args={"sleep_s": 0.02})
    factory = EnvFactory(slow_envs.WALK_ID, settings)
    with opened(factory, 2) as env:
        out = StepBuffers.allocate(env.env_spec, 2)
        env.start(SEED, out)
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(25):
            env.step_into(np.zeros(2, int), out)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert wall > 0.5
    assert cpu < 0.1 * wall


def test_the_number_of_workers_depends_on_envs_cores_and_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("briskrl.envs.gym.process.usable_cores", lambda: 4)
    assert num_workers(64, 0, partial=False) == 4
    assert num_workers(3, 0, partial=False) == 3
    assert num_workers(64, 0, partial=True) == 16
    assert num_workers(64, 7, partial=True) == 7
    assert num_workers(2, 7, partial=False) == 2
