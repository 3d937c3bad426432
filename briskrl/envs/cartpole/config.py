"""Settings of the CartPole environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True)
class CartPoleConfig:
    """Length of an episode; the physics are those of Gymnasium's CartPole-v1."""

    max_steps: Annotated[int, Meta(ge=0)] = 500
    """Steps after which an episode is truncated and counts as won; 0 means never."""

    def check(self) -> list[str]:
        """Invalid settings, one sentence each."""
        if self.max_steps < 0:
            return [f"max_steps must be 0 (off) or more, not {self.max_steps}."]
        return []
