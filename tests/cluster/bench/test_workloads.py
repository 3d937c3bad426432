"""The runs of `brisk bench cluster` are what its help says."""

from __future__ import annotations

import pytest

from briskrl.cluster.bench.workloads import SLEEP_S, compute_run, delay_run, tiny_run


def test_a_sleeping_run_sleeps_for_the_given_time():
    config = delay_run(2.0)
    assert config.steps == 400
    assert config.env_config.env_args == {"sleep_s": SLEEP_S}
    assert config.env_config.backend == "sync"


@pytest.mark.parametrize("config", [delay_run(0.001), compute_run("cage2", 0.5), tiny_run()])
def test_every_run_trains_ppo_in_one_thread_and_does_not_measure_engines(config):
    assert config.steps >= 1
    assert (config.algo, config.threads, config.engine) == ("ppo", 1, "fused")


@pytest.mark.parametrize("config", [delay_run(1.0), compute_run("cartpole", 1e5)])
def test_environments_and_minibatches_can_be_divided_among_four_replicas(config):
    assert config.num_envs % 4 == 0
    assert config.algo_config.minibatch_size % 4 == 0
