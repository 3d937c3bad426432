"""Folders of sweeps with known results, written by the code that writes those of real sweeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from briskrl.cluster.settings import ExecutorConfig
from briskrl.cluster.sweep.folder import SweepInfo, sweep_toml
from briskrl.cluster.sweep.ledger import Ledger, PlannedTrial, run_name
from briskrl.cluster.sweep.plan import make_plan, sweep_info, trial_config
from briskrl.cluster.sweep.search import SweepSearch
from briskrl.cluster.sweep.settings import SweepConfig
from briskrl.core.config import to_dict
from briskrl.training.config import TrainConfig
from tests.cluster.run_folders import make_run, put_result

EPISODES = 60
Scores = Sequence[float | None]


class SweepFolder:
    """A sweep whose runs rise to the scores that are given."""

    def __init__(self, path: Path, settings: SweepConfig, *, steps: int = 5000) -> None:
        path.mkdir(parents=True)
        config = TrainConfig(steps=steps)
        self.info: SweepInfo = replace(sweep_info(config, settings, ExecutorConfig()), folder=path)
        (path / "sweep.toml").write_text(sweep_toml(self.info))
        self.plan = make_plan(self.info)
        self.ledger = Ledger(path)
        self.search = SweepSearch(self.info, self.plan.space) if settings.search else None

    def add(
        self,
        trial: int,
        scores: Scores | Callable[[Mapping[str, Any]], Scores],
        *,
        confirms: bool = False,
        first_seed: int = 0,
    ) -> None:
        """Run a trial, whose scores may depend on its values; a run fails if its score is None."""
        values = self._values(trial)
        if callable(scores):
            scores = scores(values)
        seeds = range(first_seed, first_seed + len(scores))
        self.ledger.plan([PlannedTrial(trial, values, list(seeds), confirms)])
        for seed, score in zip(seeds, scores, strict=True):
            self._run(trial, seed, score, values)
        if self.search is not None and not confirms:
            known = [score for score in scores if score is not None]
            value = sum(known) / len(known) if len(known) == len(scores) else None
            self.search.end(trial, value)

    def _values(self, trial: int) -> Mapping[str, Any]:
        planned = [r.values for r in self.ledger.records.values() if r.trial == trial]
        if planned:
            return planned[0]
        if self.search is not None:
            return self.plan.values(self.search.ask(trial))
        return self.plan.trials[trial]

    def _run(self, trial: int, seed: int, score: float | None, values: Mapping[str, Any]) -> None:
        name = run_name(trial, seed)
        self.ledger.add("running", name)
        if score is None:
            self.ledger.add("failed", name, cause="it was killed | <b>twice</b>\nby a signal")
            return
        config = to_dict(trial_config(self.info, values))
        config = {key: value for key, value in config.items() if key not in ("seed", "run_dir")}
        folder = self.info.folder / name
        folder.parent.mkdir(exist_ok=True)
        rising = [score * min(1.0, 2 * index / EPISODES) for index in range(EPISODES)]
        make_run(folder, rising, seed=seed, **config)
        result = put_result(folder, score, mean_score=score - 1, briskrl="0.1.0")
        self.ledger.add("done", name, result=result)
