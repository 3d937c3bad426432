"""Gymnasium environments with a workflow: incidents are found where an environment is stepped.

In a worker process, the true state stays there. `IncidentObs` appends what is open and what was
worked on to the observation, as m + 1 numbers, and `IncidentVecEnv` takes them off again before
anybody else sees the observation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec as Registration
from numpy.typing import NDArray

from briskrl.core.config import to_dict
from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec, EnvSpec
from briskrl.core.types import Array, Bools, EpisodeStats, Floats, StepBuffers
from briskrl.envs.base import VecEnv
from briskrl.envs.gym.backend_selection import build_from, choose
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory, GymEnv
from briskrl.envs.validation import check_buffers
from briskrl.envs.workflow.task import Named, SingleEnv, WorkflowTask
from briskrl.envs.workflow.task_address import import_task_module, load_task


class IncidentObs(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds to the observation of one environment what is open, and what the step worked on.

    Args:
        env: The environment.
        task: Works on a batch of one.
    """

    def __init__(self, env: GymEnv, task: WorkflowTask) -> None:
        super().__init__(env)
        self._task, self._m = task, len(task.categories)
        numbers = gymnasium.spaces.Box(-1, self._m, (self._m + 1,), np.float32)
        self.observation_space = gymnasium.spaces.Tuple((env.observation_space, numbers))
        task.bind(SingleEnv(env))

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """See gymnasium.Env; nothing was worked on yet."""
        obs, info = self.env.reset(**options)
        return (obs, self._incidents(-1)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See gymnasium.Env."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        addressed = int(self._task.addressed(np.asarray(action)[None])[0])
        return (obs, self._incidents(addressed)), reward, terminated, truncated, info

    def get_state(self) -> dict[str, Any]:
        """Nothing: a task has no memory."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""

    def _incidents(self, addressed: int) -> Floats:
        if not -1 <= addressed < self._m:
            raise ValueError(f"the category {addressed}, which is not one of 0 to {self._m - 1}")
        found = np.empty(self._m + 1, np.float32)
        found[:-1], found[-1] = self._task.open_mask()[0], addressed
        return found


@dataclass(frozen=True, slots=True)
class IncidentFactory(EnvFactory):
    """Makes instances of one Gymnasium id that report their incidents."""

    task: str = ""
    """Address of the task."""

    @property
    def cache_key(self) -> Any:
        """See EnvFactory."""
        return [self.id, to_dict(self.config), self.task]

    @property
    def entry_point(self) -> None:
        """None: compiled versions have no incidents."""
        return

    def make(self, render_mode: str | None = None) -> GymEnv:
        """A new instance; see EnvFactory."""
        return IncidentObs(EnvFactory.make(self, render_mode), load_task(self.task, self.config))

    def _registration(self) -> Registration:
        # The module of a task may register the environment as well.
        import_task_module(self.task)
        return EnvFactory._registration(self)


class IncidentVecEnv:
    """Environments whose observations end with their incidents, which are taken off.

    Args:
        env: Environments of `IncidentObs`.
        m: Number of categories.
    """

    codec = None
    async_env = None

    def __init__(self, env: VecEnv, m: int) -> None:
        self.inner, self.num_envs = env, env.num_envs
        self.env_spec = _without_incidents(env.env_spec, m)
        self._size = self.env_spec.obs.size
        self._wide = StepBuffers.allocate(env.env_spec, env.num_envs)
        self._like = StepBuffers.allocate(self.env_spec, env.num_envs)
        self.opened: Bools = np.zeros((env.num_envs, m), np.bool_)
        """(N, m): open categories."""
        self.addressed: NDArray[np.int8] = np.zeros(env.num_envs, np.int8)
        """(N,): category that the last step worked on, or -1."""

    @property
    def notes(self) -> Sequence[str]:
        """See VecEnv."""
        return self.inner.notes

    def start(self, seed: int, out: StepBuffers) -> None:
        """See VecEnv."""
        check_buffers(out, self._like)
        self.inner.start(seed, self._shared(out))
        self._take_off(out, None)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """See VecEnv."""
        check_buffers(out, self._like)
        self.inner.step_into(actions, self._shared(out))
        self._take_off(out, out.terminated | out.truncated)

    def drain_stats(self) -> EpisodeStats:
        """See VecEnv."""
        return self.inner.drain_stats()

    def get_state(self) -> Mapping[str, Array]:
        """See VecEnv."""
        return self.inner.get_state()

    def set_state(self, state: Mapping[str, Array]) -> None:
        """See VecEnv."""
        self.inner.set_state(state)

    def close(self) -> None:
        """See VecEnv."""
        self.inner.close()

    def render(self) -> Any:
        """Frames of the environments."""
        drawn: Any = self.inner
        return drawn.render()

    @property
    def metadata(self) -> dict[str, Any]:
        """How the environments can be drawn."""
        drawn: Any = self.inner
        return dict(drawn.metadata)

    @property
    def render_mode(self) -> str | None:
        """How `render` draws."""
        drawn: Any = self.inner
        mode: str | None = drawn.render_mode
        return mode

    def _shared(self, out: StepBuffers) -> StepBuffers:
        wide = self._wide
        return StepBuffers(
            obs=wide.obs,
            reward=out.reward,
            terminated=out.terminated,
            truncated=out.truncated,
            final_obs=wide.final_obs,
            mask=out.mask,
            final_mask=out.final_mask,
        )

    def _take_off(self, out: StepBuffers, ended: Bools | None) -> None:
        wide, size = self._wide, self._size
        out.obs[:] = wide.obs[:, :size]
        self.opened[:] = wide.obs[:, size:-1] > 0.5
        self.addressed[:] = wide.obs[:, -1]
        if ended is not None and ended.any():
            out.final_obs[ended] = wide.final_obs[ended, :size]
            self.addressed[ended] = wide.final_obs[ended, -1]


class IncidentTask:
    """The task of an IncidentVecEnv: what the environments have reported.

    Args:
        task: The user's task, which works where environments are stepped.
    """

    def __init__(self, task: WorkflowTask) -> None:
        self.categories = task.categories
        self.named: Named = task.named

    def bind(self, venv: Any) -> None:
        """See WorkflowTask."""
        assert isinstance(venv, IncidentVecEnv)
        self._venv = venv

    def open_mask(self) -> Bools:
        """See WorkflowTask."""
        return self._venv.opened

    def addressed(self, actions: Array) -> NDArray[np.int8]:
        """See WorkflowTask."""
        return self._venv.addressed


def make_incident_env(
    member: str,
    num_envs: int,
    config: GymConfig,
    address: str,
    *,
    m: int,
    hold_ended: bool,
    render_mode: str | None,
) -> IncidentVecEnv:
    """N environments with the Gymnasium id `member` that report incidents of m categories.

    Raises:
        ConfigError: They cannot be made, or the backend cannot report incidents.
    """
    if config.backend in ("compiled", "vector"):
        raise ConfigError(
            f"The backend {config.backend!r} cannot report incidents. Use sync, process or auto."
        )
    factory = IncidentFactory(member, config, task=address)
    wanted = config.backend
    if wanted == "auto" and not hold_ended and render_mode is None:
        wanted = choose(factory, num_envs)[0]
    # Incidents belong to steps of all environments together.
    wanted = "process" if wanted == "async" else wanted
    config = replace(config, backend=wanted, min_ready=0)
    env = build_from(
        replace(factory, config=config), num_envs, hold_ended=hold_ended, render_mode=render_mode
    )
    return IncidentVecEnv(env, m)


def _without_incidents(spec: EnvSpec, m: int) -> EnvSpec:
    obs = spec.obs
    return replace(
        spec, obs=ArraySpec((obs.shape[0] - m - 1,), obs.dtype, min(obs.low, -1.0), obs.high)
    )
