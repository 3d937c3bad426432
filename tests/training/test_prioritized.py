"""Prioritized updates in one compiled call are bit-identical to single updates."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.core.errors import DivergedError
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer

ITERATIONS = 30


def trainer(algo="rainbow", engine="fused", **options) -> Trainer:
    """A trainer that does several updates per iteration."""
    config = TrainConfig(env="snake", algo=algo, engine=engine, num_envs=64, seed=3, **options)
    config = complete(config)
    found = Trainer(config)
    found.start()
    return found


def one_by_one(found: Trainer) -> None:
    """Disable the compiled loop."""
    found.learner._learn_compiled = lambda updates: False


def play(found: Trainer) -> dict[str, np.ndarray]:
    """Everything that the next iterations depend on."""
    while found.counters.updates < ITERATIONS:
        found.iterate()
    states = found.state().states
    found.close()
    return {
        f"{part}.{name}": array
        for part, state in states.items()
        for name, array in state.arrays.items()
    } | {"largest": np.array(states["memory"].scalars["largest"])}


@pytest.mark.parametrize("algo", ["per-dqn", "rainbow"])
def test_compiled_prioritized_updates_do_not_change_the_results(algo):
    together, apart = trainer(algo), trainer(algo)
    one_by_one(apart)
    calls = []
    compiled = together.algo.compiled_updates
    update = compiled.update_prioritized
    compiled.update_prioritized = lambda *args: (calls.append(args[2]), update(*args))
    first, second = play(together), play(apart)
    assert max(calls) > 1
    assert first.keys() == second.keys()
    assert (first["memory.priorities"] != second["largest"]).any()
    for name, array in first.items():
        assert np.array_equal(array, second[name], equal_nan=True), name


def test_torch_samples_one_batch_at_a_time():
    found = trainer("per-dqn", "torch")
    assert found.algo.compiled_updates is None
    assert len(found.learner.batch.index) == 1
    play(found)


def test_divergence_in_compiled_updates_raises():
    found = trainer("per-dqn")
    while found.counters.updates == 0:
        found.iterate()
    found.algo.model.online_flat.values.fill_(np.nan)
    found.algo.engines.now.refresh()
    with pytest.raises(DivergedError):
        found.learner.learn(4)
    found.close()
