"""`update_every`: updates come in rounds, between which the acting policy does not change."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from briskrl.core.types import EpisodeStats
from briskrl.training.loop import resume, train
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from tests.training.runs import fused_config, policy_hash, small_config

EVERY = 5
ALGO = {"update_every": EVERY, "train_steps_ratio": 0.1}


def parameters(trainer):
    arrays = trainer.algo.state()["model"].arrays
    return np.concatenate([arrays[name].ravel() for name in sorted(arrays)])


@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
@pytest.mark.parametrize("ratio", [0.1, 0.013])
def test_the_updates_of_a_round_are_done_together_and_the_ratio_is_exact(tmp_path, preset, ratio):
    config = small_config(
        tmp_path, preset, algo_config={**ALGO, "train_steps_ratio": ratio}, num_envs=6
    )
    with closing(Trainer(complete(config))) as trainer:
        trainer.start()
        collect, seen = trainer.collector.collect, []

        def watched():
            seen.append(trainer.counters.updates)
            return collect()

        trainer.collector.collect = watched
        for _ in range(40):
            trainer.iterate()
            steps = trainer.counters.env_steps
            assert steps % (6 * EVERY) == 0
            assert trainer.counters.updates == int(max(0, steps - 200) * ratio + 1e-9)
    assert len(seen) == 40 * EVERY
    rounds = np.array(seen).reshape(40, EVERY)
    assert (rounds == rounds[:, :1]).all()
    assert rounds.max() > 5


@pytest.mark.parametrize("preset", ["dqn", "double-dqn", "per-dqn"])
def test_overlapped_updates_of_a_round_leave_the_acting_network_alone(tmp_path, preset):
    """Actions of a whole round follow the network before the updates that run beside it."""
    options = {"num_envs": 16, "overlap": True, "algo_config": {**ALGO, "epsilon_steps": 1}}
    config = small_config(tmp_path, preset, **options)
    with closing(Trainer(complete(config))) as trainer:
        trainer.start()
        frozen = []
        collect = trainer.collector.collect

        def watched():
            actor = trainer.algo.engines.now._actor
            frozen.append(actor.value.net.packed.copy())
            return collect()

        trainer.collector.collect = watched
        for _ in range(30):
            trainer.iterate()
    changes = [
        k % EVERY for k in range(1, len(frozen)) if not np.array_equal(frozen[k], frozen[k - 1])
    ]
    assert set(changes) == {0}
    assert len(changes) > 10


@pytest.mark.parametrize(
    ("preset", "options"),
    [("dqn", {}), ("rainbow", {}), ("dqn", {"overlap": True}), ("per-dqn", {"overlap": True})],
)
def test_a_run_resumed_between_rounds_ends_like_an_uninterrupted_one(tmp_path, preset, options):
    algo = {**ALGO, "train_steps_ratio": 0.07}
    config = {"algo_config": algo, **options}
    train(fused_config(tmp_path / "whole", preset, steps=4000, **config))
    train(fused_config(tmp_path / "parts", preset, steps=900, **config))
    for steps in (2100, 4000):
        resume(tmp_path / "parts", steps=steps)
    assert policy_hash(tmp_path / "parts") == policy_hash(tmp_path / "whole")


@pytest.mark.parametrize(
    ("preset", "options"), [("c51", {}), ("rainbow", {}), ("c51", {"overlap": True})]
)
def test_a_resumed_run_continues_statistics_range_and_learning_rate(tmp_path, preset, options):
    algo = {**ALGO, "normalize_obs": True, "lr_schedule": "linear", "v_min": "auto"}
    config = {"algo_config": algo, "env": "cartpole", "steps": 4000, **options}
    train(fused_config(tmp_path / "whole", preset, **config))

    def stop(recorder):
        if recorder.trainer.counters.env_steps in (880, 2080):
            recorder.stop()

    train(fused_config(tmp_path / "parts", preset, **config), hooks=[stop])
    for _ in range(2):
        resume(tmp_path / "parts", hooks=[stop])
    assert policy_hash(tmp_path / "parts") == policy_hash(tmp_path / "whole")


def test_more_updates_than_a_usual_sample_are_prefetched_beside_a_round(tmp_path):
    algo = {"update_every": 16, "train_steps_ratio": 0.25}
    config = small_config(tmp_path, overlap=True, algo_config=algo)
    with closing(Trainer(complete(config))) as trainer:
        trainer.start()
        prefetched = 0
        for _ in range(12):
            trainer.iterate()
            prefetched += trainer.overlap._rng_before_prefetch is not None
            assert trainer.overlap.pending in (0, 14, 64)
    assert prefetched > 5


def test_async_environments_update_in_rounds(tmp_path):
    options = {"env": "gym:CartPole-v1", "env_config": {"backend": "async"}, "num_envs": 4}
    config = small_config(tmp_path, algo_config=ALGO, **options)
    with closing(Trainer(complete(config))) as trainer:
        trainer.start()
        for _ in range(20):
            before = trainer.counters.updates
            trainer.iterate()
            steps = trainer.counters.env_steps
            assert trainer.last_collected >= 4 * EVERY
            assert trainer.counters.updates == int(max(0, steps - 200) * 0.1 + 1e-9)
        assert trainer.counters.updates > before
    assert trainer.counters.updates > 10


def stats(*returns):
    columns = [np.array(returns, np.float32) for _ in range(6)]
    return EpisodeStats(*columns)


def test_episodes_of_several_steps_are_joined_in_order():
    joined = EpisodeStats.joined([stats(), stats(1, 2), stats(), stats(3)])
    assert joined.returns.tolist() == [1, 2, 3]
    assert EpisodeStats.joined([stats(), stats()]).count == 0
    only = stats(4)
    assert EpisodeStats.joined([stats(), only]) is only
