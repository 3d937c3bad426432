"""Names of metrics in the style of other libraries, so that old dashboards show new runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from briskrl.core.types import JSON
from briskrl.training.storage.line_files import plain

Style = Literal["brisk", "sb3", "cleanrl"]

_SB3 = {
    "mean_return": "rollout/ep_rew_mean",
    "epsilon": "rollout/exploration_rate",
    "loss": "train/loss",
    "policy_loss": "train/policy_gradient_loss",
    "value_loss": "train/value_loss",
    "approx_kl": "train/approx_kl",
    "clip_fraction": "train/clip_fraction",
    "explained_variance": "train/explained_variance",
    "lr": "train/learning_rate",
    "updates": "train/n_updates",
    "steps_per_s": "time/fps",
    "wall_s": "time/time_elapsed",
    "episodes": "time/episodes",
    "eval_mean_return": "eval/mean_reward",
}
_CLEANRL = {
    "mean_return": "charts/episodic_return",
    "epsilon": "charts/epsilon",
    "loss": "losses/td_loss",
    "policy_loss": "losses/policy_loss",
    "value_loss": "losses/value_loss",
    "entropy": "losses/entropy",
    "approx_kl": "losses/approx_kl",
    "clip_fraction": "losses/clipfrac",
    "explained_variance": "losses/explained_variance",
    "lr": "charts/learning_rate",
    "steps_per_s": "charts/SPS",
    "eval_mean_return": "eval/episodic_return",
}
_NAMES: dict[Style, dict[str, str]] = {"brisk": {}, "sb3": _SB3, "cleanrl": _CLEANRL}


def tagged(row: Mapping[str, JSON], style: Style) -> dict[str, float]:
    """The numbers of a row of metrics by tag, without env_steps.

    Names that the other library does not have go below `brisk/`. Nested names are joined by a
    slash. SB3 logs the negative entropy as a loss.
    """
    flat = _flatten(row)
    if style == "brisk":
        return flat
    if style == "sb3" and "entropy" in flat:
        flat["train/entropy_loss"] = -flat.pop("entropy")
    names = _NAMES[style]
    return {
        names.get(key, key if "train/" in key else f"brisk/{key}"): v for key, v in flat.items()
    }


def _flatten(row: Mapping[str, JSON], prefix: str = "") -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in plain(row).items():
        if isinstance(value, dict):
            found |= _flatten(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and f"{prefix}{name}" != "env_steps":
            found[prefix + name] = float(value)
    return found
