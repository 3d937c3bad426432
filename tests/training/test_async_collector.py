"""Asynchronous collection stores every transition once, in the order of its environment."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.core.counters import Counters
from briskrl.core.phase import PhaseTimer
from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.core.types import EpisodeStats, StepBuffers
from briskrl.memory.replay import ReplayBuffer
from briskrl.memory.rollout import RolloutBuffer
from briskrl.training.async_collector import AsyncCollector
from briskrl.training.config import TrainConfig
from briskrl.training.loop import resume, train
from briskrl.training.update_schedule import RatioSchedule, RolloutSchedule
from tests.training.runs import small_config

N, T = 6, 5


class CountingEnv:
    """Env i observes (i, its steps, its last action); the order of finishing is random."""

    lockstep = False

    def __init__(self, min_ready: int) -> None:
        self.min_ready = min_ready
        self.num_envs = N
        self.env_spec = EnvSpec(
            ArraySpec.of((3,), np.float32, 0, 1e6), DiscreteSpec(50), None, True, False
        )
        self.steps = np.zeros(N, np.int64)
        self.waiting: dict[int, int] = {}
        self.rng = np.random.default_rng(0)

    def start(self, seed: int, out: StepBuffers) -> None:
        assert not self.waiting
        self.steps[:] = 0
        for env in range(N):
            self.show(env, env, -1, out)

    def show(self, row: int, env: int, action: int, out: StepBuffers) -> None:
        out.obs[row] = (env, self.steps[env], action)
        out.mask[row] = False
        out.mask[row, env::N] = True

    def send(self, actions, ids) -> None:
        for env, action in zip(ids.tolist(), actions.tolist(), strict=True):
            assert env not in self.waiting
            assert action % N == env
            self.waiting[env] = action

    def recv(self, min_ready, timeout, out):
        assert 1 <= min_ready <= len(self.waiting)
        count = self.rng.integers(min_ready, len(self.waiting) + 1)
        ids = self.rng.permutation(list(self.waiting))[:count]
        for row, env in enumerate(ids.tolist()):
            self.steps[env] += 1
            out.reward[row] = self.steps[env]
            out.terminated[row] = False
            out.truncated[row] = self.steps[env] % 7 == 0
            out.final_obs[row] = (env, self.steps[env], -2)
            self.show(row, env, self.waiting.pop(env), out)
        return ids

    def drain_stats(self) -> EpisodeStats:
        empty = np.zeros(0)
        return EpisodeStats(*[empty] * 6)


class LockstepEnv(CountingEnv):
    """No env can rest, so those whose column of a rollout is full go on."""

    lockstep = True


class UpdatesAsLogProb:
    """Writes into the log probability after how many updates an action was chosen."""

    def act(self, obs, mask, counters, out) -> None:
        out.action[: len(obs)] = np.argmax(mask, axis=1)
        out.log_prob[: len(obs)] = counters.updates


class Chooser:
    """Takes a legal action and writes its number into the log probability."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)

    def act(self, obs, mask, counters, out) -> None:
        for row in range(len(obs)):
            out.action[row] = self.rng.choice(np.flatnonzero(mask[row]))
            out.log_prob[row] = -float(out.action[row])


def collect(memory, env, actor=None, counters=None) -> AsyncCollector:
    collector = AsyncCollector(
        env,
        actor or Chooser(),
        memory,
        PhaseTimer(),
        counters or Counters(),
        on_policy=isinstance(memory, RolloutBuffer),
    )
    collector.start(3)
    return collector


@pytest.mark.parametrize("min_ready", [1, 3, N])
def test_rollouts_contain_every_column_in_order(min_ready):
    env = CountingEnv(min_ready)
    memory = RolloutBuffer(spec=env.env_spec, num_envs=N, steps=T, reuse=0)
    collector = collect(memory, env)
    schedule = RolloutSchedule(rollout_steps=N * T, updates=3, reuse=0)
    for number in range(4):
        due = 0
        while not due:
            count, _ = collector.collect()
            due = schedule.due(count)
        assert not env.waiting
        rollout = memory.rollouts()[0]
        first = number * T
        for t in range(T):
            np.testing.assert_array_equal(rollout.obs[t, :, 0], np.arange(N))
            np.testing.assert_array_equal(rollout.obs[t, :, 1], np.full(N, first + t))
            np.testing.assert_array_equal(rollout.obs[t + 1, :, 2], rollout.action[t])
            np.testing.assert_array_equal(rollout.reward[t], np.full(N, first + t + 1))
            np.testing.assert_array_equal(rollout.behavior_log_prob[t], -rollout.action[t])
            np.testing.assert_array_equal(rollout.action[t] % N, np.arange(N))
            ends = (first + t + 1) % 7 == 0
            np.testing.assert_array_equal(rollout.truncated[t], np.full(N, ends))
        memory.next_rollout()


def test_rollouts_contain_no_actions_of_older_policies():
    env, counters = LockstepEnv(min_ready=1), Counters()
    memory = RolloutBuffer(spec=env.env_spec, num_envs=N, steps=T, reuse=0)
    collector = collect(memory, env, UpdatesAsLogProb(), counters)
    under_way = 0
    for _ in range(4):
        while memory.has_room.any():
            collector.collect()
        chosen_after = memory.rollouts()[0].behavior_log_prob[:T]
        np.testing.assert_array_equal(chosen_after, np.full((T, N), counters.updates))
        under_way += len(env.waiting)
        memory.next_rollout()
        counters.updates += 3
    # Otherwise no action was chosen before an update and finished after it.
    assert under_way > 0


@pytest.mark.parametrize("min_ready", [1, 4])
def test_replay_contains_every_transition_once_and_the_ratio_is_exact(min_ready):
    env = CountingEnv(min_ready)
    memory = ReplayBuffer(spec=env.env_spec, num_envs=N, capacity=N * 64, n_step=1, gamma=1.0)
    collector = collect(memory, env)
    schedule = RatioSchedule(updates_per_step=0.37, learning_starts=20)
    written = updates = 0
    while written < N * 30:
        count, _ = collector.collect()
        written += count
        updates += schedule.due(count)
    assert updates == (written - 20) * 37 // 100
    counts = memory.cursor[1]
    assert counts.sum() == written
    for e in range(N):
        rows = np.arange(counts[e]) * N + e
        np.testing.assert_array_equal(memory.ring.obs[rows, 0], np.full(len(rows), e))
        np.testing.assert_array_equal(memory.ring.obs[rows, 1], np.arange(len(rows)))
        np.testing.assert_array_equal(memory.ring.reward[rows], np.arange(len(rows)) + 1)
    collector.cancel_or_wait()
    assert not env.waiting


@pytest.mark.parametrize("preset", ["dqn", "ppo"])
def test_a_run_on_async_workers_counts_and_resumes(tmp_path, preset):
    config = small_config(
        tmp_path / "run",
        preset,
        env="gym:CartPole-v1",
        env_config={"backend": "async", "workers": 2, "min_ready": 3},
        num_envs=8,
        steps=1200,
        algo_config={"update_steps": 10} if preset == "ppo" else {},
    )
    assert isinstance(config, TrainConfig)
    result = train(config)
    assert not result.exact_resume
    assert 1200 <= result.env_steps < 1200 + 80
    if preset == "ppo":
        assert result.updates == result.env_steps // 80 * 4
    else:
        earning = result.env_steps - result.learning_starts
        assert result.updates == earning // 10
    again = resume(tmp_path / "run", steps=2000)
    assert again.env_steps >= 2000
    assert again.updates > result.updates
