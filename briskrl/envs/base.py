"""The contract of every environment and backend.

1. Episodes restart in the step that ends them; no action is wasted on a reset.
2. The trajectory of env i depends on its own seed (base + i) and its actions alone: not on the
   number of envs, the backend, the workers or the threads.
3. `set_state(get_state())` is exact, in the middle of an episode too, or `env_spec.exact_state` is
   False.
4. `step_into` allocates nothing once it has run.
5. `close()` is idempotent and returns within five seconds.

`tests/envs/test_contract.py` holds every registered environment to these lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, EpisodeStats, Ints, ObsCodec, StepBuffers


@runtime_checkable
class MinimalVecEnv(Protocol):
    """What an environment passed to `train(config, env=...)` must have; see VecEnv for the rest."""

    @property
    def env_spec(self) -> EnvSpec:
        """Shapes, dtypes and promises of one environment."""
        ...

    @property
    def num_envs(self) -> int:
        """N."""
        ...

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes everywhere, env i with seed + i; writes obs and mask."""
        ...

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Advance every env by one transition, writing all of `out`."""
        ...

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call."""
        ...

    def get_state(self) -> Mapping[str, Array]:
        """Everything that decides the future, random state included; copies."""
        ...

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from what get_state gave."""
        ...

    def close(self) -> None:
        """Release everything; may be called twice."""
        ...


@runtime_checkable
class VecEnv(MinimalVecEnv, Protocol):
    """N environments stepped together; the caller owns every buffer."""

    @property
    def notes(self) -> Sequence[str]:
        """Sentences about how the environments are run, to be shown once."""
        ...

    @property
    def codec(self) -> ObsCodec | None:
        """Rebuilds observations and masks from codes, to the bit; used if the spec has codes.

        `start` and `step_into` then write the codes into `StepBuffers.code`, if that is there.
        """
        ...

    @property
    def async_env(self) -> AsyncVecEnv | None:
        """This environment for trainers that act for the envs that are ready first.

        None if all envs step together; otherwise `step_into` may be missing.
        """
        ...


class AsyncVecEnv(Protocol):
    """N environments that step by themselves: `send` starts steps, `recv` returns finished ones."""

    @property
    def env_spec(self) -> EnvSpec:
        """Shapes, dtypes and promises of one environment."""
        ...

    @property
    def num_envs(self) -> int:
        """N."""
        ...

    @property
    def min_ready(self) -> int:
        """How many envs a trainer should wait for."""
        ...

    @property
    def lockstep(self) -> bool:
        """Whether no env can rest while the others go on."""
        ...

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes everywhere, env i with seed + i; writes obs and mask."""
        ...

    def send(self, actions: Array, ids: Ints) -> None:
        """Start a step in the envs `ids` (M,), with actions (M,)."""
        ...

    def recv(self, min_ready: int, timeout: float | None, out: StepBuffers) -> Ints:
        """Wait until `min_ready` envs have finished; fills the first rows of `out`, returns ids."""
        ...

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call."""
        ...
