"""One frame of an episode that is shown or saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of an episode."""

    picture: Any
    """Text, or an image (H, W, 3) uint8."""
    ended: str | None
    """The result of the episode in words, only in its last frame."""
    board: bool = True
    """Whether a text is a board whose cells can be colored."""
