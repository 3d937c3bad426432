"""What makes an environment a task with workflows: categories, open incidents, addressed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import ArrayLike, NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.spec import DiscreteSpec
from briskrl.core.types import Array, Bools
from briskrl.orders.workflow import check_categories

Named = Mapping[str, tuple[int, ...]]
OpenFunction = Callable[[Any], ArrayLike]
"""(environments) -> (N, m): whether a category has a target that needs a repair and can get one.

For a Gymnasium environment: (env) -> (m,), with the one `gymnasium.Env`."""
EventFunction = Callable[[Any], ArrayLike]
"""(environments) -> (N,): category of the milestone that the last step reached, or -1.

For a Gymnasium environment: (env) -> a number."""


@dataclass(frozen=True, slots=True)
class SingleEnv:
    """One Gymnasium environment, as tasks are bound to it where it is stepped."""

    env: Any
    """The `gymnasium.Env`."""
    num_envs: int = 1


@runtime_checkable
class WorkflowTask(Protocol):
    """Says which incidents are open, and which one an action has worked on.

    A category is open if at least one of its targets needs a repair in the true state and can be
    repaired. Arrays that a task returns are valid until the next step.
    """

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of 2 to 12 categories in the canonical order."""
        ...

    @property
    def named(self) -> Named:
        """Well-known workflows by name."""
        ...

    def bind(self, venv: Any) -> None:
        """Work with these environments from now on."""
        ...

    def open_mask(self) -> Bools:
        """(N, m): open categories of the present state."""
        ...

    def addressed(self, actions: Array) -> NDArray[np.int8]:
        """(N,): category that the last step of each environment worked on, or -1.

        Called after the step; an episode that has ended is still meant.
        """
        ...


@runtime_checkable
class Oracle(Protocol):
    """A task that knows an action for a category, from the true state."""

    def fix(self, required: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Actions (N,) that repair an open target of the required categories (N,), -1 for none.

        Targets are drawn at random.
        """
        ...


class ActionTableTask:
    """A task in which the action alone says what is worked on.

    Args:
        categories: Names of the categories in the canonical order.
        action_category: (A,): category of each action, or -1.
        open_fn: Open categories (N, m) of the environments.
        named: Well-known workflows by name.
        debug: Check actions in every step.

    Raises:
        ConfigError: A category cannot be addressed by any action, or a number is out of range.
    """

    def __init__(
        self,
        categories: Sequence[str],
        action_category: ArrayLike,
        open_fn: OpenFunction,
        named: Named | None = None,
        *,
        debug: bool = False,
    ) -> None:
        self.categories = tuple(categories)
        self.named: Named = dict(named or {})
        check_categories(self.categories)
        self._table = np.array(action_category, np.int8)
        self._check_table()
        self._open_fn, self.debug = open_fn, debug

    def bind(self, venv: Any) -> None:
        """See WorkflowTask.

        Raises:
            ConfigError: The environments have another number of actions than the table.
        """
        action = _action_of(venv)
        if not isinstance(action, DiscreteSpec) or action.n != len(self._table):
            raise ConfigError(
                f"The table has the categories of {len(self._table)} actions, but the environments "
                f"have {action}."
            )
        self._venv = _stepped(venv)
        self._open = np.zeros((venv.num_envs, len(self.categories)), np.bool_)
        self._addressed = np.zeros(venv.num_envs, np.int8)

    def open_mask(self) -> Bools:
        """See WorkflowTask."""
        self._open[...] = self._open_fn(self._venv)
        return self._open

    def addressed(self, actions: Array) -> NDArray[np.int8]:
        """See WorkflowTask.

        Raises:
            ValueError: An action is not in the table; in debug mode only.
        """
        if self.debug:
            check_in_table(actions, len(self._table))
        # Without "clip" NumPy would allocate a buffer.
        np.take(self._table, actions, out=self._addressed, mode="clip")
        return self._addressed

    def _check_table(self) -> None:
        m, table = len(self.categories), self._table
        if table.ndim != 1 or table.min(initial=0) < -1 or table.max(initial=-1) >= m:
            raise ConfigError(
                f"action_category must hold one number from -1 to {m - 1} per action."
            )
        missing = [name for index, name in enumerate(self.categories) if index not in table]
        if missing:
            raise ConfigError(
                f"No action works on {', '.join(missing)}: a category whose targets cannot be "
                "repaired cannot be ordered."
            )


class EventTask:
    """A task in which the step itself says what was worked on, such as a milestone reached.

    Args:
        categories: Names of the categories in the canonical order.
        event_fn: Category (N,) of the milestone that the last step reached, or -1.
        open_fn: Open categories (N, m): milestones that are not reached yet.
        named: Well-known workflows by name.
    """

    def __init__(
        self,
        categories: Sequence[str],
        event_fn: EventFunction,
        open_fn: OpenFunction,
        named: Named | None = None,
    ) -> None:
        self.categories = tuple(categories)
        self.named: Named = dict(named or {})
        check_categories(self.categories)
        self._event_fn, self._open_fn = event_fn, open_fn

    def bind(self, venv: Any) -> None:
        """See WorkflowTask."""
        self._venv = _stepped(venv)
        self._open = np.zeros((venv.num_envs, len(self.categories)), np.bool_)
        self._events = np.zeros(venv.num_envs, np.int8)

    def open_mask(self) -> Bools:
        """See WorkflowTask."""
        self._open[...] = self._open_fn(self._venv)
        return self._open

    def addressed(self, actions: Array) -> NDArray[np.int8]:
        """See WorkflowTask."""
        self._events[...] = self._event_fn(self._venv)
        return self._events


def is_task(found: object) -> bool:
    """Whether an object has what a task needs."""
    return isinstance(found, WorkflowTask)


def _stepped(venv: Any) -> Any:
    """What the functions of a task get: the one environment, or all of them."""
    return venv.env if isinstance(venv, SingleEnv) else venv


def _action_of(venv: Any) -> Any:
    """The actions of one environment."""
    if not isinstance(venv, SingleEnv):
        return venv.env_spec.action
    space = venv.env.action_space
    return DiscreteSpec(int(space.n)) if isinstance(space, Discrete) else space


def check_in_table(actions: Array, count: int) -> None:
    """Check actions before they are looked up.

    Raises:
        ValueError: One is below 0 or beyond the table.
    """
    wrong = (actions < 0) | (actions >= count)
    if wrong.any():
        env = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"the action {actions[env]} of env {env} is not one of 0 to {count - 1}, so it has no "
            "category"
        )
