"""Real workers that are killed, hang or raise, and environments that return invalid values."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from briskrl.core.errors import BriskError, EnvStepError, EnvWorkerError
from briskrl.core.types import StepBuffers
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.process import GymProcessEnv
from briskrl.envs.gym.sync import GymSyncEnv
from tests.chaos.sabotage import Sabotage, seconds_to_notice
from tests.envs.gym import slow_envs
from tests.envs.recording import Trace, assert_same, play, random_actions

SEED = 1000
NUM_ENVS = 4
FAULTY = 1
"""The env that fails; it shares its worker with env 0."""
AT = 5
"""The step in which it does."""
STEP_ERRORS = {
    "raise": "raised in step: ZeroDivisionError: the floor is gone",
    "nan-obs": "not finite",
    "inf-obs": "not finite",
    "nan-reward": "the reward nan",
    "shape": r"shape \(5,\) instead of \(4,\)",
}
DEATHS = {
    "kill": "was killed by SIGKILL while it stepped environment 1",
    "exit": "exited with code 3 while it stepped environment 1",
    "sys-exit": "exited with code 4 while it stepped environment 1",
    "hang": "has made no progress for 0.5 s .* while it stepped environment 1",
    "spin": "has made no progress for 0.5 s .* while it stepped environment 1",
}


def settings(fault: str, mark: Path | None, policy: str = "stop", at: int = AT) -> GymConfig:
    stuck = fault in ("hang", "spin")
    return GymConfig(
        workers=2,
        packages=(slow_envs.PACKAGE,),
        on_env_error=policy,  # type: ignore[arg-type]
        env_timeout=0.5 if stuck else 30.0,
        env_args={
            "fault": fault,
            "seed": SEED + FAULTY,
            "at": at,
            "mark": "" if mark is None else str(mark),
        },
    )


@contextmanager
def opened(config: GymConfig, num_envs: int = NUM_ENVS) -> Iterator[GymProcessEnv]:
    factory = EnvFactory(slow_envs.ID, config)
    spec = EnvFactory(slow_envs.WALK_ID, GymConfig(packages=(slow_envs.PACKAGE,))).spec()
    env = GymProcessEnv(factory, num_envs, config, spec, partial=True)
    try:
        yield env
    finally:
        env.close()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("fault", STEP_ERRORS)
def test_a_failed_step_stops_with_env_id_and_traceback(fault: str, tmp_path: Path) -> None:
    with opened(settings(fault, tmp_path / "mark")) as env:
        actions = random_actions(env.env_spec, AT, NUM_ENVS)
        with pytest.raises(EnvStepError, match=STEP_ERRORS[fault]) as caught:
            play(env, actions, seed=SEED)
        message = str(caught.value)
        assert message.startswith("Environment 1 (gym:brisk-faulty-v0)")
        assert caught.value.index == FAULTY
        assert "Traceback (most recent call last)" in message
        if fault == "raise":
            assert "slow_envs.py" in message
        # No further step is possible.
        with pytest.raises(EnvStepError):
            env.get_state()


@pytest.mark.parametrize("fault", DEATHS)
def test_a_dead_or_stuck_worker_stops_and_names_its_envs(fault: str, tmp_path: Path) -> None:
    with opened(settings(fault, tmp_path / "mark")) as env:
        pids = env.worker_pids
        actions = random_actions(env.env_spec, AT, NUM_ENVS)
        with pytest.raises(EnvWorkerError, match=DEATHS[fault]) as caught:
            play(env, actions, seed=SEED)
        assert "environments 0 to 1 (gym:brisk-faulty-v0)" in str(caught.value)
        assert caught.value.indices == (0, 1)
        assert "--on-env-error respawn" in str(caught.value)
    assert not any(map(alive, pids))


@pytest.mark.parametrize("fault", [*STEP_ERRORS, *DEATHS])
def test_a_respawn_costs_one_truncated_episode(fault: str, tmp_path: Path) -> None:
    walk = EnvFactory(slow_envs.WALK_ID, GymConfig(packages=(slow_envs.PACKAGE,)))
    plain = GymSyncEnv(walk, NUM_ENVS, walk.spec())
    actions = random_actions(plain.env_spec, 60, NUM_ENVS)
    expected = play(plain, actions, seed=SEED)
    with opened(settings(fault, tmp_path / "mark", "respawn")) as env:
        found = play(env, actions, seed=SEED)
        stats = env.drain_stats()
        assert env.respawns == 1
        assert len(env.notes) == 1
    # A dead worker loses its other env too; after an exception the worker lives.
    lost = [0, 1] if fault in DEATHS else [1]
    others = [i for i in range(NUM_ENVS) if i not in lost]
    for i in others:
        assert_same(found.of(slice(i, i + 1)), expected.of(slice(i, i + 1)))
    for i in lost:
        rows = {name: array[:, i] for name, array in found.rows.items()}
        at = int(np.flatnonzero(rows["truncated"])[0])
        # Env 0 is stepped before env 1, so its own step is known when the worker dies.
        assert at == AT - 1
        assert rows["truncated"].sum() == 1
        before = {name: array[:at] for name, array in rows.items()}
        for name, array in before.items():
            np.testing.assert_array_equal(array, expected.rows[name][:at, i])
        if i == FAULTY:
            assert rows["reward"][at] == 0.0
            np.testing.assert_array_equal(rows["final_obs"][at], rows["obs"][at - 1])
        else:
            assert rows["reward"][at] == expected.rows["reward"][at, i]
            np.testing.assert_array_equal(rows["final_obs"][at], expected.rows["obs"][at, i])
        assert rows["obs"][at].tolist()[:3] == [0, 1, 0]
        assert rows["obs"][at + 1, 0] == 1
    for i in range(NUM_ENVS):
        when = np.flatnonzero(found.ended[:, i]) + 1
        np.testing.assert_array_equal(np.cumsum(stats.steps[stats.env == i]), when)
        np.testing.assert_allclose(stats.returns[stats.env == i], returns(found, i))


def returns(found: Trace, i: int) -> list[float]:
    """Returns of the ended episodes of an env."""
    edges = [0, *(np.flatnonzero(found.ended[:, i]) + 1).tolist()]
    rewards = found.rows["reward"][:, i]
    return [float(rewards[low:high].sum()) for low, high in pairwise(edges)]


@pytest.mark.parametrize("place", ["constructor", "reset"])
def test_a_slow_worker_does_not_hide_that_another_one_died(place: str, tmp_path: Path) -> None:
    # While instance 0 is being made or reset, the other worker fails with instance 1.
    killed = Sabotage("kill", place, who=1, at=1, slow=0, slow_s=4.0)
    seconds, error = seconds_to_notice(killed, tmp_path / "envs", steps=1)
    assert "was killed by SIGKILL" in str(error)
    assert seconds < killed.limit_s()


@pytest.mark.parametrize("place", ["constructor", "reset"])
def test_an_environment_that_hangs_before_its_first_step_is_noticed(
    place: str, tmp_path: Path
) -> None:
    """The timeout is that of one environment, however many a worker has."""
    hanging = Sabotage("hang", place, who=0, at=1)
    seconds, error = seconds_to_notice(hanging, tmp_path / "envs", steps=1)
    assert "has made no progress for 0.5 s (env_timeout)." in str(error)
    assert seconds < hanging.limit_s()


def test_an_idle_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    with opened(settings("", None, "respawn")) as env:
        out = StepBuffers.allocate(env.env_spec, NUM_ENVS)
        env.start(SEED, out)
        env.step_into(np.ones(NUM_ENVS, int), out)
        before = out.obs.copy()
        os.kill(env.worker_pids[0], signal.SIGKILL)
        env.step_into(np.ones(NUM_ENVS, int), out)
        assert out.truncated.tolist() == [True, True, False, False]
        np.testing.assert_array_equal(out.final_obs[:2], before[:2])
        assert out.reward.tolist() == [0.0, 0.0, 0.5, 0.5]
        assert env.respawns == 1
        env.step_into(np.ones(NUM_ENVS, int), out)
        assert out.obs[:, 0].tolist() == [1, 1, 3, 3]
        assert env.drain_stats().env.tolist() == [0, 1]


def test_a_lost_episode_of_an_idle_env_ends_in_its_next_step() -> None:
    """Ready, waiting and idle envs of a dead worker are truncated once each."""
    config = settings("hang", None, "respawn", at=2)
    with opened(config, 6) as env:
        out = StepBuffers.allocate(env.env_spec, 6)
        env.start(SEED, out)
        env.send(np.ones(1, int), np.array([0]))
        assert env.recv(1, None, out).tolist() == [0]
        shown = out.obs[0].copy()
        # Env 0 hangs in its second step; env 2 is idle; env 1 waits behind env 0.
        env.send(np.ones(2, int), np.array([0, 1]))
        assert env.recv(2, None, out).tolist() == [0, 1]
        assert out.truncated[:2].all()
        np.testing.assert_array_equal(out.final_obs[0], shown)
        assert out.obs[:2, 0].tolist() == [0, 0]
        env.send(np.ones(4, int), np.array([5, 4, 3, 2]))
        assert env.recv(4, None, out).tolist() == [2, 3, 4, 5]
        assert out.truncated[:4].tolist() == [True, False, False, False]
        assert out.obs[:4, 0].tolist() == [0, 1, 1, 1]
        env.send(np.ones(1, int), np.array([2]))
        assert env.recv(1, None, out).tolist() == [2]
        assert out.obs[0, 0] == 1
        assert not out.truncated[0]
        assert env.respawns == 1


def test_a_state_can_be_saved_after_a_worker_was_killed() -> None:
    with opened(settings("", None, "respawn")) as env:
        out = StepBuffers.allocate(env.env_spec, NUM_ENVS)
        env.start(SEED, out)
        os.kill(env.worker_pids[1], signal.SIGKILL)
        state = env.get_state()
        env.set_state(state)
        env.observe_into(out)
        np.testing.assert_array_equal(out.obs, state["obs"])
        env.step_into(np.ones(NUM_ENVS, int), out)
        assert not out.truncated.any()
        assert env.respawns == 1


@pytest.mark.parametrize("fault", ["raise", "kill", "reset"])
def test_repeated_failures_stop_training(fault: str) -> None:
    with opened(settings(fault, None, "respawn", at=1), 2) as env:
        pids = env.worker_pids
        with pytest.raises(BriskError, match="last of 11 failures in a row"):
            play(env, random_actions(env.env_spec, 200, 2), seed=SEED)
        # Two workers, each of which fails in every step.
        assert 10 <= env.respawns <= 20
    assert not any(map(alive, pids))


def test_no_transition_is_lost_when_workers_are_killed() -> None:
    """The steps of each env come once and in order, and episodes add up."""
    rng = np.random.default_rng(5)
    num_envs, wanted = 6, 150
    config = settings("", None, "respawn")
    with opened(config, num_envs) as env:
        out = StepBuffers.allocate(env.env_spec, num_envs)
        env.start(SEED, out)
        count = np.zeros(num_envs, int)
        at = np.zeros(num_envs, int)
        lost = 0
        free = np.arange(num_envs)
        while (count < wanted).any():
            env.send(rng.integers(3, size=len(free)), free)
            if rng.random() < 0.03:
                os.kill(env.worker_pids[int(rng.integers(2))], signal.SIGKILL)
            free = env.recv(int(rng.integers(1, 4)), None, out)
            count[free] += 1
            for k, i in enumerate(free):
                at[i] += 1
                if out.truncated[k]:
                    lost += 1
                    assert out.final_obs[k, 0] in (at[i] - 1, at[i])
                elif out.terminated[k]:
                    assert out.final_obs[k, 0] == at[i]
                else:
                    assert out.obs[k, 0] == at[i]
                    continue
                assert out.obs[k, 0] == 0
                at[i] = 0
        assert env.respawns > 3
        stats = env.drain_stats()
    assert lost >= env.respawns
    assert (stats.cause == 2).sum() == lost
    sums = np.bincount(stats.env, stats.steps, num_envs)
    np.testing.assert_array_equal(sums + at, count)


@pytest.mark.parametrize("fault", ["hang", "spin", "close"])
def test_closing_takes_no_longer_than_five_seconds(fault: str) -> None:
    with opened(settings(fault, None, at=1)) as env:
        pids = env.worker_pids
        out = StepBuffers.allocate(env.env_spec, NUM_ENVS)
        env.start(SEED, out)
        env.send(np.zeros(4, int), np.arange(4))
        begin = time.monotonic()
        env.close()
        assert time.monotonic() - begin < 5.0
        env.close()
    assert not any(map(alive, pids))


def test_closing_inside_a_signal_handler_ends_a_wait() -> None:
    class Stop(Exception):  # noqa: N818
        pass

    def handle(number: int, frame: object) -> None:
        env.close()
        raise Stop

    with opened(GymConfig(**{**vars_of(settings("hang", None, at=1)), "env_timeout": 60.0})) as env:
        pids = env.worker_pids
        out = StepBuffers.allocate(env.env_spec, NUM_ENVS)
        env.start(SEED, out)
        before = signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with pytest.raises(Stop):
                env.step_into(np.zeros(NUM_ENVS, int), out)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    assert not any(map(alive, pids))


def vars_of(config: GymConfig) -> dict[str, Any]:
    return {field.name: getattr(config, field.name) for field in fields(config)}


ORPHAN_MAKER = """
import os, sys, time, numpy as np
from briskrl.core.types import StepBuffers
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.process import GymProcessEnv
from briskrl.envs.gym.env_factory import EnvFactory
from tests.envs.gym import slow_envs

fault, forks = sys.argv[1], sys.argv[2] == "True"
config = GymConfig(
    workers=3, packages=(slow_envs.PACKAGE,), env_args={"fault": fault, "seed": 1, "at": 3}
)
walk = EnvFactory(slow_envs.WALK_ID, GymConfig(packages=(slow_envs.PACKAGE,)))
env = GymProcessEnv(EnvFactory(slow_envs.ID, config), 6, config, walk.spec())
out = StepBuffers.allocate(env.env_spec, 6)
env.start(0, out)
for _ in range(2):
    env.step_into(np.zeros(6, int), out)
print(*env.worker_pids, flush=True)
if forks and os.fork() == 0:
    while os.getppid() != 1:
        time.sleep(0.05)
    time.sleep(15)
    os._exit(0)
if fault:
    env.step_into(np.zeros(6, int), out)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("fault", "forks"),
    [("", False), ("hang", False), ("spin", False), ("hang", True)],
    ids=["idle", "hang", "spin", "forked"],
)
def test_no_process_or_memory_is_left_after_the_trainer_was_killed(fault: str, forks: bool) -> None:
    shared = set(os.listdir("/dev/shm"))
    trainer = subprocess.Popen(
        [sys.executable, "-c", ORPHAN_MAKER, fault, str(forks)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        text=True,
    )
    assert trainer.stdin is not None
    assert trainer.stdout is not None
    pids = [int(word) for word in trainer.stdout.readline().split()]
    assert len(pids) == 3
    assert all(map(alive, pids))
    if fault:
        # Wait until the workers are in the step that never ends.
        time.sleep(0.2)
    trainer.kill()
    trainer.wait()
    end = time.monotonic() + 10.0
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    left = [pid for pid in pids if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
    assert {name for name in os.listdir("/dev/shm") if "brisk" in name} <= shared


def test_workers_end_when_the_environment_is_garbage_collected() -> None:
    with opened(settings("", None)) as env:
        pids = env.worker_pids
        assert all(map(alive, pids))
    config = settings("", None)
    spec = env.env_spec
    forgotten = GymProcessEnv(EnvFactory(slow_envs.ID, config), 2, config, spec)
    pids = forgotten.worker_pids
    fds = len(os.listdir("/proc/self/fd"))
    del forgotten
    gc.collect()
    assert not any(map(alive, pids))
    assert len(os.listdir("/proc/self/fd")) < fds
