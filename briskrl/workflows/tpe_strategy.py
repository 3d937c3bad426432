"""The tree-structured Parzen estimator of Optuna over orders.

An order is written as one number per category, its urgency, from 1 for the first category to 0 for
the last; a suggestion is read as the order of its numbers. Optuna keeps no state here: every choice
replays the results into a new study, so a restored search repeats the same choices.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from briskrl.core.errors import ConfigError
from briskrl.core.rng import derive_seed
from briskrl.orders.space import WorkflowSpace
from briskrl.orders.workflow import Workflow
from briskrl.workflows.choice import Choice
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.feasibility import modeled_observations
from briskrl.workflows.history import History
from briskrl.workflows.sequences import SequenceStrategy, uniform
from briskrl.workflows.start_design import design_size

if TYPE_CHECKING:
    import optuna

ATTEMPTS = 50
"""Suggestions per choice; one that breaks a constraint or was tried is not taken."""


class TpeStrategy:
    """Chooses with Optuna's TPE sampler, each order once.

    Args:
        space: The space.
        config: Settings of the search.
        seed: Of the sampler.

    Raises:
        ConfigError: Optuna is not installed.
    """

    def __init__(self, space: WorkflowSpace, config: SearcherConfig, *, seed: int) -> None:
        if find_spec("optuna") is None:
            raise ConfigError("strategy = optuna needs Optuna: pip install 'briskrl[sweep]'.")
        self._space = space
        self._config = config
        self._seed = seed
        self._fallback: SequenceStrategy = uniform(space, seed)

    def choose(self, history: History) -> Choice | None:
        """The next order; None if there is none."""
        tried, study = history.tried(), self._study(history)
        for _ in range(ATTEMPTS):
            trial = study.ask(self._distributions())
            order = np.argsort([-trial.params[name] for name in self._space.categories])
            flow = Workflow(self._space.categories, tuple(order.tolist()))
            if flow in self._space and flow.id not in tried:
                return Choice(flow, "sequence")
        return self._fallback.choose(history)

    def is_exhausted(self, history: History) -> bool:
        """Whether there is nothing left to choose, whatever the pending results."""
        return self._fallback.is_exhausted(history)

    def _study(self, history: History) -> optuna.Study:
        """A study that holds all results and pending orders."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(
            seed=derive_seed(self._seed, f"tpe {history.asked}") % 2**32,
            n_startup_trials=design_size(self._space),
            multivariate=True,
            constant_liar=True,
        )
        study = optuna.create_study(sampler=sampler, direction="maximize")
        seen = modeled_observations(
            history.observations, self._config.infeasible, self._config.compliance_threshold
        )
        for number, score in zip(seen.ids.tolist(), seen.scores.tolist(), strict=True):
            study.add_trial(self._trial(self._space.from_id(number), score))
        for flow in history.pending:
            study.add_trial(self._trial(flow, None))
        return study

    def _trial(self, flow: Workflow, score: float | None) -> optuna.trial.FrozenTrial:
        import optuna

        state = optuna.trial.TrialState
        last = len(flow.order) - 1
        return optuna.trial.create_trial(
            params={n: 1 - r / last for n, r in zip(flow.categories, flow.ranks, strict=True)},
            distributions=self._distributions(),
            value=score,
            state=state.RUNNING if score is None else state.COMPLETE,
        )

    def _distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        import optuna

        return {
            name: optuna.distributions.FloatDistribution(0.0, 1.0)
            for name in self._space.categories
        }
