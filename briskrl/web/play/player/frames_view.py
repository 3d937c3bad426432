"""Any environment for the page: frames where it can draw itself, else its numbers."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from briskrl.core.types import JSON, StepBuffers
from briskrl.envs.base import VecEnv
from briskrl.web.play.player.brain import PLACES
from briskrl.web.play.player.game import Command, action_names

LARGEST_SIDE = 640
"""Frames are scaled down to this many pixels."""
PIXEL_ART = 128
"""Frames up to this side are sent without loss, because blocks of pixels blur."""
MOST_NUMBERS = 64


Image8 = NDArray[np.uint8]
Picture = Callable[[], Image8]
"""Draws the present state, (H, W, 3)."""


class FramesView:
    """See game.View. Frames are PNG or JPEG images in base64."""

    kind: ClassVar[str] = "frames"
    rewinds: ClassVar[bool] = False
    ahead: ClassVar[int] = 90

    def __init__(self, env: VecEnv, picture: Picture, fps: float) -> None:
        self._env = env
        self._picture = picture
        self._fps = fps
        self.commands: Mapping[str, Command] = {}

    def scene(self) -> dict[str, JSON]:
        """Names of the actions and the speed of the environment."""
        return {"actions": action_names(self._env.env_spec.action), "fps": self._fps}

    def begin(self, buffers: StepBuffers, seed: int) -> dict[str, JSON]:
        """Nothing stays the same."""
        return {}

    def state(self, buffers: StepBuffers) -> dict[str, JSON]:
        """The frame."""
        return {"frame": encoded(self._picture())}


class NumbersView:
    """See game.View. The first numbers of the observation, for environments without pictures."""

    kind: ClassVar[str] = "numbers"
    rewinds: ClassVar[bool] = False
    ahead: ClassVar[int] = 600

    def __init__(self, env: VecEnv, why: str) -> None:
        self._env = env
        self._why = why
        self.commands: Mapping[str, Command] = {}

    def scene(self) -> dict[str, JSON]:
        """Names of the actions, and why there is no picture."""
        spec = self._env.env_spec
        return {
            "actions": action_names(spec.action),
            "input_shape": list(spec.obs.shape),
            "why": self._why,
            "fps": 20,
        }

    def begin(self, buffers: StepBuffers, seed: int) -> dict[str, JSON]:
        """Nothing stays the same."""
        return {}

    def state(self, buffers: StepBuffers) -> dict[str, JSON]:
        """The numbers."""
        flat = buffers.obs[0].reshape(-1)[:MOST_NUMBERS].astype(np.float64)
        return {"obs": np.round(flat, PLACES).tolist()}


def encoded(frame: Image8) -> str:
    """A frame (H, W, 3) as the base64 text of an image file."""
    image = Image.fromarray(frame)
    side, sink = max(image.size), io.BytesIO()
    if side <= PIXEL_ART:
        image.save(sink, "PNG", compress_level=1)
        return b64encode(sink.getvalue()).decode()
    if side > LARGEST_SIDE:
        scale = LARGEST_SIDE / side
        width, height = (max(1, round(pixels * scale)) for pixels in image.size)
        image = image.resize((width, height), reducing_gap=2.0)
    image.convert("RGB").save(sink, "JPEG", quality=82)
    return b64encode(sink.getvalue()).decode()
