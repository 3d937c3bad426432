"""Overlapped updates: batches are prefetched in parallel, without any effect on the results."""

from __future__ import annotations

import gc
from contextlib import closing

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

from briskrl.algos.dqn.kernels.td_update import PRECOMPUTED
from briskrl.algos.dqn.value_range import START
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up
from tests.training.runs import small_config

ITERATIONS = 120


def parameters(trainer):
    return {name: array.copy() for name, array in trainer.algo.state()["model"].arrays.items()}


ADAPTIVE = {
    "normalize_obs": True,
    "lr_schedule": "linear",
    "update_every": 3,
    "v_min": "auto",
    "v_max": "auto",
}
"""Statistics of observations and the range of returns change during such a run."""


def trained(tmp_path, preset, after_each, target_every=7, adaptive=False, **options):
    """Parameters after some iterations, with something done after each of them."""
    algo = {"target_every": target_every, **(ADAPTIVE if adaptive else {})}
    config = small_config(tmp_path, preset, overlap=True, algo_config=algo, **options)
    with closing(Trainer(complete(config))) as trainer:
        trainer.start()
        for _ in range(ITERATIONS):
            trainer.iterate()
            after_each(trainer)
        assert trainer.counters.updates > 100
        return parameters(trainer)


def discard(trainer):
    trainer.overlap.discard_prefetched()


def discard_sometimes(trainer):
    if trainer.counters.iterations % 3 == 0:
        trainer.overlap.discard_prefetched()


def back_off(trainer):
    trainer.overlap._backoff._left = 2


@pytest.mark.parametrize("preset", ["dqn", "double-dqn", "per-dqn", "rainbow"])
@pytest.mark.parametrize("after_each", [discard, discard_sometimes, back_off])
def test_prefetched_batches_do_not_change_the_parameters(tmp_path, preset, after_each):
    plain = trained(tmp_path, preset, lambda trainer: None)
    other = trained(tmp_path, preset, after_each)
    assert plain.keys() == other.keys()
    for name, array in plain.items():
        assert np.array_equal(array, other[name]), name


@pytest.mark.parametrize("preset", ["c51", "rainbow"])
@pytest.mark.parametrize("after_each", [discard_sometimes, back_off])
def test_adaptive_settings_do_not_depend_on_threads(tmp_path, preset, after_each):
    plain, other = (
        trained(tmp_path, preset, after, target_every=50, adaptive=True)
        for after in (lambda trainer: None, after_each)
    )
    assert plain["obs.count"] > 1000
    assert tuple(plain["range.ends"]) != START
    for name, array in plain.items():
        assert np.array_equal(array, other[name]), name


def test_batches_are_sampled_and_targets_precomputed_before_their_updates_begin(tmp_path):
    precomputed, sampled = [], []

    def look(trainer):
        engine = trainer.algo.engines.now
        rules = np.array([plan.context.params for plan in engine._plans.values()])
        precomputed.append(rules[:, PRECOMPUTED].max() if len(rules) else 0)
        sampled.append(trainer.overlap._rng_before_prefetch is not None)
        # After a back-off from a busy core nothing is prefetched.
        trainer.overlap._backoff._left = 0

    trained(tmp_path, "dqn", look, target_every=50, num_envs=64)
    # Some targets are not, because updates under way may refresh the target network.
    assert max(precomputed) > 1
    assert np.count_nonzero(precomputed) > ITERATIONS / 2
    assert np.count_nonzero(sampled) > np.count_nonzero(precomputed)


def versions():
    """Number of compiled specializations of each kernel."""
    found = (kernel for kernel in gc.get_objects() if type(kernel) is CPUDispatcher)
    return {id(kernel): len(kernel.signatures) for kernel in found if kernel.signatures}


@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_nothing_is_compiled_after_the_warm_up(tmp_path, preset):
    config = small_config(tmp_path, preset, overlap=True)
    with closing(Trainer(complete(config))) as trainer:
        warm_up(trainer)
        before = versions()
        while trainer.counters.updates < 50:
            trainer.iterate()
    assert versions() == before


@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_a_warm_up_does_not_change_the_parameters(tmp_path, preset):
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
