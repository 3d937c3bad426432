"""A trained policy that acts on one observation or many, of any number type, with NumPy alone."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from briskrl.core.errors import BriskError
from briskrl.core.spec import ActionSpec, ArraySpec
from briskrl.core.types import Array, Bools, Floats
from briskrl.export.selection import ActionSelector, Outputs, Scorer, num_choices


class ObservationError(BriskError, ValueError):
    """An observation or a mask does not fit the policy."""


class ObservationMemory(Protocol):
    """What an environment remembers for its observations, rebuilt from raw ones.

    `briskrl.envs.registry` names one for each environment whose observations need it.
    """

    raw_shape: tuple[int, ...]
    """Shape of one raw observation."""

    def restart(self, count: int) -> None:
        """Begin `count` new episodes, and forget the ones before."""
        ...

    def see(self, raw: Floats) -> Floats:
        """The observations (N, *obs) that the network gets, from the next raw ones (N, *raw)."""
        ...

    def mask(self) -> Bools | None:
        """The legal actions (N, A) now; None if all are."""
        ...

    def act(self, action: Array) -> Array:
        """Note the actions (N,) that are taken now; returns them as the raw environment's."""
        ...

    def replace(self, action: Array) -> None:
        """Note that these actions (N,) of the raw environment were taken instead."""
        ...


class Decisions(Protocol):
    """How a policy decides, for observations (N, *obs) float32 and masks (N, A) or None."""

    def greedy(self, rows: Floats, legal: Bools | None) -> Array:
        """The best actions, (N,) or (N, D)."""
        ...

    def sample(self, rows: Floats, legal: Bools | None, rng: np.random.Generator) -> Array:
        """Actions drawn from the policy's distribution."""
        ...

    def outputs(self, rows: Floats, legal: Bools | None) -> Outputs:
        """The best actions and the numbers behind them, by name."""
        ...


class NetworkDecisions:
    """Decisions of a network.

    Args:
        scorer: The network.
        selector: Chooses actions from its outputs.
    """

    def __init__(self, scorer: Scorer, selector: ActionSelector) -> None:
        self._scorer = scorer
        self._selector = selector

    def greedy(self, rows: Floats, legal: Bools | None) -> Array:
        """See Decisions."""
        return self._selector.greedy(self._scorer(rows), legal)

    def sample(self, rows: Floats, legal: Bools | None, rng: np.random.Generator) -> Array:
        """See Decisions."""
        return self._selector.sample(self._scorer(rows), legal, rng)

    def outputs(self, rows: Floats, legal: Bools | None) -> Outputs:
        """See Decisions."""
        return self._selector.outputs(self._scorer(rows), legal)


class ActingPolicy:
    """A policy that acts outside training.

    Args:
        decisions: How it decides.
        obs: The observations that it was trained on.
        action: Its actions.
        env: Name of the environment.
        env_config: Settings of the environment.
        memory: Turns raw observations into these; None if they are the same.
        seed: Of sampled actions.

    `act` takes one observation or a batch. A policy with a memory plays one episode, or a batch of
    episodes side by side: call `reset` when new ones begin.
    """

    def __init__(
        self,
        decisions: Decisions,
        obs: ArraySpec,
        action: ActionSpec,
        *,
        env: str,
        env_config: Any,
        memory: ObservationMemory | None = None,
        seed: int | None = None,
    ) -> None:
        self.obs = obs
        self.action = action
        self.env = env
        self.env_config = env_config
        self.memory = memory
        self._decisions = decisions
        self._shape = obs.shape if memory is None else memory.raw_shape
        self._choices = num_choices(action)
        self._playing: int | None = None
        self._rng = np.random.default_rng(seed)

    def reset(self, seed: int | None = None) -> None:
        """Begin new episodes; with a seed, sampled actions start anew as well."""
        self._playing = None
        if seed is not None:
            self._rng = np.random.default_rng(seed)

    def act(self, obs: ArrayLike, mask: ArrayLike | None = None, deterministic: bool = True) -> Any:
        """The action for one observation, or the actions for many.

        Args:
            obs: One observation or a batch (N, ...) of them, any float, integer or bool type.
            mask: Legal actions, (A,) or (N, A); None if all are legal.
            deterministic: Take the most likely action instead of drawing one. Policies that know
                the values of actions (DQN) always take the best.

        Returns:
            An int or an array (D,) for one observation, an array (N,) or (N, D) for many.

        Raises:
            ObservationError: The shape or the numbers do not fit.
        """
        rows, legal, single = self._inputs(obs, mask)
        if deterministic:
            action = self._decisions.greedy(rows, legal)
        else:
            action = self._decisions.sample(rows, legal, self._rng)
        if self.memory is not None:
            action = self.memory.act(action)
        if not single:
            return action
        return int(action[0]) if action.ndim == 1 else action[0]

    def outputs(self, obs: ArrayLike, mask: ArrayLike | None = None) -> Outputs:
        """The greedy actions and the numbers behind them, by name; takes no action.

        Returns:
            The outputs of the exported ONNX file: `action`, and `probabilities`, `values`, or
            `mean` and `log_std`; each with one row per observation.

        Raises:
            BriskError: The policy has a memory, which only acting advances.
        """
        if self.memory is not None:
            raise BriskError(
                "This policy remembers its observations; load it with memory=False to look at "
                "single ones."
            )
        rows, legal, _ = self._inputs(obs, mask)
        return self._decisions.outputs(rows, legal)

    def replace_action(self, action: ArrayLike) -> None:
        """Tell a policy with a memory that another action was taken than the one it returned.

        Raises:
            BriskError: The policy has no memory, or has not acted in this episode.
        """
        if self.memory is None or self._playing is None:
            raise BriskError("There is no action to replace: no memory, or no action yet.")
        actions = np.asarray(action, np.int64).reshape(-1)
        if len(actions) != self._playing:
            raise ObservationError(f"{len(actions)} actions for {self._playing} episodes.")
        self.memory.replace(actions)

    def _inputs(self, obs: ArrayLike, mask: ArrayLike | None) -> tuple[Floats, Bools | None, bool]:
        rows, single = self._rows(obs)
        if self.memory is None:
            return rows, self._legal(mask, len(rows)), single
        if mask is not None:
            raise ObservationError(
                "This policy finds the legal actions itself; call act without a mask."
            )
        if self._playing is None:
            self.memory.restart(len(rows))
            self._playing = len(rows)
        if len(rows) != self._playing:
            raise ObservationError(
                f"{len(rows)} observations for {self._playing} episodes. Call reset() before "
                "another number of episodes begins."
            )
        return self.memory.see(rows), self.memory.mask(), single

    def _rows(self, obs: ArrayLike) -> tuple[Floats, bool]:
        """Observations (N, *shape) as float32, and whether there was only one."""
        array: NDArray[Any] = np.asarray(obs)
        if array.dtype.kind not in "fiub":
            raise ObservationError(
                f"An observation must be numbers, not {array.dtype}"
                + (" (rows of different lengths?)." if array.dtype == object else ".")
            )
        single = array.shape == self._shape
        if not single and (array.ndim == 0 or array.shape[1:] != self._shape):
            raise ObservationError(
                f"An observation has shape {self._shape} and many have (N, "
                f"{', '.join(map(str, self._shape))}), but this is {array.shape}."
            )
        rows = (array[None] if single else array).astype(np.float32, copy=False)
        if not np.isfinite(rows).all():
            raise ObservationError("The observation has numbers that are not finite.")
        return rows, single

    def _legal(self, mask: ArrayLike | None, count: int) -> Bools | None:
        if mask is None:
            return None
        if not self._choices:
            raise ObservationError("Continuous actions have no mask.")
        legal = np.asarray(mask)
        if legal.dtype.kind not in "iub":
            raise ObservationError(f"A mask must be bool or integer, not {legal.dtype}.")
        if legal.shape not in ((self._choices,), (count, self._choices)):
            raise ObservationError(
                f"The mask must have shape ({self._choices},) or ({count}, {self._choices}), not "
                f"{legal.shape}."
            )
        return np.broadcast_to(legal.astype(np.bool_, copy=False), (count, self._choices))
