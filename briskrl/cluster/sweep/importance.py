"""How much each setting of a sweep matters, estimated by Optuna from its finished trials."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from briskrl.cluster.sweep.folder import SweepInfo
from briskrl.cluster.sweep.outcome import TrialSummary
from briskrl.cluster.sweep.search import INSTALL, load_study
from briskrl.core.errors import BriskError
from briskrl.core.types import JSON

if TYPE_CHECKING:
    from optuna import Study

LEAST_TRIALS = 10
"""Finished trials below which the shares would be chance."""
EVALUATOR = "PED-ANOVA (Watanabe et al. 2023), `optuna.importance.PedAnovaImportanceEvaluator`"
LEAST_PART, LEAST_BEST = 0.1, 5
"""Part of the trials that counts as the best ones, Optuna's default, and how many they are at
least: the settings of one or two trials would be chance."""


@dataclass(frozen=True, slots=True)
class Importance:
    """Shares of the differences between trials, by setting; they add up to 1."""

    shares: tuple[tuple[str, float], ...]
    """Largest first."""
    trials: int
    """Finished trials that they are estimated from."""
    part: float
    """Part of them that counts as the best ones."""


def importance_of(info: SweepInfo, trials: Sequence[TrialSummary]) -> Importance | str:
    """The importance of the settings, or a sentence that says why it cannot be estimated."""
    finished = [trial for trial in trials if trial.value(info.metric) is not None]
    names = list(dict.fromkeys(name for trial in finished for name in trial.values))
    varied = [n for n in names if len({json.dumps(t.values.get(n)) for t in finished}) > 1]
    if len(varied) < 2:
        return "It needs two settings that differ between finished trials."
    if len(finished) < LEAST_TRIALS:
        return f"It needs {LEAST_TRIALS} finished trials; there are {len(finished)}."
    if len({trial.value(info.metric) for trial in finished}) == 1:
        return "All finished trials have the same value."
    if find_spec("optuna") is None:
        return f"It needs Optuna. Install it with: {INSTALL}"
    part = max(LEAST_PART, LEAST_BEST / len(finished))
    try:
        study = _grid_study(info, finished, varied) if info.settings.search is None else None
        shares = _evaluate(study or load_study(info.folder), part)
    except (BriskError, RuntimeError, ValueError) as error:
        return f"Optuna cannot estimate it: {error}"
    ordered = sorted(shares.items(), key=lambda share: (-share[1], share[0]))
    return Importance(tuple(ordered), len(finished), part)


def _evaluate(study: Study, part: float) -> dict[str, float]:
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    # Optuna 5 has another name for the same option.
    names = inspect.signature(PedAnovaImportanceEvaluator).parameters
    name = "target_quantile" if "target_quantile" in names else "baseline_quantile"
    options: dict[str, Any] = {name: part}
    with warnings.catch_warnings():
        # The evaluator is marked as one that may change.
        warnings.simplefilter("ignore")
        return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator(**options))


def _grid_study(info: SweepInfo, trials: Sequence[TrialSummary], names: Sequence[str]) -> Study:
    """The trials of a grid as an Optuna study, in which every setting is a choice."""
    import optuna
    from optuna.distributions import CategoricalDistribution

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize" if info.goal == "max" else "minimize")
    choices = {
        name: list(dict.fromkeys(_choice(trial.values, name) for trial in trials)) for name in names
    }
    for trial in trials:
        study.add_trial(
            optuna.trial.create_trial(
                value=trial.value(info.metric),
                params={name: _choice(trial.values, name) for name in names},
                distributions={n: CategoricalDistribution(choices[n]) for n in names},
            )
        )
    return study


def _choice(values: Mapping[str, JSON], name: str) -> str:
    """A value as text, because Optuna takes no lists."""
    return json.dumps(values.get(name))
