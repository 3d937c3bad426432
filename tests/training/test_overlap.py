"""Updates are prepared beside those under way, and come out as if they had not been."""

from __future__ import annotations

import gc
from contextlib import closing

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

from briskrl.algos.dqn.kernels.td_update import PRECOMPUTED, PREFETCH_ID
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up
from tests.training.runs import small_config

ITERATIONS = 120


def parameters(trainer):
    return {name: array.copy() for name, array in trainer.algo.state()["model"].arrays.items()}


def trained(tmp_path, preset, after_each, target_every=7, **options):
    """Parameters after some iterations, with something done after each of them."""
    algo = {"target_every": target_every}
    config = small_config(tmp_path, preset, overlap=True, algo_config=algo, **options)
    with closing(Trainer(complete(config))) as trainer:
        trainer.start()
        for _ in range(ITERATIONS):
            trainer.iterate()
            after_each(trainer)
        assert trainer.counters.updates > 100
        return parameters(trainer)


def forget(trainer):
    trainer.overlap.discard_prefetched()


def forget_now_and_then(trainer):
    if trainer.counters.iterations % 3 == 0:
        trainer.overlap.discard_prefetched()


def stay_alone(trainer):
    trainer.overlap._backoff._left = 2


@pytest.mark.parametrize("preset", ["dqn", "double-dqn", "per-dqn", "rainbow"])
@pytest.mark.parametrize("after_each", [forget, forget_now_and_then, stay_alone])
def test_what_is_prepared_makes_no_difference_to_the_bits(tmp_path, preset, after_each):
    plain = trained(tmp_path, preset, lambda trainer: None)
    other = trained(tmp_path, preset, after_each)
    assert plain.keys() == other.keys()
    for name, array in plain.items():
        assert np.array_equal(array, other[name]), name


def test_batches_are_drawn_and_the_target_asked_before_their_updates_begin(tmp_path):
    foretold, announced = [], []

    def look(trainer):
        engine = trainer.algo.engines.now
        rules = np.array([plan.context.params for plan in engine._plans.values()])
        foretold.append(rules[:, PRECOMPUTED].max() if len(rules) else 0)
        announced.append(rules[:, PREFETCH_ID].max() if len(rules) else 0)
        # Whoever has retreated from a busy core prepares nothing.
        trainer.overlap._backoff._left = 0

    trained(tmp_path, "dqn", look, target_every=50, num_envs=64)
    # Some are not: updates under way may be about to refresh the target.
    assert max(foretold) > 1
    assert np.count_nonzero(foretold) > ITERATIONS / 2
    assert np.count_nonzero(announced) > np.count_nonzero(foretold)


def versions():
    """How many versions of each kernel have been compiled or read from the cache."""
    found = (kernel for kernel in gc.get_objects() if type(kernel) is CPUDispatcher)
    return {id(kernel): len(kernel.signatures) for kernel in found if kernel.signatures}


@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_a_warm_up_leaves_nothing_to_compile(tmp_path, preset):
    config = small_config(tmp_path, preset, overlap=True)
    with closing(Trainer(complete(config))) as trainer:
        warm_up(trainer)
        before = versions()
        while trainer.counters.updates < 50:
            trainer.iterate()
    assert versions() == before


@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_a_warm_up_makes_no_difference_to_the_bits(tmp_path, preset):
    found = []
    for warm in (False, True):
        config = small_config(tmp_path, preset, overlap=True)
        with closing(Trainer(complete(config))) as trainer:
            if warm:
                warm_up(trainer)
            else:
                trainer.start()
            while trainer.counters.updates < 50:
                trainer.iterate()
            found.append(parameters(trainer))
    for name, array in found[0].items():
        assert np.array_equal(array, found[1][name]), name
