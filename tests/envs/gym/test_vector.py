"""Third-party vector environments: the same transitions as ours in every autoreset mode."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from briskrl.core.errors import BriskError, ConfigError, EnvStepError
from briskrl.core.types import EpisodeStats, StepBuffers
from briskrl.envs.base import VecEnv
from briskrl.envs.external import adapt
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.envpool import EnvPoolAdapter
from briskrl.envs.gym.next_step_adapter import NextStepAdapter
from briskrl.envs.gym.vector import VectorAdapter
from briskrl.envs.make import make_env
from tests.envs.gym.vectors import NextStepOnly, Pool, single, sync_vector
from tests.envs.recording import Trace, assert_same, play, random_actions

MEMBERS = [
    "CartPole-v1",
    "Pendulum-v1",
    "brisktest/DictWorld-v0",
    "brisktest/ImageWorld-v0",
    "brisktest/MultiWorld-v0",
    "brisktest/ShiftedWorld-v0",
    "brisktest/MaskInfoWorld-v0",
]
NUM_ENVS, NUM_STEPS, SEED = 5, 60, 321


def ours(member: str) -> VecEnv:
    config = GymConfig(backend="sync", max_steps=9, packages=("tests.envs.gym.toy_envs",))
    return make_env(f"gym:{member}", NUM_ENVS, config=config)


def expected(member: str) -> tuple[Trace, Any, np.ndarray]:
    env = ours(member)
    actions = random_actions(env.env_spec, NUM_STEPS, NUM_ENVS)
    trace = play(env, actions, seed=SEED)
    assert trace.ended.sum() > 2 * NUM_ENVS
    return trace, env.drain_stats(), actions


def assert_equal_episodes(left: EpisodeStats, right: EpisodeStats) -> None:
    for name in ("env", "steps", "won", "cause"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
    # Vector environments may round the rewards that are summed here.
    np.testing.assert_allclose(left.returns, right.returns, rtol=1e-6, atol=1e-5)
    np.testing.assert_array_equal(left.score, left.returns)


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
def test_all_autoreset_modes_give_the_same_transitions(member: str, mode: AutoresetMode) -> None:
    trace, stats, actions = expected(member)
    env = adapt(sync_vector(member, NUM_ENVS, mode))
    assert isinstance(env, VectorAdapter)
    assert_same(play(env, actions, seed=SEED, byte=0xFF), trace)
    assert_equal_episodes(env.drain_stats(), stats)
    assert env.drain_stats().count == 0
    assert not env.env_spec.exact_state
    env.close()
    env.close()


def test_the_specs_agree() -> None:
    for member in MEMBERS:
        left, right = ours(member).env_spec, adapt(sync_vector(member, 2, AutoresetMode.SAME_STEP))
        found = right.env_spec
        assert (found.obs, found.action, found.has_mask) == (left.obs, left.action, left.has_mask)


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
def test_gymnasiums_async_vector_environments_work(mode: AutoresetMode) -> None:
    trace, _, actions = expected("CartPole-v1")
    made = AsyncVectorEnv(
        [lambda: single("CartPole-v1", 9)] * NUM_ENVS, autoreset_mode=mode, context="fork"
    )
    env = adapt(made)
    try:
        assert_same(play(env, actions, seed=SEED), trace)
    finally:
        env.close()


@pytest.mark.parametrize("member", MEMBERS)
def test_reset_steps_are_not_transitions(member: str) -> None:
    """Each env's transitions come once, in order, whole, and equal to ours."""
    trace, stats, actions = expected(member)
    env: Any = adapt(NextStepOnly(member, NUM_ENVS))
    assert isinstance(env, NextStepAdapter)
    assert env.async_env is env
    out = StepBuffers.allocate(env.env_spec, NUM_ENVS)
    env.start(SEED, out)
    np.testing.assert_array_equal(out.obs, trace.first_obs)
    at = np.zeros(NUM_ENVS, int)
    free = np.arange(NUM_ENVS)
    counts = []
    while (at < NUM_STEPS - 12).any():
        env.send(actions[at[free], free], free)
        free = env.recv(1, None, out)
        counts.append(len(free))
        for row, i in enumerate(free):
            for name, rows in trace.rows.items():
                got = getattr(out, name)[row]
                if not name.startswith("final_") or trace.ended[at[i], i]:
                    np.testing.assert_array_equal(got, rows[at[i], i], err_msg=name)
            at[i] += 1
    # Worlds end at random, the others all at the limit.
    assert (min(counts) < NUM_ENVS) == member.startswith("brisktest")
    found = env.drain_stats()
    for i in range(NUM_ENVS):
        mine = found.returns[found.env == i]
        np.testing.assert_allclose(
            mine, stats.returns[stats.env == i][: len(mine)], rtol=1e-6, atol=1e-5
        )
        assert len(mine)


def test_envs_that_step_together_all_need_an_action() -> None:
    env: Any = adapt(NextStepOnly("CartPole-v1", 3))
    out = StepBuffers.allocate(env.env_spec, 3)
    env.start(0, out)
    env.send(np.zeros(2, np.int64), np.array([0, 2]))
    with pytest.raises(BriskError, match="can only step together"):
        env.recv(1, None, out)


def test_held_transitions_can_be_received_before_a_new_start() -> None:
    env: Any = adapt(NextStepOnly("CartPole-v1", 3, limit=4))
    out = StepBuffers.allocate(env.env_spec, 3)
    env.start(0, out)
    everybody = np.arange(3)
    for _ in range(3):
        env.send(np.array([0, 1, 0]), everybody)
        assert list(env.recv(1, None, out)) == [0, 1, 2]
    env.send(np.array([0, 1, 0]), everybody)
    # All of them end together, so the next step is needed to complete any of them.
    assert list(env.recv(1, None, out)) == [0, 1, 2]
    assert out.truncated.all()
    with pytest.raises(BriskError, match="nothing was sent"):
        env.recv(1, None, out)
    env.start(1, out)
    env.send(np.zeros(3, np.int64), everybody)
    assert len(env.recv(1, None, out)) == 3


@pytest.mark.parametrize("member", ["CartPole-v1", "Pendulum-v1", "brisktest/ImageWorld-v0"])
def test_a_pool_gives_the_same_transitions(member: str) -> None:
    trace, stats, actions = expected(member)
    pool = Pool(member, NUM_ENVS, SEED)
    env = adapt(pool)
    assert isinstance(env, EnvPoolAdapter)
    assert_same(play(env, actions, seed=SEED, byte=0xFF), trace)
    assert_equal_episodes(env.drain_stats(), stats)
    assert pool.wasted == 0
    assert env.env_spec.max_steps == 9
    env.close()
    assert pool.closed == 1


def test_a_pool_that_returns_partial_batches_is_an_error() -> None:
    pool = Pool("CartPole-v1", 4, 0)
    pool.config["batch_size"] = 2
    with pytest.raises(ConfigError, match="batch_size = num_envs"):
        adapt(pool)


def test_a_restored_vector_environment_begins_new_episodes() -> None:
    env: Any = adapt(sync_vector("CartPole-v1", 3, AutoresetMode.SAME_STEP))
    out = StepBuffers.allocate(env.env_spec, 3)
    env.start(5, out)
    first = out.obs.copy()
    state = env.get_state()
    env.step_into(np.zeros(3, np.int64), out)
    env.set_state(state)
    env.observe_into(out)
    assert not np.array_equal(out.obs, first)
    for _ in range(9):
        env.step_into(np.array([0, 1, 0]), out)
    assert (env.drain_stats().steps <= 9).all()


class Broken(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Any, obs: Any, reward: float) -> None:
        super().__init__(env)
        self.wrong = (obs, reward)

    def step(self, action: Any) -> Any:
        return *self.wrong, False, False, {}


@pytest.mark.parametrize(
    ("obs", "reward", "message"),
    [
        (np.array([0, np.nan, 0, 0], np.float32), 1.0, "Environment 1 .* not finite"),
        (np.zeros(4, np.float32), float("inf"), "Environment 1 returned the reward inf"),
    ],
)
def test_invalid_values_are_an_error(obs: Any, reward: float, message: str) -> None:
    from gymnasium.vector import SyncVectorEnv

    makers = [
        lambda: single("CartPole-v1", 9),
        lambda: Broken(single("CartPole-v1", 9), obs, reward),
    ]
    env = adapt(SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP))
    out = StepBuffers.allocate(env.env_spec, 2)
    env.start(0, out)
    with pytest.raises(EnvStepError, match=message):
        env.step_into(np.zeros(2, np.int64), out)


def test_other_objects_are_an_error() -> None:
    for wrong in (object(), object):
        with pytest.raises(ConfigError, match="must be a gymnasium"):
            adapt(wrong)


def test_our_environments_are_used_directly_unless_their_autoreset_mode_differs() -> None:
    from briskrl.envs.snake.env import SnakeVecEnv

    env = SnakeVecEnv(4)
    assert adapt(env) is env
    other = SnakeVecEnv(4, autoreset_mode=AutoresetMode.DISABLED)
    adapted = adapt(other)
    assert isinstance(adapted, VectorAdapter)
    actions = random_actions(env.env_spec, 50, 4)
    left, right = play(env, actions, seed=9), play(adapted, actions, seed=9)
    assert left.ended.any()
    assert_same(left, right)
