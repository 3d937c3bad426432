"""The process keeps the memory that updates free."""

from __future__ import annotations

import ctypes
import platform

import pytest
from torch.profiler import ProfilerActivity, profile

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.ppo.config import PPO_PRESETS
from briskrl.core.counters import Counters
from briskrl.training.device import TorchSettings
from tests.algos import rollouts, transitions
from tests.algos.ppo.test_fused_gradients import random_minibatch

resource = pytest.importorskip("resource")

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or not hasattr(ctypes.CDLL(None), "mallopt"),
    reason="needs the GNU C library",
)

UPDATES = 40


def faults(call) -> float:
    """Page faults per call, once the first calls are over."""
    arithmetic = TorchSettings(1)
    try:
        for _ in range(UPDATES):
            call()
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        for _ in range(UPDATES):
            call()
        return (resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before) / UPDATES
    finally:
        arithmetic.restore()


@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
@pytest.mark.parametrize("batch_size", [64, 512, 1024])
def test_torch_dqn_updates_cause_no_page_faults(preset, batch_size):
    config = transitions.small(**DQN_PRESETS[preset], net=(128, 128), batch_size=batch_size)
    env = transitions.spec()
    algo = transitions.make(config, env, engine="torch")
    batch = transitions.random_batch(env, 8, batch_size)
    # Eight updates; memory that goes back to the system costs hundreds.
    assert faults(lambda: algo.update(batch, 8, Counters())) < 40


def test_torch_ppo_updates_cause_no_page_faults():
    env = rollouts.spec(mask=True)
    options = {**PPO_PRESETS["ppo"], "net": (64, 64)}
    agent = rollouts.make(rollouts.config(**options), env, engine="torch")
    batch = random_minibatch(agent, env, 4096, seed=3)
    assert faults(lambda: agent.update(batch, Counters())) < 1


def allocated(call) -> int:
    """Bytes that torch allocates in a call, once the first calls are over."""
    for _ in range(3):
        call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        call()
    events = found.profiler.kineto_results.events()
    return sum(max(0, event.nbytes()) for event in events if event.name() == "[memory]")


@pytest.mark.parametrize("options", [{}, {"double": True}, {"dueling": True}, {"atoms": 5}])
def test_allocations_of_torch_dqn_updates_do_not_grow_with_the_network(options):
    env = transitions.spec()
    batch = transitions.random_batch(env, 4, 64)
    found = []
    for width in (32, 256):
        config = transitions.small(**options, net=(width, width), batch_size=64)
        algo = transitions.make(config, env, engine="torch")
        found.append(allocated(lambda algo=algo: algo.update(batch, 4, Counters())))
    assert found[1] == pytest.approx(found[0], rel=1e-3)


def test_allocations_of_torch_ppo_updates_do_not_grow_with_the_network():
    env = rollouts.spec(mask=True)
    found = []
    for width in (32, 256):
        options = {**PPO_PRESETS["ppo"], "net": (width, width)}
        agent = rollouts.make(rollouts.config(**options), env, engine="torch")
        batch = random_minibatch(agent, env, 512, seed=3)
        found.append(allocated(lambda agent=agent, batch=batch: agent.update(batch, Counters())))
    assert found[1] == pytest.approx(found[0], rel=1e-3)
