"""Tuning from the search to the final comparison."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from briskrl.core.errors import ConfigError
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.tuning import run as module
from briskrl.tuning.cache import load, target_key
from briskrl.tuning.config import TuneConfig
from briskrl.tuning.run import Outcome, Tuning, tune
from briskrl.tuning.search import Progress
from briskrl.tuning.space import Point, Space
from briskrl.tuning.trials import TrialError

CONFIG = complete(TrainConfig(num_envs=8, engine="torch"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Model:
    """A simulated machine: noisy rates as a function of the point, with a simulated clock."""

    compiling_s = 0.0

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int = 0, **gains: float) -> None:
        self._rng = np.random.default_rng(seed)
        self._gains = gains
        self.slices: list[Point] = []
        monkeypatch.setattr(module, "perf_counter", lambda: 0.05 * len(self.slices))

    def rate(self, point: Point, floor: float = 0.0) -> float:
        self.slices.append(point)
        gain = np.prod([self._gains.get(str(value), 1.0) for _, value in point.values])
        return 1000.0 * float(gain) * exp(0.1 * self._rng.standard_normal())


def outcome(model: Any, config: TrainConfig = CONFIG, **options: Any) -> Outcome:
    stop = options.pop("stop", lambda: False)
    progress = options.pop("progress", lambda state: None)
    settings = TuneConfig(**({"budget": 12.0} | options))
    space = Space(config, settings, cores=2, fused=True)
    return Tuning(space, settings, model, stop, progress).run()


def test_a_proven_winner_replaces_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcome(Model(monkeypatch, fused=3.0))
    assert found.is_proven
    assert found.gain is not None
    assert found.gain.low > 2
    assert found.config == replace(CONFIG, engine="fused", **without_engine(found.best))
    assert found.best["engine"] == "fused"


def without_engine(point: Point) -> dict[str, Any]:
    return {axis: value for axis, value in point.values if axis != "engine"}


@pytest.mark.parametrize("seed", range(20))
def test_the_start_is_kept_if_nothing_is_faster(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcome(Model(monkeypatch, seed, fused=0.5), seed_config(seed))
    if found.is_proven:
        # One interval in forty lies above 1 by chance; then the claimed gain must be small.
        assert found.gain is not None
        assert found.gain.low < 1.02
    else:
        assert found.config == seed_config(seed)


def seed_config(seed: int) -> TrainConfig:
    return replace(CONFIG, seed=seed)


def test_a_point_that_is_slower_in_the_final_comparison_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Model(monkeypatch, fused=3.0)
    seen: list[Progress] = []

    class Tiring(Model):
        def rate(self, point: Point, floor: float = 0.0) -> float:
            tired = seen and seen[-1].stage == "proof" and point["engine"] == "fused"
            return super().rate(point) / (4.0 if tired else 1.0)

    model.__class__ = Tiring
    found = outcome(model, progress=seen.append)
    assert found.best["engine"] == "fused"
    assert not found.is_proven
    assert found.gain is not None
    assert found.gain.is_slower
    assert found.config is CONFIG
    assert load(target_key(CONFIG, "wall")) is None


def test_the_next_point_is_compared_if_the_best_one_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Progress] = []

    class Breaking(Model):
        broken: Point | None = None

        def rate(self, point: Point, floor: float = 0.0) -> float:
            proof = bool(seen) and seen[-1].stage == "proof"
            if proof and point["engine"] == "fused" and self.broken in (None, point):
                self.broken = point
                raise TrialError("It broke at last.")
            return super().rate(point)

    model = Breaking(monkeypatch, fused=3.0)
    found = outcome(model, progress=seen.append)
    assert model.broken is not None
    assert found.findings.skipped[model.broken] == "It broke at last."
    assert found.best != model.broken
    assert found.is_proven


def test_cached_results_are_compared_again_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = outcome(Model(monkeypatch, fused=3.0))
    assert first.remembered is None
    model = Model(monkeypatch, 1, fused=3.0)
    again = outcome(model)
    assert again.remembered is not None
    assert again.best == first.best
    assert again.is_proven
    assert set(model.slices) == {first.start, first.best}
    # Another start of the same task uses the cache as well.
    other = outcome(Model(monkeypatch, 2, fused=3.0), replace(CONFIG, num_envs=16))
    assert other.remembered is not None
    assert other.best == first.best


def test_a_cached_result_that_is_not_faster_any_more_leads_to_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert outcome(Model(monkeypatch, fused=3.0, threads=2.0)).is_proven
    model = Model(monkeypatch, 1, fused=0.4)
    again = outcome(model)
    assert again.remembered is None
    assert len(set(model.slices)) > 10
    assert not again.is_proven or again.best["engine"] == "torch"


def test_a_fresh_search_ignores_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome(Model(monkeypatch, fused=3.0))
    again = outcome(Model(monkeypatch, 1, fused=3.0), fresh=True)
    assert again.remembered is None
    assert len(again.findings.gains) > 10


def test_a_first_interrupt_leads_to_a_short_final_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Model(monkeypatch, fused=3.0)
    found = outcome(model, budget=120.0, stop=lambda: len(model.slices) > 30)
    assert found.interrupted
    assert found.is_proven
    assert found.gain is not None
    assert found.gain.pairs <= 60
    assert len(model.slices) < 31 + 2 * 60


def test_an_interrupt_ends_the_final_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Progress] = []
    found = outcome(
        Model(monkeypatch, fused=1.01),
        progress=seen.append,
        stop=lambda: sum(each.stage == "proof" for each in seen) > 2,
    )
    assert found.interrupted
    assert not found.is_proven
    assert found.config is CONFIG


def test_a_second_interrupt_gives_the_best_so_far_unproven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Impatient(Model):
        def rate(self, point: Point, floor: float = 0.0) -> float:
            if len(self.slices) == 60:
                raise KeyboardInterrupt
            return super().rate(point)

    found = outcome(Impatient(monkeypatch, fused=3.0))
    assert found.interrupted
    assert not found.is_proven
    assert found.gain is None
    assert found.best["engine"] == "fused"
    assert found.config is CONFIG


def test_a_start_that_cannot_be_trained_raises_its_own_error() -> None:
    config = complete(TrainConfig(overlap=True, engine="torch", num_envs=8))
    with pytest.raises(ConfigError, match="overlap needs the fused engine"):
        tune(config, TuneConfig(budget=5.0))
    given = complete(TrainConfig(env="given"))
    with pytest.raises(ConfigError, match="cannot be tuned"):
        tune(given, TuneConfig(budget=5.0))


def test_real_training_is_tuned_without_changes_to_the_algorithm() -> None:
    poor = complete(
        TrainConfig(num_envs=8, engine="torch", algo_config={"net": [16], "batch_size": 16})
    )
    # Few points and a large difference: a busy machine must not decide this.
    settings = TuneConfig(budget=5.0, keep=("threads", "overlap", "num_envs"))
    found = tune(poor, settings)
    assert found.is_proven
    assert found.start_rate is not None
    assert found.best_rate is not None
    assert found.best_rate > found.start_rate > 0
    assert found.best["engine"] == "fused"
    assert found.config.algo_config == poor.algo_config
    assert found.findings.skipped == {}
    remembered = load(target_key(poor, "wall"))
    assert remembered is not None
    assert remembered.values == found.best.as_dict()
