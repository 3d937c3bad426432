"""The preprocessing of pictures, on toy games and on the real Pong."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from briskrl.core.errors import ConfigError
from briskrl.envs.gym.backend_selection import build_from
from briskrl.envs.gym.compiled.registry import find_compiled
from briskrl.envs.gym.config import ATARI, GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.given_factory import build_given
from briskrl.envs.gym.preprocessing import preprocess
from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import train
from tests.envs.recording import play, random_actions


class Game(gymnasium.Env[Any, Any]):
    """Frame t has the brightness 10 t; a life of three is lost every sixth frame."""

    observation_space = spaces.Box(0, 255, (6, 4, 3), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.seen = 0, [""]
        return self.frame(), {"lives": 3}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        lives = 3 - self.time // 6
        return self.frame(), -5.0, lives == 0, False, {"lives": lives}

    def frame(self) -> np.ndarray:
        return np.full((6, 4, 3), 10 * self.time, np.uint8)

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "FIRE", "UP"]


def brightness(obs: np.ndarray) -> list[int]:
    """That of each plane, which are uniform."""
    assert (obs == obs[:, :1, :1]).all()
    return [int(value) for value in obs[:, 0, 0]]


def test_frames_are_skipped_merged_grayed_resized_and_stacked() -> None:
    config = GymConfig(grayscale=True, resize=5, frame_skip=2, frame_stack=3)
    env = preprocess(Game(), config, "Game")
    assert env.observation_space == spaces.Box(0, 255, (3, 5, 5), np.uint8)
    obs, _ = env.reset(seed=0)
    assert brightness(obs) == [0, 0, 0]
    obs, reward, *_ = env.step(0)
    assert (brightness(obs), reward) == ([0, 0, 20], -10.0)
    assert brightness(env.step(0)[0]) == [0, 20, 40]


def test_colors_become_planes() -> None:
    env = preprocess(Game(), GymConfig(frame_stack=2), "Game")
    env.reset(seed=0)
    assert brightness(env.step(0)[0]) == [0, 0, 0, 10, 10, 10]


def test_a_lost_life_ends_an_episode_but_not_the_game() -> None:
    env: Any = preprocess(Game(), GymConfig(episodic_life=True, grayscale=True), "Game")
    env.reset(seed=0)
    ends = []
    for _ in range(17):
        _, _, terminated, _, info = env.step(0)
        if terminated:
            ends.append((env.unwrapped.time, info["lives"]))
            # The game goes on with one step, and begins anew after the last life.
            env.reset()
            assert env.unwrapped.time == (ends[-1][0] + 1 if info["lives"] else 0)
    assert ends == [(6, 2), (12, 1), (18, 0)][: len(ends)]
    assert len(ends) >= 2


def test_games_begin_with_some_steps_without_an_action_that_depend_on_the_seed() -> None:
    env: Any = preprocess(Game(), GymConfig(noop_max=5), "Game")
    times = []
    for seed in (1, 2, 3, 4, 5, 6, 7, 8, 1):
        env.reset(seed=seed)
        times.append(env.unwrapped.time)
    assert set(times) <= {1, 2, 3, 4, 5}
    assert len(set(times)) > 1
    assert times[0] == times[-1]
    env = preprocess(Game(), GymConfig(fire_reset=True), "Game")
    env.reset(seed=0)
    assert env.unwrapped.time == 2


def test_clipped_rewards_are_learned_from_and_returns_are_those_of_the_game() -> None:
    env = build_given(Game, 2, GymConfig(clip_reward=True, backend="sync"))
    trace = play(env, random_actions(env.env_spec, 18, 2), seed=0)
    assert set(trace.rows["reward"].ravel()) == {-1.0}
    np.testing.assert_array_equal(env.drain_stats().returns, [-90.0, -90.0])


def test_evaluations_play_whole_games_for_the_rewards_themselves() -> None:
    config = GymConfig(atari=True).for_evaluation()
    assert {name: getattr(config, name) for name in ATARI} == ATARI | {
        "episodic_life": False,
        "clip_reward": False,
    }


def test_other_observations_cannot_be_preprocessed() -> None:
    with pytest.raises(ConfigError, match=r"for pictures .uint8.*gym:CartPole-v1 observes Box"):
        EnvFactory("CartPole-v1", GymConfig(frame_stack=4)).make()
    # The compiled version shows and rewards what the registered one does.
    assert find_compiled(EnvFactory("CartPole-v1", GymConfig(clip_reward=True))).version is None


def test_pong_has_the_usual_observations_and_trains(tmp_path: Path) -> None:
    factory = EnvFactory("ALE/Pong-v5", GymConfig(atari=True))
    spec = factory.spec()
    assert (spec.obs.shape, spec.obs.dtype, spec.frame_stack) == ((4, 84, 84), np.uint8, 4)
    game: Any = factory.make()
    assert game.unwrapped._frameskip == 1
    config = TrainConfig(
        env="gym:ALE/Pong-v5",
        algo="dqn",
        num_envs=2,
        steps=96,
        run_dir=str(tmp_path / "run"),
        env_config={"atari": True, "backend": "sync", "max_steps": 20},
        algo_config={
            "buffer_size": 256,
            "learning_starts": 64,
            "batch_size": 8,
            "channels": (4, 4, 4),
            "net": (16,),
        },
    )
    result = train(config)
    assert result.updates == 2
    assert not result.exact_resume
    assert evaluate(tmp_path / "run", episodes=1).mean_steps == 20


@pytest.mark.parametrize(("settings", "is_advised"), [({}, True), ({"atari": True}, False)])
def test_raw_frames_of_atari_games_are_pointed_out(
    settings: dict[str, Any], is_advised: bool
) -> None:
    config = GymConfig(backend="sync", **settings)
    with closing(build_from(EnvFactory("ALE/Pong-v5", config), 1)) as env:
        assert any("--atari" in note for note in env.notes) == is_advised
