"""The memories by name; importing this imports none of them."""

from __future__ import annotations

from collections.abc import Callable

from briskrl.core.registry import Registry
from briskrl.memory.base import Memory

MEMORIES: Registry[Callable[..., Memory]] = Registry("memory")
MEMORIES.add("replay", "briskrl.memory.replay:ReplayBuffer")
MEMORIES.add("rollout", "briskrl.memory.rollout:RolloutBuffer")
MEMORIES.add("prioritized", "briskrl.memory.prioritized:PrioritizedReplay")
