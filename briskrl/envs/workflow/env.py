"""WorkflowVecEnv: any vector environment whose policy has to obey a workflow.

In every step the wrapped environments step first. Then a compiled kernel judges the step, adds the
bonus to the reward, and appends the encoding of each environment's workflow to the observation.
Returns of `drain_stats` are those of the wrapped environments, without the bonus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from briskrl.core.errors import ConfigError, InvalidStateError
from briskrl.core.spec import ArraySpec, EnvSpec
from briskrl.core.state_checks import check_range
from briskrl.core.types import Array, EpisodeStats, Floats, Ints, StepBuffers
from briskrl.envs.base import VecEnv
from briskrl.envs.validation import check_buffers
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.envs.workflow.kernels import tracker
from briskrl.envs.workflow.records import ComplianceRecords
from briskrl.envs.workflow.render import Caption
from briskrl.envs.workflow.slots import WorkflowSlots
from briskrl.envs.workflow.task import WorkflowTask
from briskrl.orders.space import WorkflowSpace

_PREFIX = "workflow."
"""Of the names of our own arrays in a saved state."""


class WorkflowVecEnv:
    """N environments with a workflow each.

    Observation: that of the environment, followed by the encoding of the workflow, float32.

    Action: that of the environment.

    Reward: that of the environment plus the bonus for compliance.

    Args:
        env: The environments; observations must be vectors.
        task: Says what is open and what was worked on; gets bound to `env`.
        config: Settings of the workflow; `task` and `task_config` are not used.
        alignment_lambda: Weight of the bonus if the config leaves it open.
        hold_ended: Whether `env` leaves ended episodes as they are, for rendering.

    Raises:
        ConfigError: They do not fit together.
    """

    codec = None
    async_env = None

    def __init__(
        self,
        env: VecEnv,
        task: WorkflowTask,
        config: WorkflowEnvConfig | None = None,
        *,
        alignment_lambda: float = 1.0,
        hold_ended: bool = False,
    ) -> None:
        self.config = config = config or WorkflowEnvConfig()
        wrong = config.check()
        if wrong:
            raise ConfigError(" ".join(wrong))
        self.inner, self.task = env, task
        self.num_envs = env.num_envs
        self.space = WorkflowSpace(task.categories, require=config.require, named=task.named)
        """The workflows that may be assigned."""
        chosen = config.alignment_lambda
        self._slots = WorkflowSlots(
            env.num_envs,
            self.space,
            config,
            alignment_lambda=alignment_lambda if chosen is None else chosen,
            hold_ended=hold_ended,
        )
        self.env_spec = _spec_with(env.env_spec, self._slots.width)
        self._like = StepBuffers.allocate(self.env_spec, env.num_envs)
        inner = StepBuffers.allocate(env.env_spec, env.num_envs)
        self._obs, self._final_obs, self._code = inner.obs, inner.final_obs, inner.code
        # One dtype and layout for all tasks, so that the kernel is compiled once.
        self._open = np.zeros((env.num_envs, len(task.categories)), np.bool_)
        self._addressed = np.zeros(env.num_envs, np.int8)
        self._checked: StepBuffers | None = None
        task.bind(env)

    @property
    def notes(self) -> Sequence[str]:
        """See VecEnv."""
        return self.inner.notes

    @property
    def workflow_ids(self) -> Ints:
        """(N,): ids of the workflows that the environments follow now."""
        return self._slots.current

    @property
    def required(self) -> Ints:
        """(N,): category that must be handled next by the true state, -1 if none is open.

        Privileged information, for oracles and drawings.
        """
        return self._slots.required

    def caption(self, env: int) -> Caption:
        """What an environment has to do now, by the true state, and how it was obeyed so far."""
        return self._slots.caption(env)

    @property
    def alignment_lambda(self) -> float:
        """The present weight of the bonus."""
        return self._slots.alignment_lambda

    @property
    def encodings(self) -> Floats:
        """(N, W): the encodings of the present workflows; do not write into it."""
        return self._slots.encodings

    def assign(self, slots: ArrayLike, ids: ArrayLike) -> None:
        """Let environments follow other workflows from their next episode on.

        Args:
            slots: (M,): indices of environments.
            ids: (M,): workflow ids, or one for all.

        Raises:
            ConfigError: An id does not exist or breaks a constraint.
        """
        self._slots.assign(slots, ids)

    def draw_from(self, focus: Sequence[int] = (), share: float = 0.5) -> None:
        """Draw the workflow of every new episode at random.

        Args:
            focus: Ids of which one is drawn with probability `share`; otherwise one of all orders.
            share: That probability.
        """
        self._slots.draw_from(focus, share)

    def drain_compliance(self) -> ComplianceRecords:
        """Finished episodes since the last call, with their counters.

        At least the newest 64 of each environment are kept between two calls.
        """
        return self._slots.drain()

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes everywhere, env i with seed + i; writes obs and mask."""
        check_buffers(out, self._like)
        self.inner.start(seed, self._inner_buffers(out))
        self._check_open()
        self._read_open()
        self._slots.start(seed, self._open)
        tracker.join_obs(self._slots.packed, self._obs, out.obs)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Advance every env by one transition, writing all of `out`."""
        if out is not self._checked:
            check_buffers(out, self._like)
            self._checked = out
        inner = self._inner_buffers(out)
        self.inner.step_into(actions, inner)
        np.copyto(self._addressed, self.task.addressed(actions))
        self._read_open()
        if self.config.debug:
            self._check_open()
            check_range("addressed category", self._addressed, -1, self.space.m - 1)
        waiting = tracker.judge(
            self._slots.packed,
            self._open,
            self._addressed,
            inner.obs,
            inner.final_obs,
            out.reward,
            out.terminated,
            out.truncated,
            out.obs,
            out.final_obs,
        )
        if waiting:
            self._slots.look_up()
            tracker.join_obs(self._slots.packed, self._obs, out.obs)

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call, with returns that leave out the bonus."""
        return self.inner.drain_stats()

    def get_state(self) -> Mapping[str, Array]:
        """The wrapped environments, the workflows and the counters; copies."""
        own = {_PREFIX + name: array for name, array in self._slots.state().items()}
        return {**self.inner.get_state(), **own}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from what get_state returned.

        Raises:
            InvalidStateError: It is a state of other settings or impossible.
        """
        own = {name.removeprefix(_PREFIX): a for name, a in state.items() if name[:9] == _PREFIX}
        inner = {name: array for name, array in state.items() if name[:9] != _PREFIX}
        if not own:
            raise InvalidStateError("the state of the workflows is missing")
        self._slots.load_state(own)
        self.inner.set_state(inner)

    def close(self) -> None:
        """Close the wrapped environments; may be called twice."""
        self.inner.close()

    def _inner_buffers(self, out: StepBuffers) -> StepBuffers:
        """Buffers of the wrapped environments that share everything but observations."""
        return StepBuffers(
            obs=self._obs,
            reward=out.reward,
            terminated=out.terminated,
            truncated=out.truncated,
            final_obs=self._final_obs,
            mask=out.mask,
            final_mask=out.final_mask,
            code=self._code,
        )

    def _read_open(self) -> None:
        np.copyto(self._open, self.task.open_mask())

    def _check_open(self) -> None:
        """Check the shape of what the task returns, which NumPy might silently stretch.

        Raises:
            ValueError: It is another one.
        """
        found = np.shape(self.task.open_mask())
        if found != self._open.shape:
            raise ValueError(f"open_mask must return {self._open.shape}, not {found}.")

    @property
    def metadata(self) -> dict[str, Any]:
        """How the wrapped environments can be drawn."""
        return getattr(self.inner, "metadata", {})

    @property
    def render_mode(self) -> str | None:
        """How `render` draws."""
        return getattr(self.inner, "render_mode", None)

    @property
    def cell_px(self) -> int:
        """Pixels per cell of images."""
        return int(self._drawn.cell_px)

    @cell_px.setter
    def cell_px(self, pixels: int) -> None:
        self._drawn.cell_px = pixels

    def render(self) -> Any:
        """Frames of the wrapped environments."""
        return self._drawn.render()

    @property
    def _drawn(self) -> Any:
        return self.inner


def _spec_with(spec: EnvSpec, width: int) -> EnvSpec:
    """The spec of environments with `width` more numbers in their observations.

    Raises:
        ConfigError: Their observations are not vectors.
    """
    obs = spec.obs
    if len(obs.shape) != 1:
        raise ConfigError(
            f"The observations have the shape {obs.shape}. A workflow can only be appended to a "
            "vector; flatten them or give features."
        )
    low, high = (min(obs.low, -1.0), max(obs.high, 1.0)) if width else (obs.low, obs.high)
    return EnvSpec(
        obs=ArraySpec.of((obs.shape[0] + width,), np.float32, low, high),
        action=spec.action,
        max_steps=spec.max_steps,
        has_mask=spec.has_mask,
        exact_state=spec.exact_state,
    )
