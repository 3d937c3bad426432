"""Settings of a run; imports nothing heavy, so that help and errors are instant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """One training run: what to train, on what, for how long, and what to keep."""

    env: str = "snake"
    """Environment; `brisk envs` lists them."""
    algo: str = "dqn"
    """Algorithm preset; `brisk algos` lists them."""
    seed: Annotated[int, Meta(ge=0)] = 0
    """Root of every random stream; equal seeds give equal runs, bit for bit."""
    steps: Annotated[int, Meta(ge=1)] = 4_000_000
    """Transitions to collect, over all environments."""
    episodes: Annotated[int, Meta(ge=1)] | None = None
    """Stop after this many finished episodes, if that comes first."""
    num_envs: Annotated[int, Meta(ge=1, le=1_048_576)] = 256
    """Environments stepped together."""
    threads: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Threads for environments and arithmetic; small networks are fastest with one."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "cpu"
    """Where the networks live; auto takes an accelerator if there is one."""
    warmup: bool = True
    """Compile and touch everything before the clock starts; training comes out the same."""
    run_dir: str | None = None
    """Run folder to create; by default a new one under runs/."""
    checkpoint_steps: Annotated[int, Meta(ge=0)] = 0
    """Save a checkpoint every this many transitions; 0 leaves it to checkpoint_seconds."""
    checkpoint_seconds: Annotated[float, Meta(ge=0)] = 60.0
    """Save a checkpoint every this many seconds; 0 saves only at the end."""
    keep_checkpoints: Annotated[int, Meta(ge=1)] = 2
    """How many checkpoints to keep."""
    log_seconds: Annotated[float, Meta(gt=0)] = 2.0
    """Seconds between rows of metrics.jsonl, and the longest that logs stay unwritten."""
    tensorboard: bool = False
    """Also write TensorBoard files into the run folder (needs the tensorboard extra)."""
    env_config: Any = None
    """Settings of the environment; defaults if absent."""
    algo_config: Any = None
    """Settings of the algorithm; the preset's if absent."""
