"""Settings of the CartPole environment, as data; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True)
class CartPoleConfig:
    """How long an episode may last; the physics are those of Gymnasium's CartPole-v1."""

    max_steps: Annotated[int, Meta(ge=0)] = 500
    """Steps after which an episode is cut off and counts as won; 0 means never."""

    def check(self) -> list[str]:
        """Settings that cannot work, one sentence each."""
        if self.max_steps < 0:
            return [f"max_steps must be 0 (off) or more, not {self.max_steps}."]
        return []
