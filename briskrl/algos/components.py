"""What an algorithm hands to training: itself, its memory, and when and on what it updates.

Each algorithm has one function `build_components(config, context)`, whose address stands in its
AlgoEntry. Training chooses the learner by the type of what it returns and knows no algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from briskrl.algos.base import OffPolicyAlgorithm, OnPolicyAlgorithm
from briskrl.core.rng import Streams
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Minibatch, ObsCodec
from briskrl.memory.base import ReplayMemory, RolloutMemory

if TYPE_CHECKING:
    from briskrl.nets.compute import Compute


@dataclass(frozen=True, slots=True)
class BuildContext:
    """The run that components are built for."""

    spec: EnvSpec
    num_envs: int
    """Environments of this process."""
    streams: Streams
    """Named random streams; an algorithm may add its own names."""
    compute: Compute
    codec: ObsCodec | None = None
    """Decodes stored observations; None if a replay buffer must store them whole."""
    note: Callable[[str], None] = lambda text: None
    """Receives messages for the user while components are built."""


@dataclass(frozen=True, slots=True)
class Pretraining:
    """Behavior cloning of a teacher before the first step of the run."""

    teacher: str
    """Name of the teacher, see `briskrl.envs.registry.Teacher`."""
    updates: int
    """Gradient updates on the teacher's transitions."""
    loss: str
    """Key in `Algorithm.progress` of the loss to report."""
    behavior_cloning: Callable[[], AbstractContextManager[None]]
    """While entered, updates imitate the actions in the memory, and the state of the algorithm
    includes what is needed to go on; loaded before, entering it continues there."""


@dataclass(frozen=True, slots=True)
class Replication:
    """How several replicas of a run learn together; see `Compute.replicas`."""

    digest: Callable[[], int]
    """A number that differs between replicas if their networks do."""
    plan: Callable[[Sequence[Minibatch]], None] | None = None
    """Called with all minibatches of the updates that follow, which need statistics of them."""
    average_every: int = 0
    """Updates after which `average` is called; 0 if updates themselves average."""
    average: Callable[[], None] | None = None
    """Makes the networks of all replicas equal."""


@dataclass(frozen=True, slots=True)
class OffPolicyComponents:
    """Everything needed to learn from a replay buffer."""

    algo: OffPolicyAlgorithm
    memory: ReplayMemory
    batch_size: int
    """Transitions per gradient update."""
    updates_per_step: float
    """Gradient updates per collected transition."""
    learning_starts: int
    """Transitions collected before any count towards updates."""
    update_every: int = 1
    """Vector steps collected between two rounds of updates; those due are done together."""
    n_step: int = 1
    """Length of the return windows; the newest transitions of a window cannot be sampled."""
    pretraining: Pretraining | None = None
    pretrain_transitions: int = 0
    """Transitions of the teacher that fill the memory beforehand."""
    exploration_steps: int = 0
    """Transitions over which exploration decays; 0 if it does not depend on them."""
    replication: Replication | None = None
    """None if there is one process, or the algorithm cannot be trained by replicas."""


@dataclass(frozen=True, slots=True)
class OnPolicyComponents:
    """Everything needed to learn from rollouts."""

    algo: OnPolicyAlgorithm
    memory: RolloutMemory
    rollout_steps: int
    """Transitions of one rollout, over all environments."""
    epochs: int
    """Passes over every rollout."""
    minibatches: int
    """Gradient updates per pass over one rollout."""
    reuse: int = 0
    """Past rollouts that are learned from again beside the newest."""
    pretraining: Pretraining | None = None
    replication: Replication | None = None
    """None if there is one process, or the algorithm cannot be trained by replicas."""


Components = OffPolicyComponents | OnPolicyComponents
