"""Settings and presets of the DQN family; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from briskrl.core.aliases import Alias, AliasTable
from briskrl.core.config import accepts_aliases

RATIO_PRESETS = {
    "debug": 0.004,
    "fast": 0.03125,
    "moderate": 0.0625,
    "balanced": 0.125,
    "quality": 0.25,
}
"""Names for `train_steps_ratio`."""


@accepts_aliases
@dataclass(frozen=True, slots=True)
class DQNConfig:
    """DQN and everything Rainbow adds to it, each as an option."""

    ALIASES: ClassVar[AliasTable] = {
        "replay_size": "buffer_size",
        "learning_rate": "lr",
        "target_update_interval": Alias("target_every", also={"target_unit": "steps"}),
        "target_network_frequency": Alias("target_every", also={"target_unit": "steps"}),
        "exploration_initial_eps": "epsilon_start",
        "exploration_final_eps": "epsilon_end",
        "start_e": "epsilon_start",
        "end_e": "epsilon_end",
        "n_steps": "n_step",
        "net_arch": "net",
    }
    NO_EQUIVALENT: ClassVar[Mapping[str, str]] = {
        "gradient_steps": "Set train_steps_ratio to gradient_steps / (train_freq * num_envs).",
        "train_freq": "Set train_steps_ratio to gradient_steps / (train_freq * num_envs).",
        "train_frequency": "Set train_steps_ratio to 1 / train_frequency.",
        "exploration_fraction": "Set epsilon_steps to exploration_fraction * steps.",
        "tau": "The target network is copied every target_every updates, never averaged.",
    }

    train_steps_ratio: float | Literal["debug", "fast", "moderate", "balanced", "quality"] = 0.03125
    """Gradient updates per collected transition: a number above 0, or a preset
    (debug 0.004, fast 0.03125, moderate 0.0625, balanced 0.125, quality 0.25)."""
    batch_size: Annotated[int, Meta(ge=1)] = 64
    """Transitions per gradient update."""
    buffer_size: Annotated[int, Meta(ge=1)] = 131_072
    """Transitions the replay memory holds."""
    learning_starts: Annotated[int, Meta(ge=0)] = 10_000
    """Transitions collected before the first update; they earn no updates."""
    lr: Annotated[float, Meta(gt=0)] = 5e-4
    """Adam's step size."""
    adam_eps: Annotated[float, Meta(gt=0)] = 1e-8
    """Adam's denominator offset."""
    gamma: Annotated[float, Meta(ge=0, le=1)] = 0.97
    """Discount per step."""
    max_grad_norm: Annotated[float, Meta(ge=0)] = 10.0
    """Gradients are scaled down to this norm; 0 leaves them alone."""
    target_every: Annotated[int, Meta(ge=1)] = 500
    """How often the target network is refreshed, counted in `target_unit`."""
    target_unit: Literal["updates", "steps"] = "updates"
    """Whether `target_every` counts gradient updates or env transitions."""
    epsilon_start: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Share of random actions at the first step."""
    epsilon_end: Annotated[float, Meta(ge=0, le=1)] = 0.01
    """Share of random actions once the decay is over."""
    epsilon_steps: Annotated[int, Meta(ge=1)] = 200_000
    """Transitions over which epsilon falls linearly."""
    double: bool = False
    """Choose the target's action with the online network (van Hasselt 2016)."""
    dueling: bool = False
    """Split the head into value and advantage (Wang 2016)."""
    prioritized: bool = False
    """Sample transitions by their last error (Schaul 2016)."""
    priority_alpha: Annotated[float, Meta(ge=0, le=1)] = 0.6
    """How strongly errors shape the sampling; 0 is uniform."""
    priority_beta: Annotated[float, Meta(ge=0, le=1)] = 0.4
    """Importance correction at the first update; it rises linearly to 1."""
    priority_beta_steps: Annotated[int, Meta(ge=1)] = 2_000_000
    """Transitions over which the correction rises to 1."""
    n_step: Annotated[int, Meta(ge=1, le=64)] = 1
    """Rewards summed before bootstrapping."""
    noisy: bool = False
    """Explore by noisy layers (Fortunato 2018); the noisy presets let epsilon fall to 0 early."""
    noisy_sigma: Annotated[float, Meta(gt=0)] = 0.5
    """Initial noise scale of noisy layers."""
    atoms: Annotated[int, Meta(ge=1, le=1001)] = 1
    """Atoms of the return distribution (C51, Bellemare 2017); 1 learns the mean alone."""
    v_min: float = -20.0
    """Lowest return of the distribution's support."""
    v_max: float = 60.0
    """Highest return of the distribution's support."""
    body: Literal["auto", "mlp", "cnn", "fcn"] = "auto"
    """Network body; auto takes fcn (one output per cell, for boards of any size) for planes with an
    action for each cell, cnn for other planes and mlp for vectors."""
    net: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)] = (128, 128)
    """Widths of the hidden layers, for example 128,128."""
    channels: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)] | None = None
    """Channels of the convolutions; unset means 16,32 for a cnn body and six of 16 for an fcn."""
    grad_accumulation: Annotated[int, Meta(ge=1)] = 1
    """Pieces that every batch is computed in, to save memory; the update stays the same."""
    pretrain_from: str | None = None
    """Teacher whose games fill the memory before the first step, for example dpv-iterative."""
    pretrain_transitions: Annotated[int, Meta(ge=1)] = 10_000
    """Transitions that the teacher plays; at most as many as the memory holds."""
    pretrain_steps: Annotated[int, Meta(ge=0)] = 0
    """Gradient updates on the teacher's games before the first step."""
    margin: Annotated[float, Meta(ge=0)] = 0.8
    """By how much the teacher's action should be worth more than any other while pretraining."""
    margin_coef: Annotated[float, Meta(ge=0)] = 1.0
    """Weight of that large-margin loss beside the usual one (DQfD, Hester 2018)."""
    subset_loss: Literal["mean", "each"] = "mean"
    """Where several actions of one set are taken at once, what learns the step's return: the mean
    of their values, or each value for itself."""

    def check(self) -> list[str]:
        """Combinations that cannot work, one sentence each."""
        wrong = check_pretraining(self.pretrain_from, self.pretrain_steps)
        ratio = self.train_steps_ratio
        if isinstance(ratio, float | int) and not ratio > 0:
            wrong.append(f"train_steps_ratio must be above 0, not {ratio}.")
        if self.batch_size > self.buffer_size:
            wrong.append(
                f"batch_size {self.batch_size} is larger than buffer_size {self.buffer_size}; "
                "a batch must fit into the memory."
            )
        if self.learning_starts > self.buffer_size:
            wrong.append(
                f"learning_starts {self.learning_starts} is larger than buffer_size "
                f"{self.buffer_size}; training would never start."
            )
        if self.grad_accumulation > self.batch_size:
            wrong.append(
                f"grad_accumulation {self.grad_accumulation} is larger than batch_size "
                f"{self.batch_size}; a batch cannot be cut into empty pieces."
            )
        if self.atoms > 1 and not self.v_min < self.v_max:
            wrong.append(f"v_min {self.v_min} must be below v_max {self.v_max}.")
        return wrong

    @property
    def ratio(self) -> float:
        """Updates per transition as a number."""
        value = self.train_steps_ratio
        return RATIO_PRESETS[value] if isinstance(value, str) else float(value)


# Noise in the weights is shared by all games, which therefore begin alike; a short random phase
# makes the first memories varied, and after it noise alone explores.
_NOISY: dict[str, object] = {"noisy": True, "epsilon_end": 0.0, "epsilon_steps": 50_000}
DQN_PRESETS: dict[str, dict[str, object]] = {
    "dqn": {},
    "double-dqn": {"double": True},
    "dueling-dqn": {"dueling": True},
    "per-dqn": {"prioritized": True, "double": True},
    "nstep-dqn": {"n_step": 3},
    "noisy-dqn": _NOISY,
    "c51": {"atoms": 51},
    "rainbow": {
        "double": True,
        "dueling": True,
        "prioritized": True,
        "n_step": 3,
        "atoms": 51,
        **_NOISY,
    },
}
"""What each name of the family switches on."""


def check_pretraining(teacher: str | None, steps: int) -> list[str]:
    """Problems of the pretraining settings, one sentence each."""
    if steps and not teacher:
        return ["pretrain_steps needs pretrain_from, the teacher to imitate."]
    return []
