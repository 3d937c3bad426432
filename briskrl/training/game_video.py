"""Games of an agent as GIFs."""

from __future__ import annotations

import base64
import io
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from briskrl.core.errors import BriskError
from briskrl.core.rng import derive_seed
from briskrl.core.types import StepBuffers
from briskrl.envs.make import make_env
from briskrl.training.evaluate import Agent, HasEvaluationSettings

Frame = NDArray[np.uint8]
MOST_FRAMES = 300
"""Frames of a GIF; of longer games every n-th is shown, and always the last."""
FPS = 12
_WIDEST = 480
"""Largest width of a frame in pixels."""


@runtime_checkable
class DrawsPictures(Protocol):
    """Environments that can be made with a `render_mode`."""

    @property
    def render_mode(self) -> str | None:
        """How `render` draws."""
        ...

    def render(self) -> Any:
        """The frames of the environments, with the render mode rgb_array."""
        ...


def game_gif(agent: Agent, *, seed: int, episode: int) -> bytes | None:
    """Episode `episode` of the evaluation with this seed as a GIF; None if it cannot be drawn."""
    frames = game_frames(agent, seed=seed, episode=episode)
    if not frames:
        return None
    every = -(-len(frames) // MOST_FRAMES)
    kept = frames[::-every][::-1]
    images = [_small(Image.fromarray(frame)).quantize(64) for frame in kept]
    durations = [1000 // FPS] * (len(images) - 1) + [1500]
    sink = io.BytesIO()
    images[0].save(sink, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)
    return sink.getvalue()


def data_url(gif: bytes) -> str:
    """The GIF as the source of an image in a page."""
    return f"data:image/gif;base64,{base64.b64encode(gif).decode()}"


def game_frames(agent: Agent, *, seed: int, episode: int) -> list[Frame]:
    """All frames of an episode, the first before its first step; none without pictures."""
    config = agent.env_config
    if isinstance(config, HasEvaluationSettings):
        config = config.for_evaluation()
    try:
        env = make_env(agent.env, 1, config=config, hold_ended=True, render_mode="rgb_array")
    except (BriskError, TypeError, ValueError):
        # The environment has no pictures.
        return []
    frames = []
    try:
        if not isinstance(env, DrawsPictures) or env.render_mode != "rgb_array":
            return []
        buffers = StepBuffers.allocate(env.env_spec, 1)
        # An episode depends on its own seed only, not on the environments beside it.
        env.start(derive_seed(seed, "evaluate") + episode, buffers)
        env.drain_stats()
        policy = agent.policy.fitted(env.env_spec)
        if policy.restart:
            policy.restart(np.ones(1, np.bool_))
        frames.append(np.asarray(env.render()[0], np.uint8).copy())
        while True:
            env.step_into(policy.act(buffers.obs, buffers.mask), buffers)
            frames.append(np.asarray(env.render()[0], np.uint8).copy())
            if env.drain_stats().count:
                return frames
    finally:
        env.close()


def _small(image: Image.Image) -> Image.Image:
    if image.width <= _WIDEST:
        return image
    return image.resize((_WIDEST, max(1, image.height * _WIDEST // image.width)))
