"""One game of an agent: a state after every step, as a JSON object that the page draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

import numpy as np

from briskrl.core.rng import derive_seed
from briskrl.core.spec import ActionSpec, DiscreteSpec
from briskrl.core.types import JSON, Array, StepBuffers
from briskrl.envs.base import VecEnv
from briskrl.web.play.player.brain import Brain, short
from briskrl.web.play.player.wire import RequestError

Numbers = Mapping[str, int]
"""The numbers of a request by name."""
Command = Callable[[Numbers], dict[str, JSON]]


class View(Protocol):
    """What the page draws of one kind of environment."""

    kind: ClassVar[str]
    """Name of the drawing in the page."""
    rewinds: ClassVar[bool]
    """Whether the game can go back to an earlier state and on with another action."""
    ahead: ClassVar[int]
    """Most states that are computed before the page shows them."""
    commands: Mapping[str, Command]
    """Requests of this kind of environment."""

    def scene(self) -> dict[str, JSON]:
        """What stays the same in all games."""
        ...

    def begin(self, buffers: StepBuffers, seed: int) -> dict[str, JSON]:
        """A game begins, with this seed of the environment; what stays the same during it."""
        ...

    def state(self, buffers: StepBuffers) -> dict[str, JSON]:
        """The present state."""
        ...


class Game:
    """Plays one game at a time, the same games as `brisk eval`.

    Args:
        env: One environment that holds ended episodes.
        brain: The agent.
        view: What is drawn.
    """

    def __init__(self, env: VecEnv, brain: Brain, view: View) -> None:
        self.env, self.brain, self.view = env, brain, view
        self._buffers = StepBuffers.allocate(env.env_spec, 1)
        self._snapshots: list[tuple[Mapping[str, Array], float]] = []
        self._return = 0.0
        self._next: Array = np.zeros(1, np.int64)
        self.index = 0
        """Number of the present state; the first is 0."""
        self.ended = False

    def begin(self, seed: int, episode: int) -> tuple[dict[str, JSON], dict[str, JSON]]:
        """Begin game `episode` of the evaluation with this seed; its facts and its first state."""
        own = derive_seed(seed, "evaluate") + episode
        self.env.start(own, self._buffers)
        self.env.drain_stats()
        self.brain.begin()
        self.index, self.ended, self._return = 0, False, 0.0
        self._snapshots.clear()
        facts = self.view.begin(self._buffers, own)
        return facts, self._state({})

    def advance(self, action: int | None = None) -> dict[str, JSON]:
        """Take the policy's action, or another one; returns the next state.

        Raises:
            RequestError: The game is over.
        """
        if self.ended:
            raise RequestError("over", "The game is over.")
        if action is not None:
            self._next = np.array([action], np.int64)
        taken = self._next
        self.env.step_into(taken, self._buffers)
        reward = float(self._buffers.reward[0])
        self._return += reward
        self.index += 1
        came_by = {"a": taken[0].tolist(), "r": short(reward), "t": short(self._return)}
        if action is not None:
            came_by["human"] = True
        return self._state(came_by)

    def check_action(self, action: int) -> None:
        """Check an action of the user.

        Raises:
            RequestError: There is no such action.
        """
        spec = self.env.env_spec.action
        count = spec.n if isinstance(spec, DiscreteSpec) else 0
        if not 0 <= action < count:
            raise RequestError("bad-action", f"Actions are 0 to {count - 1}, not {action}.")

    def rewind(self, index: int) -> None:
        """Go back to an earlier state.

        Raises:
            RequestError: This kind of environment cannot, or there is no such state.
        """
        if not self.view.rewinds:
            raise RequestError("unsupported", "This environment takes no actions from the page.")
        if not 0 <= index < len(self._snapshots):
            raise RequestError("bad-index", f"The game has no decision {index}.")
        saved, self._return = self._snapshots[index]
        del self._snapshots[index:]
        self.env.set_state(saved)
        self.index, self.ended = index, False

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _state(self, came_by: dict[str, JSON]) -> dict[str, JSON]:
        stats = self.env.drain_stats()
        # The view reads the environment before a snapshot, which some restart from.
        state = {**came_by, **self.view.state(self._buffers)}
        if stats.count:
            self.ended = True
            state["end"] = {
                "score": float(stats.score[0]),
                "steps": int(stats.steps[0]),
                "return": float(stats.returns[0]),
                "won": bool(stats.won[0]),
            }
            return state
        if self.view.rewinds:
            self._snapshots.append((self.env.get_state(), self._return))
        self._next = self.brain.act(self._buffers)
        return {**state, "next": self._next[0].tolist(), **self.brain.numbers(self._buffers)}


def action_names(action: ActionSpec, known: Sequence[str] = ()) -> list[str]:
    """Names of discrete actions, numbers where nothing is known; empty for other actions."""
    if not isinstance(action, DiscreteSpec):
        return []
    return list(known) if len(known) == action.n else [str(number) for number in range(action.n)]
