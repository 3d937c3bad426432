"""Settings of a training run; imports nothing heavy, so that help and errors are instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from briskrl.core.aliases import AliasTable
from briskrl.core.config import accepts_aliases
from briskrl.core.cpu import usable_cores

DEFAULT_STEPS = 4_000_000
_WANDB = 'Use --log wandb, or log = ["wandb"] in a file.'


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a run; None where there is no such limit."""

    steps: int | None
    episodes: int | None

    def is_spent(self, steps: int, episodes: int) -> bool:
        """Whether either limit is reached."""
        by_steps = self.steps is not None and steps >= self.steps
        return by_steps or (self.episodes is not None and episodes >= self.episodes)


STOP_MEASURES = {"score": "mean_score", "return": "mean_return", "wins": "win_rate"}
"""Names of the measures that `stop_at` knows, and of their fields in an EvalResult."""


@dataclass(frozen=True, slots=True)
class StopTarget:
    """What an evaluation must reach for training to end."""

    measure: str
    """A key of STOP_MEASURES."""
    value: float

    @classmethod
    def parse(cls, text: str) -> StopTarget:
        """The target of a text such as score=475.

        Raises:
            ValueError: It has another form.
        """
        measure, _, number = text.partition("=")
        value = float(number)
        if measure not in STOP_MEASURES or not isfinite(value):
            raise ValueError(text)
        return cls(measure, value)


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a curriculum: how the environment differs, and when the stage ends."""

    env: dict[str, Any] = field(default_factory=dict)
    """Settings of the environment that differ from the run's own."""
    until: Literal["score", "success", "steps"] = "score"
    """What ends the stage: the mean score, the share of episodes won, or the number of
    transitions."""
    value: float = 0.0
    """The mean score, share or number of transitions to reach."""
    window: Annotated[int, Meta(ge=1, le=1_000_000)] = 500
    """Most recent episodes of the stage over which the mean or share is taken."""

    def check(self) -> list[str]:
        """Problems with combinations of settings, one sentence each."""
        if self.until == "success" and not 0 < self.value <= 1:
            return [f"value {self.value} must be above 0 and at most 1: a share of episodes won."]
        if self.until == "steps" and self.value < 1:
            return [f"value {self.value} must be 1 or more: a number of transitions."]
        return []


@accepts_aliases
@dataclass(frozen=True, slots=True)
class TrainConfig:
    """One training run: algorithm, environment, budget, and what to save."""

    ALIASES: ClassVar[AliasTable] = {
        "total_timesteps": "steps",
        "total_episodes": "episodes",
        "n_envs": "num_envs",
    }
    NO_EQUIVALENT: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("wandb", "track", "wandb_project_name", "wandb_entity"), _WANDB),
        "tensorboard_log": "Use tensorboard: the files are in the run folder.",
        "exp_name": "Use run_dir, the folder of the run.",
        "cuda": 'Set device to "cuda" or "cpu".',
        "torch_deterministic": "Runs with equal seeds are always bit-identical.",
        "capture_video": "`brisk play RUN --gif FILE` saves an episode of a trained policy.",
        "save_freq": "Use checkpoint_steps or checkpoint_seconds.",
        "log_interval": "Use log_seconds.",
        "eval_freq": "Use eval_every: transitions over all environments.",
    }
    # Fields that may differ when a run is resumed; see `briskrl.training.config_changes`.
    RESUME_MAY_CHANGE: ClassVar[frozenset[str]] = frozenset(
        {
            *("steps", "episodes", "max_episodes"),
            *("threads", "replicas", "device", "engine", "compile", "warmup"),
            *("run_dir", "checkpoint_steps", "checkpoint_seconds", "keep_checkpoints"),
            *("log_seconds", "tensorboard", "log", "tags", "zoo"),
            *("eval_every", "eval_episodes", "stop_at"),
        }
    )

    env: str = "snake"
    """Environment; `brisk envs` lists them."""
    algo: str = "dqn"
    """Algorithm preset; `brisk algos` lists them."""
    seed: Annotated[int, Meta(ge=0)] = 0
    """Seed of all random streams; runs with equal seeds are bit-identical."""
    steps: Annotated[int, Meta(ge=1)] | None = None
    """Transitions to collect, over all environments; 4,000,000 unless episodes are given."""
    episodes: Annotated[int, Meta(ge=1)] | None = None
    """Episodes to finish, over all environments; if steps are given too, the run ends at whichever
    comes first."""
    max_episodes: Annotated[int, Meta(ge=1)] | None = None
    """Episodes to finish per environment, on average; the total is num_envs times this."""
    # Unset only until the config is completed, so the rest of the code need not expect None.
    num_envs: Annotated[int, Meta(ge=1, le=1_048_576)] = None  # type: ignore[assignment]
    """Environments stepped together; unset means as many as suit the algorithm, and fewer for runs
    that are too short for them to learn."""
    threads: Annotated[int, Meta(ge=1, le=1024)] | Literal["auto"] = 1
    """Threads for environments and networks; auto takes one per core. Results depend on this
    number, but not on how the threads are scheduled."""
    replicas: Annotated[int, Meta(ge=1, le=256)] = 1
    """Processes that train one network together, each with an equal part of the environments; they
    average the gradients of every minibatch. Results depend on this number."""
    overlap: bool = False
    """Collect and learn at the same time, in two threads; updates lag one iteration behind. For
    algorithms with a replay buffer, on the fused engine."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "cpu"
    """Device of the networks; auto takes an accelerator if there is one."""
    engine: Literal["auto", "fused", "torch"] = "auto"
    """What computes the networks: torch, or fused, our compiled CPU code for networks of dense
    layers. auto measures both in the warm-up and takes the faster one."""
    amp: bool = False
    """Automatic mixed precision for updates: float16 on CUDA, bfloat16 elsewhere."""
    compile: bool = False
    """Compile the networks with torch.compile; the first calls then take tens of seconds."""
    warmup: bool = True
    """Compile and run everything once before the clock starts; results do not change."""
    run_dir: str | None = None
    """Run folder to create; by default a new one under runs/."""
    checkpoint_steps: Annotated[int, Meta(ge=0)] = 0
    """Transitions between checkpoints; 0 leaves it to checkpoint_seconds."""
    checkpoint_seconds: Annotated[float, Meta(ge=0)] = 60.0
    """Seconds between checkpoints; 0 saves only at the end."""
    keep_checkpoints: Annotated[int, Meta(ge=1)] = 2
    """Number of checkpoints to keep."""
    eval_every: Annotated[int, Meta(ge=0)] = 0
    """Transitions between evaluations during training, on the same greedy episodes every time; the
    best policy is kept next to the last. 0 for none."""
    eval_episodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 64
    """Episodes of an evaluation during training."""
    stop_at: str | None = None
    """End training when an evaluation reaches this, as in score=475, return=200 or wins=0.9."""
    log_seconds: Annotated[float, Meta(gt=0)] = 2.0
    """Seconds between rows of metrics.jsonl, and the longest time that log rows stay unwritten."""
    tensorboard: bool = False
    """Also write TensorBoard files into the run folder (needs the tensorboard extra)."""
    log: tuple[Literal["tensorboard", "wandb", "mlflow", "csv"], ...] = ()
    """Also send metrics, settings, the final evaluation and a game to these; each needs the extra
    of its name. One that fails is reported once, and training continues."""
    tags: Literal["brisk", "sb3", "cleanrl"] = "brisk"
    """Names of the metrics there: ours, or those of Stable-Baselines3 or CleanRL."""
    zoo: bool = True
    """Start from the tuned settings of the zoo for this environment and algorithm, if it has any.
    False in a complete config, which needs no more defaults."""
    curriculum: tuple[Stage, ...] = ()
    """Stages to pass before the task itself; each is a table [[curriculum]] of a file."""
    env_config: Any = None
    """Settings of the environment; defaults if absent."""
    algo_config: Any = None
    """Settings of the algorithm; those of the preset if absent."""

    @property
    def num_threads(self) -> int:
        """Threads as a number."""
        if self.threads != "auto":
            return self.threads
        return usable_cores()

    @property
    def budget_is_steps(self) -> bool:
        """Whether no budget of episodes is given, so that steps limit the run."""
        return self.episodes is None and self.max_episodes is None

    @property
    def budget(self) -> Budget:
        """How long to train."""
        episodes = self.episodes
        if self.max_episodes is not None:
            episodes = self.max_episodes * self.num_envs
        steps = DEFAULT_STEPS if self.steps is None and episodes is None else self.steps
        return Budget(steps, episodes)

    def check(self) -> list[str]:
        """Problems with combinations of settings, one sentence each."""
        return [*self._check_stop_at(), *self._wrong_budget(), *self._wrong_replicas()]

    def _wrong_replicas(self) -> list[str]:
        wrong = []
        if self.num_envs is not None and self.num_envs % self.replicas:
            wrong.append(
                f"num_envs {self.num_envs} is not a multiple of replicas {self.replicas}; each "
                "replica has an equal part of the environments."
            )
        if self.replicas > 1 and self.overlap:
            wrong.append("overlap is for one process; leave it out, or set replicas to 1.")
        if self.replicas > 1 and self.device == "mps":
            wrong.append("replicas are for the devices cpu and cuda, not mps.")
        return wrong

    def _wrong_budget(self) -> list[str]:
        if self.episodes is None or self.max_episodes is None or self.num_envs is None:
            return []
        total = self.max_episodes * self.num_envs
        if self.episodes == total:
            return []
        return [
            f"max_episodes {self.max_episodes} per environment times num_envs {self.num_envs} "
            f"is {total} in total, but episodes is {self.episodes}. "
            "Give one of them.",
        ]

    def _check_stop_at(self) -> list[str]:
        if self.stop_at is None:
            return []
        try:
            StopTarget.parse(self.stop_at)
        except ValueError:
            forms = ", ".join(f"{name}=NUMBER" for name in STOP_MEASURES)
            return [f"stop_at {self.stop_at!r} must be one of {forms}."]
        if not self.eval_every:
            return ["stop_at needs evaluations; set eval_every, the transitions between them."]
        return []
