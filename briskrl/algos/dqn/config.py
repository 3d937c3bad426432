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
    """DQN (Mnih 2015) and its extensions up to Rainbow (Hessel 2018), each as an option."""

    ALIASES: ClassVar[AliasTable] = {
        "replay_size": "buffer_size",
        "learning_rate": "lr",
        "target_update_interval": Alias("target_every", also={"target_unit": "steps"}),
        "target_network_frequency": Alias("target_every", also={"target_unit": "steps"}),
        "exploration_initial_eps": "epsilon_start",
        "exploration_final_eps": "epsilon_end",
        "n_quantiles": Alias("atoms", also={"distribution": "quantile"}),
        "n_atoms": "atoms",
        "start_e": "epsilon_start",
        "end_e": "epsilon_end",
        "n_steps": "n_step",
        "net_arch": "net",
    }
    # Fields that may differ when a run is resumed.
    RESUME_MAY_CHANGE: ClassVar[frozenset[str]] = frozenset({"lr", "max_grad_norm", "epsilon_end"})
    # What runs were trained with that are older than these settings.
    WHEN_ABSENT: ClassVar[Mapping[str, object]] = {
        "update_every": 1,
        "lr_schedule": "constant",
        "tau": 1.0,
        "layer_norm": False,
        "target_noise": True,
    }
    NO_EQUIVALENT: ClassVar[Mapping[str, str]] = {
        "gradient_steps": "Set train_steps_ratio to gradient_steps / (train_freq * num_envs).",
        "train_freq": (
            "Set update_every to train_freq, and train_steps_ratio to gradient_steps / "
            "(train_freq * num_envs)."
        ),
        "train_frequency": (
            "Set update_every to train_frequency, and train_steps_ratio to 1 / train_frequency."
        ),
    }

    train_steps_ratio: float | Literal["debug", "fast", "moderate", "balanced", "quality"] = 0.0625
    """Gradient updates per collected transition: a number above 0, or a preset (debug 0.004, fast
    0.03125, moderate 0.0625, balanced 0.125, quality 0.25)."""
    update_every: Annotated[int, Meta(ge=1, le=65_536)] = 16
    """Steps that every environment takes between two rounds of updates. The updates due by then are
    done together, so the ratio stays the same; in between, the acting network does not change."""
    batch_size: Annotated[int, Meta(ge=1)] = 128
    """Transitions per gradient update."""
    buffer_size: Annotated[int, Meta(ge=1)] = 100_000
    """Capacity of the replay buffer, in transitions."""
    learning_starts: Annotated[int, Meta(ge=0)] = 1000
    """Transitions collected before the first update; they do not count towards updates."""
    lr: Annotated[float, Meta(gt=0)] = 1e-3
    """Learning rate of Adam."""
    lr_schedule: Literal["constant", "linear"] = "linear"
    """Learning rate schedule: constant, or linear decay to 0 over the updates of the run."""
    adam_eps: Annotated[float, Meta(gt=0)] = 1e-8
    """Epsilon of Adam."""
    gamma: Annotated[float, Meta(ge=0, le=1)] = 0.99
    """Discount factor."""
    max_grad_norm: Annotated[float, Meta(ge=0)] = 10.0
    """Maximum gradient norm; larger gradients are scaled down to it. 0 disables clipping."""
    target_every: Annotated[int, Meta(ge=1)] = 1
    """Interval between copies of the online network into the target network, in `target_unit`."""
    target_unit: Literal["updates", "steps"] = "updates"
    """Whether `target_every` counts gradient updates or environment steps."""
    tau: Annotated[float, Meta(gt=0, le=1)] = 0.01
    """Soft target updates: every `target_every`, the target network moves this share of the way to
    the online network (Lillicrap 2016). 1 copies it."""
    epsilon_start: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Probability of a random action at the first step."""
    epsilon_end: Annotated[float, Meta(ge=0, le=1)] = 0.05
    """Probability of a random action after the decay."""
    epsilon_steps: Annotated[int, Meta(ge=0)] = 0
    """Transitions over which epsilon decays linearly; 0 for a share of the budget."""
    exploration_fraction: Annotated[float, Meta(gt=0, le=1)] = 0.2
    """Share of the run's budget over which epsilon decays, if epsilon_steps is 0."""
    double: bool = False
    """Double DQN: choose the target's action with the online network (van Hasselt 2016)."""
    dueling: bool = False
    """Dueling network: separate value and advantage heads (Wang 2016)."""
    prioritized: bool = False
    """Prioritized experience replay: sample transitions by their last TD error (Schaul 2016)."""
    priority_alpha: Annotated[float, Meta(ge=0, le=1)] = 0.6
    """Exponent of the priorities; 0 samples uniformly."""
    priority_beta: Annotated[float, Meta(ge=0, le=1)] = 0.4
    """Initial exponent of the importance weights; it rises linearly to 1."""
    priority_beta_steps: Annotated[int, Meta(ge=1)] = 2_000_000
    """Transitions over which the exponent of the importance weights rises to 1."""
    n_step: Annotated[int, Meta(ge=1, le=64)] = 3
    """Length of n-step returns."""
    noisy: bool = False
    """Noisy networks: explore by learned noise in the weights (Fortunato 2018), besides epsilon. It
    is the same in all environments, which explore alike."""
    noisy_sigma: Annotated[float, Meta(gt=0)] = 0.5
    """Initial standard deviation of the noise in noisy layers."""
    target_noise: bool = False
    """Whether TD targets have noise, too, as in the paper. Then their maximum over the actions is
    too high by what the noise varies; with false they use the mean weights."""
    atoms: Annotated[int, Meta(ge=1, le=1001)] = 1
    """Atoms or quantiles of the return distribution; 1 learns the expected return only."""
    distribution: Literal["categorical", "quantile"] = "categorical"
    """Form of the return distribution, if there are atoms: probabilities of fixed returns from
    v_min to v_max (C51, Bellemare 2017), or returns of fixed probabilities, which need no range
    (QR-DQN, Dabney 2018)."""
    v_min: float | Literal["auto"] = "auto"
    """Lowest return of the distribution's support; auto finds it from the rewards and lowers it
    where they call for it."""
    v_max: float | Literal["auto"] = "auto"
    """Highest return of the distribution's support; auto finds it from the rewards and raises it
    where they call for it."""
    body: str = "auto"
    """Network body: mlp, cnn, nature (strided convolutions for pictures, Mnih 2015), or fcn (fully
    convolutional, one output per cell, for boards of any size). auto takes nature for pictures of
    36x36 and more, fcn for planes with one action per cell, cnn for other planes and mlp for
    vectors. module:Class is a torch module of your own."""
    net: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)] = (128, 128)
    """Widths of the hidden layers, for example 128,128."""
    channels: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)] | None = None
    """Channels of the convolutions; unset means 16,32 for a cnn, 32,64,64 for nature and six layers
    of 16 for an fcn."""
    normalize_obs: bool = False
    """Normalize observations by their running mean and standard deviation, which are saved with the
    policy. The replay buffer holds them as they are."""
    layer_norm: bool = True
    """Layer normalization before every activation of an mlp or cnn (Ba 2016); other bodies have
    none."""
    grad_accumulation: Annotated[int, Meta(ge=1)] = 1
    """Parts in which the gradient of a batch is computed, to save memory; the update stays the
    same."""
    pretrain_from: str | None = None
    """Teacher whose transitions fill the replay buffer before the first step, for example
    dpv-iterative."""
    pretrain_transitions: Annotated[int, Meta(ge=1)] = 10_000
    """Transitions that the teacher collects; at most the capacity of the replay buffer."""
    pretrain_steps: Annotated[int, Meta(ge=0)] = 0
    """Gradient updates on the teacher's transitions before the first step."""
    margin: Annotated[float, Meta(ge=0)] = 0.8
    """Margin of the large-margin loss: by how much the Q-value of the teacher's action should
    exceed all others (DQfD, Hester 2018)."""
    margin_coef: Annotated[float, Meta(ge=0)] = 1.0
    """Coefficient of the large-margin loss during pretraining."""
    subset_loss: Literal["mean", "each"] = "mean"
    """For actions that are subsets: fit the mean of the chosen Q-values to the TD target, or each
    Q-value."""

    def modules(self) -> tuple[str, ...]:
        """The modules that are imported for these settings."""
        module, colon, _ = self.body.partition(":")
        return (module,) if colon else ()

    def check(self) -> list[str]:
        """Problems with combinations of settings, one sentence each."""
        wrong = check_pretraining(self.pretrain_from, self.pretrain_steps) + check_body(self.body)
        ratio = self.train_steps_ratio
        if isinstance(ratio, float | int) and not ratio > 0:
            wrong.append(f"train_steps_ratio must be above 0, not {ratio}.")
        if self.batch_size > self.buffer_size:
            wrong.append(
                f"batch_size {self.batch_size} is larger than buffer_size {self.buffer_size}; "
                "a batch must fit into the replay buffer."
            )
        if self.learning_starts > self.buffer_size:
            wrong.append(
                f"learning_starts {self.learning_starts} is larger than buffer_size "
                f"{self.buffer_size}; training would never start."
            )
        if self.grad_accumulation > self.batch_size:
            wrong.append(
                f"grad_accumulation {self.grad_accumulation} is larger than batch_size "
                f"{self.batch_size}; a part must not be empty."
            )
        if self.categorical and not _rises(self.v_min, self.v_max):
            wrong.append(f"v_min {self.v_min} must be below v_max {self.v_max}.")
        return wrong

    @property
    def categorical(self) -> bool:
        """Whether the network puts out logits of a categorical distribution (C51)."""
        return self.atoms > 1 and self.distribution == "categorical"

    @property
    def ratio(self) -> float:
        """Updates per transition as a number."""
        value = self.train_steps_ratio
        return RATIO_PRESETS[value] if isinstance(value, str) else float(value)


DQN_PRESETS: dict[str, dict[str, object]] = {
    "dqn": {},
    "double-dqn": {"double": True},
    "dueling-dqn": {"dueling": True},
    "per-dqn": {"prioritized": True, "double": True},
    "nstep-dqn": {"n_step": 3},
    "noisy-dqn": {"noisy": True},
    "c51": {"atoms": 51},
    "qr-dqn": {"atoms": 50, "distribution": "quantile"},
    "rainbow": {
        "double": True,
        "dueling": True,
        "prioritized": True,
        "n_step": 3,
        "atoms": 51,
        "noisy": True,
    },
}
"""Settings of each preset."""


def _rises(low: float | str, high: float | str) -> bool:
    """Whether two ends of a range are in order, as far as they are numbers."""
    return isinstance(low, str) or isinstance(high, str) or low < high


def check_pretraining(teacher: str | None, steps: int) -> list[str]:
    """Problems of the pretraining settings, one sentence each."""
    if steps and not teacher:
        return ["pretrain_steps needs pretrain_from, the teacher to imitate."]
    return []


def check_body(body: str) -> list[str]:
    """A sentence if there is no such body."""
    known = ("auto", "mlp", "cnn", "nature", "fcn")
    module, colon, name = body.partition(":")
    is_address = colon and all(part.isidentifier() for part in (*module.split("."), name))
    if body in known or is_address:
        return []
    return [f"body = {body!r} must be one of {', '.join(known)}, or module:Class."]
