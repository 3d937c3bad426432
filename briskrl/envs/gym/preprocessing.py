"""The usual preprocessing of picture observations, as one wrapper: see Mnih 2015 and Machado 2018.

One wrapper instead of a stack of them, because each costs as much as a cheap environment's step.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from PIL import Image

from briskrl.core.errors import ConfigError
from briskrl.core.types import Array
from briskrl.envs.gym.config import GymConfig

LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)
"""Weights of red, green and blue (ITU-R 601), as OpenCV and PIL use them."""

ATARI_PACKAGE = "ale_py."
"""Begins the entry points of Atari games."""

GymEnv = gymnasium.Env[Any, Any]


def make_arguments(entry_point: Any, config: GymConfig) -> dict[str, Any]:
    """Arguments of an Atari game that leave to the emulator or to us what the settings ask for."""
    if not str(entry_point).startswith(ATARI_PACKAGE):
        return {}
    arguments: dict[str, Any] = {}
    if config.frame_skip > 1:
        arguments["frameskip"] = 1
    if config.grayscale:
        arguments["obs_type"] = "grayscale"
    return arguments


def preprocess(env: GymEnv, config: GymConfig, name: str) -> GymEnv:
    """The environment with the preprocessing that the settings ask for, or itself without any.

    Raises:
        ConfigError: Its observations are no pictures.
    """
    if not config.preprocesses:
        return env
    space = env.observation_space
    changes_pictures = config.grayscale or config.resize or config.frame_stack > 1
    if changes_pictures and not _is_picture(space):
        raise ConfigError(
            "grayscale, resize and frame_stack are for pictures (uint8), (H, W) or (H, W, 3), but "
            f"{name} observes {space}."
        )
    return PreprocessedEnv(env, config)


class PreprocessedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Skips and stacks frames, changes their size and colors, and ends episodes with each life.

    Observations are planes (C * frame_stack, H, W), the newest frame last; at the beginning of an
    episode the first frame fills the stack.
    """

    def __init__(self, env: GymEnv, config: GymConfig) -> None:
        super().__init__(env)
        self._skip, self._noops = config.frame_skip, config.noop_max
        self._gray, self._side = config.grayscale, config.resize
        self.frame_stack = config.frame_stack
        """Frames of an observation."""
        self._each_life, self._fires = config.episodic_life, config.fire_reset
        self._is_picture = _is_picture(env.observation_space)
        self._lives, self._is_over = 0, True
        # Not that of the environment, which may have none.
        self._rng = np.random.default_rng(0)
        self._frames: Array | None = None
        if self._is_picture:
            first = self._prepare(np.zeros(env.observation_space.shape or (), np.uint8))
            planes, height, width = first.shape
            self._planes = planes
            shape = (planes * self.frame_stack, height, width)
            self._frames = np.zeros(shape, np.uint8)
            self.observation_space = spaces.Box(0, 255, shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; after a lost life the game goes on."""
        if self._is_over or seed is not None or not self._each_life:
            obs, info = self._begin(seed, options)
        else:
            obs, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                obs, info = self._begin(None, options)
        self._is_over = False
        self._lives = info.get("lives", 0)
        return self._first(obs), info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Repeat the action over the skipped frames; rewards add up."""
        if self._skip == 1:
            obs, total, terminated, truncated, info = self.env.step(action)
        else:
            obs, total, terminated, truncated, info = self._repeat(action)
        self._is_over = bool(terminated or truncated)
        if self._each_life:
            lives = info.get("lives", 0)
            terminated = terminated or 0 < lives < self._lives
            self._lives = lives
        return self._next(obs), total, terminated, truncated, info

    def _repeat(self, action: Any) -> tuple[Any, float, Any, Any, dict[str, Any]]:
        total, before = 0.0, None
        for _ in range(self._skip):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            latest, before = before, obs
            if terminated or truncated:
                break
        # Sprites of some games are drawn in every other frame only.
        shown = obs if latest is None or not self._is_picture else np.maximum(obs, latest)
        return shown, total, terminated, truncated, info

    def _begin(self, seed: int | None, options: Any) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        obs, info = self.env.reset(seed=seed, options=options)
        if self._noops:
            for _ in range(int(self._rng.integers(1, self._noops + 1))):
                obs, info = self._step_or_restart(0, obs, info)
        if self._fires and _has_fire(self.env):
            for action in (1, 2):
                obs, info = self._step_or_restart(action, obs, info)
        return obs, info

    def _step_or_restart(
        self, action: int, obs: Any, info: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        obs, _, terminated, truncated, info = self.env.step(action)
        return self.env.reset() if terminated or truncated else (obs, info)

    def _first(self, obs: Any) -> Any:
        """The observation at the beginning of an episode."""
        if self._frames is None:
            return obs
        shape = (self.frame_stack, self._planes, *self._frames.shape[1:])
        self._frames.reshape(shape)[:] = self._prepare(obs)
        return self._frames

    def _next(self, obs: Any) -> Any:
        if self._frames is None:
            return obs
        frames, planes = self._frames, self._planes
        frames[:-planes] = frames[planes:]
        frames[-planes:] = self._prepare(obs)
        return frames

    def _prepare(self, frame: Array) -> Array:
        """A frame (H, W) or (H, W, C) as planes (C, H, W) of the size and colors asked for."""
        if self._gray and frame.ndim == 3:
            frame = (frame @ LUMINANCE + 0.5).astype(np.uint8)
        if self._side and frame.shape[:2] != (self._side, self._side):
            resized = Image.fromarray(frame).resize((self._side, self._side), Image.Resampling.BOX)
            frame = np.asarray(resized)
        return frame[None] if frame.ndim == 2 else frame.transpose(2, 0, 1)


def _is_picture(space: Any) -> bool:
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8:
        return False
    return len(space.shape) == 2 or (len(space.shape) == 3 and space.shape[2] == 3)


def _has_fire(env: GymEnv) -> bool:
    """Whether a game waits for the action FIRE."""
    if not env.has_wrapper_attr("get_action_meanings"):
        return False
    meanings = env.get_wrapper_attr("get_action_meanings")()
    return len(meanings) >= 3 and meanings[1] == "FIRE"
