"""The compiled CartPole is bit-identical to Gymnasium's own and to the sync backend."""

from __future__ import annotations

from contextlib import closing
from dataclasses import fields, replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.core.errors import BriskError, EnvStepError
from briskrl.core.types import StepBuffers
from briskrl.envs.cartpole.players import heuristic_actions
from briskrl.envs.gym.compiled.cartpole import CARTPOLE
from briskrl.envs.gym.compiled.env import GymCompiledEnv
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.process import GymProcessEnv
from briskrl.envs.gym.snapshot import EnvState, pack_states, unpack_states
from briskrl.envs.gym.sync import GymSyncEnv
from tests.envs.recording import (
    SEED,
    assert_same,
    assert_same_rows,
    assert_same_stats,
    play,
    random_actions,
    record,
)

PLAIN = EnvFactory("CartPole-v1")


def compiled(factory: EnvFactory, num_envs: int, **options: Any) -> GymCompiledEnv:
    return GymCompiledEnv(factory, num_envs, factory.spec(), CARTPOLE, **options)


def some_balance(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Actions with which a third of the carts balances, a third rolls away and a third falls."""
    pushes = np.stack(
        [
            heuristic_actions(obs),
            (2 * (obs[:, 2] - 0.05) + obs[:, 3] > 0).astype(np.int64),
            rng.integers(2, size=len(obs)),
        ]
    )
    return pushes[np.arange(len(obs)) % 3, np.arange(len(obs))]


@pytest.mark.parametrize("member", ["CartPole-v1", "CartPole-v0"])
def test_long_episodes_are_bit_identical_to_gymnasium(member: str) -> None:
    """Against Gymnasium's whole environment with its own time limit, reset by hand."""
    num_envs, rng = 12, np.random.default_rng(0)
    theirs = [gymnasium.make(member) for _ in range(num_envs)]
    with closing(compiled(EnvFactory(member), num_envs)) as ours:
        out = StepBuffers.allocate(ours.env_spec, num_envs)
        ours.start(40, out)
        first = [env.reset(seed=40 + i)[0] for i, env in enumerate(theirs)]
        np.testing.assert_array_equal(out.obs, first)
        causes = np.zeros(3, int)
        for _ in range(1200):
            actions = some_balance(out.obs, rng)
            ours.step_into(actions, out)
            results = [env.step(action)[:4] for env, action in zip(theirs, actions, strict=True)]
            obs, reward, terminated, truncated = map(np.stack, zip(*results, strict=True))
            ended = terminated | truncated
            causes += [(abs(obs[ended, 0]) > 2.4).sum(), terminated.sum(), truncated.sum()]
            np.testing.assert_array_equal(out.final_obs[ended], obs[ended])
            for i in np.flatnonzero(ended):
                obs[i], _ = theirs[i].reset()
            np.testing.assert_array_equal(out.obs, obs)
            np.testing.assert_array_equal(out.reward, reward)
            np.testing.assert_array_equal(out.terminated, terminated)
            np.testing.assert_array_equal(out.truncated, truncated & ~terminated)
    off_track, terminated, truncated = causes.tolist()
    assert min(off_track, terminated - off_track, truncated) > 0


@settings(max_examples=25, deadline=None)
@given(
    num_envs=st.integers(1, 9),
    seed=st.integers(0, 2**63),
    max_steps=st.none() | st.integers(1, 60),
    sutton_barto=st.sampled_from([None, False, True, 1, 0, "yes"]),
    played=st.integers(0, 2**32),
)
def test_settings_seeds_and_episode_records_equal_the_sync_backend(
    num_envs: int, seed: int, max_steps: int | None, sutton_barto: Any, played: int
) -> None:
    arguments = {} if sutton_barto is None else {"sutton_barto_reward": sutton_barto}
    factory = EnvFactory("CartPole-v1", GymConfig(max_steps=max_steps, env_args=arguments))
    spec = factory.spec()
    actions = random_actions(spec, 150, num_envs, seed=played)
    with (
        closing(compiled(factory, num_envs)) as ours,
        closing(GymSyncEnv(factory, num_envs, spec)) as theirs,
    ):
        assert_same(play(ours, actions, seed=seed), play(theirs, actions, seed=seed))
        mine, yours = ours.drain_stats(), theirs.drain_stats()
        assert_same_stats(mine, yours)
        for field in fields(yours):
            assert getattr(mine, field.name).dtype == getattr(yours, field.name).dtype
        assert_same_rows(dict(ours.get_state()), dict(theirs.get_state()))


def test_a_state_can_move_between_backends() -> None:
    spec = PLAIN.spec()
    actions = random_actions(spec, 90, 5)
    out = StepBuffers.allocate(spec, 5)
    with (
        closing(GymSyncEnv(PLAIN, 5, spec)) as sync,
        closing(compiled(PLAIN, 5)) as ours,
        closing(GymProcessEnv(PLAIN, 5, GymConfig(workers=2), spec)) as process,
    ):
        sync.start(SEED, out)
        record(sync, actions[:20], out)
        state = sync.get_state()
        expected = record(sync, actions[20:], out)
        for env, low, high in ((ours, 20, 45), (process, 45, 60), (ours, 60, 90)):
            env.set_state(state)
            shown = StepBuffers.allocate(spec, 5)
            env.observe_into(shown)
            np.testing.assert_array_equal(shown.obs, state["obs"])
            part = {name: rows[low - 20 : high - 20] for name, rows in expected.items()}
            assert_same_rows(record(env, actions[low:high], out), part)
            state = env.get_state()
        assert_same_rows(dict(state), dict(sync.get_state()))


def changed(state: Any, **changes: Any) -> dict[str, Any]:
    """A state with a changed first environment."""
    texts = unpack_states(state, len(state["obs"]))
    texts[0] = replace(EnvState.from_text(texts[0]), **changes).to_text()
    return {"envs": pack_states(texts), "obs": state["obs"]}


def test_a_state_with_other_physics_is_an_error() -> None:
    """The sync backend would use the saved gravity; compiled code has a fixed one."""
    with closing(compiled(PLAIN, 2)) as env:
        env.start(1, StepBuffers.allocate(env.env_spec, 2))
        state = env.get_state()
        saved = EnvState.from_text(unpack_states(state, len(state["obs"]))[0]).env
        saved[0]["attributes"]["gravity"] = 1.62
        with pytest.raises(BriskError, match="other constants than gym:CartPole-v1"):
            env.set_state(changed(state, env=saved))
    with (
        closing(compiled(PLAIN, 3)) as other,
        pytest.raises(ValueError, match="2 states instead of 3"),
    ):
        other.set_state(state)


def test_without_a_saved_state_new_episodes_equal_the_sync_backend() -> None:
    with closing(compiled(PLAIN, 3)) as ours, closing(GymSyncEnv(PLAIN, 3, PLAIN.spec())) as sync:
        out, other = (StepBuffers.allocate(ours.env_spec, 3) for _ in range(2))
        sync.start(8, out)
        actions = random_actions(ours.env_spec, 40, 3)
        record(sync, actions[:7], out)
        state = changed(sync.get_state(), env=None)
        sync.set_state(state)
        ours.set_state(state)
        sync.observe_into(out)
        ours.observe_into(other)
        np.testing.assert_array_equal(other.obs, out.obs)
        assert_same_rows(record(ours, actions, other), record(sync, actions, out))
        assert_same_rows(dict(ours.get_state()), dict(sync.get_state()))


def test_an_invalid_action_is_an_error_that_names_the_environment() -> None:
    with closing(compiled(PLAIN, 4)) as env:
        out = StepBuffers.allocate(env.env_spec, 4)
        env.start(1, out)
        for wrong in (2, -1):
            with pytest.raises(EnvStepError, match=rf"Environment 2 .* {wrong}, .*Discrete\(2\)"):
                env.step_into(np.array([0, 1, wrong, 1]), out)
        env.step_into(np.array([0, 1, 1, 0]), out)


def test_reset_and_step_of_gymnasiums_api_use_seeds_and_masks() -> None:
    with closing(compiled(PLAIN, 3)) as env:
        one = gymnasium.make("CartPole-v1")
        seeds = [7, 9, 11]
        obs, _ = env.reset(seed=seeds)
        np.testing.assert_array_equal(obs, [one.reset(seed=seed)[0] for seed in seeds])
        before = env.step([0, 1, 0])[0]
        mask = np.array([False, True, False])
        again, _ = env.reset(seed=[None, 9, None], options={"reset_mask": mask})
        np.testing.assert_array_equal(again[1], obs[1])
        np.testing.assert_array_equal(again[::2], before[::2])
        one.reset(seed=9)
        unseeded, _ = env.reset(options={"reset_mask": mask})
        np.testing.assert_array_equal(unseeded[1], one.reset()[0])


def test_frames_are_rendered_by_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gymnasium renders with an optional package, so its renderer is replaced."""
    monkeypatch.setattr(CartPoleEnv, "render", lambda self: (self.render_mode, *self.state))
    with (
        closing(compiled(PLAIN, 2)) as ours,
        closing(GymSyncEnv(PLAIN, 2, PLAIN.spec(), render_mode="rgb_array")) as sync,
    ):
        actions = random_actions(ours.env_spec, 12, 2)
        play(ours, actions)
        play(sync, actions)
        assert ours.render() is None
        ours.set_render_mode("rgb_array")
        assert ours.render() == tuple(sync.render())
