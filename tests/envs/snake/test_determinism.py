"""Games do not depend on batch, threads, autoreset mode, buffers or a restart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from briskrl.core.types import StepBuffers
from briskrl.envs.snake.env import SnakeVecEnv
from tests.envs.snake.lockstep import Lockstep, Pilot
from tests.envs.snake.reference import Game, Rules
from tests.envs.snake.reference_observations import observe

pytestmark = pytest.mark.filterwarnings("ignore:hunger_limit:UserWarning")

BOARDS: list[dict[str, Any]] = [
    {"height": 4, "width": 4},
    {"height": 10, "width": 10, "start": "random"},
    {"height": 7, "width": 12, "start": "cycle", "mirror": True},
    {"height": 20, "width": 20, "start": "cycle", "start_mix": 0.5},
]
Steps = list[dict[str, np.ndarray]]


def fixed_actions(num_steps: int, num_envs: int, seed: int = 0) -> np.ndarray:
    """Mostly straight on, so that games last a while."""
    rng = np.random.default_rng(seed)
    return rng.choice(3, size=(num_steps, num_envs), p=[0.6, 0.2, 0.2])


def roll(env: SnakeVecEnv, actions: np.ndarray) -> Steps:
    """What Gymnasium's `step` returns, copied, without infos."""
    steps = []
    for row in actions:
        obs, reward, terminated, truncated, _ = env.step(row)
        steps.append(
            {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated}
        )
    return steps


def assert_rows_equal(whole: Steps, part: Steps, rows: np.ndarray | list[int]) -> None:
    for left, right in zip(whole, part, strict=True):
        for name, array in left.items():
            np.testing.assert_array_equal(array[rows], right[name], err_msg=name)


def assert_same_state(left: SnakeVecEnv, right: SnakeVecEnv) -> None:
    one, other = left.get_state(), right.get_state()
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.parametrize("board", BOARDS, ids=str)
def test_a_game_does_not_depend_on_its_batch(board: dict[str, Any]) -> None:
    """Singles, parts and permutations of a batch are the same games."""
    num_envs, seed = 12, 40
    actions = fixed_actions(80, num_envs)
    rules = {**board, "obs": "extended"}
    env = SnakeVecEnv(num_envs, **rules)
    env.reset(seed=seed)
    whole = roll(env, actions)
    for i in (0, 7, 11):
        single = SnakeVecEnv(1, **rules)
        single.reset(seed=seed + i)
        assert_rows_equal(whole, roll(single, actions[:, i : i + 1]), [i])
    order = np.random.default_rng(1).permutation(num_envs)
    permuted = SnakeVecEnv(num_envs, **rules)
    permuted.reset(seed=[int(seed + i) for i in order])
    assert_rows_equal(whole, roll(permuted, actions[:, order]), order)


@pytest.mark.parametrize("obs", ["features", "extended", "grid"])
def test_threads_give_the_same_bits(obs: str) -> None:
    """Split in uneven parts too."""
    num_envs = 2111
    rules = {"obs": obs, "height": 8, "width": 8, "start": "cycle", "start_mix": 0.5}
    actions = fixed_actions(30, num_envs)
    env = SnakeVecEnv(num_envs, **rules)
    env.reset(seed=5)
    whole = roll(env, actions)
    for threads in (2, 3):
        threaded = SnakeVecEnv(num_envs, threads=threads, **rules)
        threaded.reset(seed=5)
        assert_rows_equal(whole, roll(threaded, actions), np.arange(num_envs))
        assert_same_state(env, threaded)
        threaded.close()


def test_unseeded_resets_continue_the_streams() -> None:
    """Reset() draws on; a None among seeds leaves that game's stream running."""
    env = SnakeVecEnv(3)
    env.reset(seed=1)
    first = env.peek()["random_state"].copy()
    env.reset()
    second = env.peek()["random_state"].copy()
    assert (first != second).all()
    env.reset(seed=[1, None, 3])
    third = env.peek()["random_state"]
    assert third[0] == first[0]
    assert third[2] == first[2]
    assert third[1] not in (first[1], second[1])
    games = [Game(Rules(), seed) for seed in (1, 2, 3)]
    games[1].begin()
    games[1].begin()
    assert third.tolist() == [game.random_state for game in games]


def twin_run(rules: dict[str, Any], seed: int, actions: list[int]) -> list[dict[str, Any]]:
    """The moves of one plain game that is begun anew whenever it ends."""
    game = Game(Rules(**rules), seed)
    moves = []
    for action in actions:
        outcome = game.step(action)
        move = {"reward": outcome.reward, "end": outcome.cause, "last": observe(game)}
        if outcome.cause:
            game.begin()
        moves.append({**move, "next": observe(game)})
    return moves


MODE_RULES: dict[str, Any] = {"height": 5, "width": 6, "obs": "flood", "hunger_limit": 12}


def test_next_step_mode_plays_the_same_games() -> None:
    """A dead step has zero reward, no flags, and is marked."""
    num_envs, seed = 6, 3
    env = SnakeVecEnv(num_envs, autoreset_mode=AutoresetMode.NEXT_STEP, **MODE_RULES)
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    env.reset(seed=seed)
    choices = fixed_actions(200, num_envs, seed=9).T.tolist()
    runs = [twin_run(MODE_RULES, seed + i, choices[i]) for i in range(num_envs)]
    done = np.zeros(num_envs, int)
    waiting = np.zeros(num_envs, bool)
    dead_steps = 0
    for _ in range(180):
        # The action of a waiting game must not matter, so it gets another one.
        actions = [2 if waiting[i] else choices[i][done[i]] for i in range(num_envs)]
        obs, reward, terminated, truncated, infos = env.step(np.array(actions))
        marked = infos.get("reset_only", np.zeros(num_envs, bool))
        np.testing.assert_array_equal(marked, waiting)
        for i in range(num_envs):
            if waiting[i]:
                dead_steps += 1
                assert (reward[i], terminated[i], truncated[i]) == (0, False, False)
                np.testing.assert_array_equal(obs[i], runs[i][done[i] - 1]["next"])
                waiting[i] = False
                continue
            move = runs[i][done[i]]
            done[i] += 1
            assert reward[i] == move["reward"]
            assert terminated[i] == (move["end"] in (1, 2, 3, 6))
            assert truncated[i] == (move["end"] in (4, 5))
            np.testing.assert_array_equal(obs[i], move["last"])
            waiting[i] = move["end"] != 0
    assert dead_steps > 50


def test_disabled_mode_plays_the_same_games() -> None:
    """Finished games wait for a reset with a mask; the others keep everything."""
    num_envs, seed = 6, 3
    env = SnakeVecEnv(num_envs, autoreset_mode=AutoresetMode.DISABLED, **MODE_RULES)
    env.reset(seed=seed)
    actions = fixed_actions(150, num_envs, seed=9)
    runs = [twin_run(MODE_RULES, seed + i, actions[:, i].tolist()) for i in range(num_envs)]
    resets = 0
    for t, row in enumerate(actions):
        obs, reward, terminated, truncated, _ = env.step(row)
        ended = terminated | truncated
        for i in range(num_envs):
            move = runs[i][t]
            assert reward[i] == move["reward"]
            assert ended[i] == (move["end"] != 0)
            np.testing.assert_array_equal(obs[i], move["last"])
        if ended.any():
            resets += int(ended.sum())
            before = env.peek()
            obs, infos = env.reset(options={"reset_mask": ended})
            assert infos == {}
            after = env.peek()
            for name, array in before.items():
                np.testing.assert_array_equal(array[~ended], after[name][~ended], err_msg=name)
            for i in range(num_envs):
                np.testing.assert_array_equal(obs[i], runs[i][t]["next"])
    assert resets > 20


def test_same_step_mode_returns_the_final_and_the_next_observation() -> None:
    """Final_obs rows are those of the ended game, obs those of the next."""
    num_envs, seed = 6, 3
    env = SnakeVecEnv(num_envs, **MODE_RULES)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    env.reset(seed=seed)
    actions = fixed_actions(150, num_envs, seed=9)
    runs = [twin_run(MODE_RULES, seed + i, actions[:, i].tolist()) for i in range(num_envs)]
    for t, row in enumerate(actions):
        obs, reward, terminated, truncated, infos = env.step(row)
        ended = terminated | truncated
        assert bool(infos) == bool(ended.any())
        for i in range(num_envs):
            assert reward[i] == runs[i][t]["reward"]
            np.testing.assert_array_equal(obs[i], runs[i][t]["next"])
            if ended[i]:
                assert infos["_final_obs"][i]
                np.testing.assert_array_equal(infos["final_obs"][i], runs[i][t]["last"])


def test_stepping_a_finished_game_is_refused() -> None:
    """DISABLED."""
    env = SnakeVecEnv(2, autoreset_mode=AutoresetMode.DISABLED, height=4, width=4)
    env.reset(seed=0)
    ended = np.zeros(2, bool)
    while not ended.any():
        _, _, terminated, truncated, _ = env.step(np.zeros(2, np.int64))
        ended |= terminated | truncated
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(2, np.int64))
    for mask in ([True, False], np.array([False, False]), np.array([True]), np.array([1, 0])):
        with pytest.raises((ValueError, TypeError, AssertionError)):
            env.reset(options={"reset_mask": mask})
    env.reset(options={"reset_mask": ended})
    env.step(np.zeros(2, np.int64))


@pytest.mark.parametrize("obs", ["features", "extended", "grid"])
@pytest.mark.parametrize("board", BOARDS, ids=str)
def test_a_saved_game_continues_to_the_bit(board: dict[str, Any], obs: str) -> None:
    """In the middle of games, into a fresh batch; one contiguous array of state."""
    rules = {**board, "obs": obs, "masks": True}
    pilot = Pilot(16, 6, rules)
    env, fresh = SnakeVecEnv(16, **rules), SnakeVecEnv(16, **rules)
    out, again = (StepBuffers.allocate(env.env_spec, 16) for _ in range(2))
    env.start(6, out)
    fresh.start(0, again)
    for t in range(120):
        actions = pilot.choose()
        pilot.follow(actions)
        if t % 7 == 3:
            state = env.get_state()
            assert all(array.flags.c_contiguous for array in state.values())
            fresh.set_state(state)
        env.step_into(actions, out)
        if t >= 3:
            fresh.step_into(actions, again)
            for name in ("obs", "reward", "terminated", "truncated", "mask"):
                np.testing.assert_array_equal(getattr(out, name), getattr(again, name))
    assert_same_state(env, fresh)


def test_a_state_of_another_shape_is_refused() -> None:
    small, large = SnakeVecEnv(2), SnakeVecEnv(3)
    small.reset(seed=0)
    large.reset(seed=0)
    with pytest.raises(ValueError, match=r"snake is uint64 \(3, .*instead of uint64 \(2, "):
        small.set_state(large.get_state())


def test_garbage_in_the_buffers_does_not_affect_the_games() -> None:
    """Nothing that a step reads was left over by the caller.

    tests/envs/test_contract.py counts the allocations for every mode.
    """
    rules = {"obs": "grid", "grid_center": "head", "grid_reachable": True, "masks": True}
    pair = Lockstep(8, seed=12, grid_dtype="float32", **rules)
    pilot = Pilot(8, 12, rules)
    rng = np.random.default_rng(0)
    for _ in range(60):
        for name in ("obs", "final_obs", "reward"):
            array = getattr(pair.out, name)
            array[...] = rng.choice([np.nan, np.inf, -7.5], size=array.shape)
        for name in ("terminated", "truncated", "mask", "final_mask"):
            array = getattr(pair.out, name)
            array[...] = rng.random(array.shape) < 0.5
        actions = pilot.choose()
        pilot.follow(actions)
        pair.step(actions)
    assert np.isfinite(pair.out.obs).all()
