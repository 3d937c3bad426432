"""The automatic support of C51: what rewards call for, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from briskrl.algos.dqn.policy import QPolicy
from briskrl.algos.dqn.value_range import MARGIN, START, ValueRange, first_support, is_automatic
from briskrl.core.counters import Counters
from briskrl.core.errors import InvalidStateError
from tests.algos.transitions import make, move_target, random_batch, small, spec
from tests.fused.precision import ROUNDING, distance, value_gradient

AUTO = {"atoms": 11, "v_min": "auto", "v_max": "auto", "gamma": 0.9}


def batch_of(*rewards):
    batch = random_batch(spec(), 1, len(rewards))
    batch.reward[0] = rewards
    return batch


def started(**options):
    config = small(**AUTO | options)
    support = first_support(config, torch.device("cpu"))
    return ValueRange(config, support), support


def ends(support):
    return pytest.approx((float(support[0]), float(support[-1])), rel=1e-6)


def test_a_cost_per_step_gives_the_return_of_episodes_that_never_end():
    found, support = started()
    assert tuple(support[[0, -1]].tolist()) == START
    assert found.see(batch_of(-1.0, -1.0, -1.0, -1.0), 1)
    assert ends(support) == (-1 - 1 / (1 - 0.9), 0.0)
    assert torch.allclose(support.diff(), support.diff()[0].expand(10))


def test_n_step_rewards_are_sums_that_come_every_n_steps():
    found, support = started(n_step=3)
    reward = 1 + 0.9 + 0.81
    found.see(batch_of(reward, reward), 1)
    assert (0.0, reward + reward / (1 - 0.9**3)) == ends(support)


def test_rare_large_rewards_count_once():
    found, support = started()
    found.see(batch_of(100.0, *[0.0] * 99), 1)
    assert ends(support) == (0.0, 100 + 1 / (1 - 0.9))


def test_the_range_grows_by_a_margin_and_never_shrinks():
    found, support = started()
    found.see(batch_of(1.0, 1.0), 1)
    assert not found.see(batch_of(0.5, 0.5), 1)
    assert ends(support) == (0.0, 11.0)
    assert found.see(batch_of(50.0, 1.0), 1)
    # The mean moves only a little with two rewards.
    share = 1 - np.exp(-2 / 10_000)
    low, high = 0.0, 50 + (1 + (0.5 - 1) * share + 0) / (1 - 0.9)
    assert float(support[-1]) == pytest.approx(high + MARGIN * (high - low), rel=0.01)
    before = support.clone()
    for _ in range(100):
        assert not found.see(batch_of(0.0, 0.0), 1)
    assert torch.equal(support, before)


def test_without_rewards_the_range_stays_as_it_was():
    found, support = started()
    assert not found.see(batch_of(0.0, 0.0), 1)
    assert not found.see(batch_of(np.nan, 1.0), 1)
    assert tuple(support[[0, -1]].tolist()) == START


def test_an_end_that_is_a_number_stays():
    found, support = started(v_max=3.0)
    found.see(batch_of(-2.0, 5.0), 1)
    assert float(support[-1]) == 3.0
    assert float(support[0]) == pytest.approx(-2 - 1 / (1 - 0.9))
    assert is_automatic(small(**AUTO | {"v_max": 3.0}))
    assert not is_automatic(small(atoms=11))


class Twins:
    """A group of two replicas, the other of which has seen given rewards."""

    rank, size = 0, 2

    def __init__(self, other):
        self.other = other

    def gather(self, values):
        return np.stack([values, self.other])


def test_replicas_widen_the_range_together():
    config = small(**AUTO)
    support = first_support(config, torch.device("cpu"))
    found = ValueRange(config, support, Twins(np.array([-3.0, 1.0, -1.0, 0.0])))
    assert not found.see(batch_of(2.0, 2.0), 1)
    assert tuple(support[[0, -1]].tolist()) == START
    assert found.widen()
    assert ends(support) == (-3 - 0.5 / (1 - 0.9), 2 + 1 / (1 - 0.9))


@pytest.mark.parametrize("options", [{}, {"prioritized": True, "double": True}])
def test_fused_gradients_follow_the_range(options):
    algo = make(small(**AUTO, **options, max_grad_norm=0.0), engine="fused")
    move_target(algo)
    widths = []
    for number in range(4):
        batch = random_batch(spec(), 1, 40, seed=number)
        batch.reward *= 4**number
        expected, _ = value_gradient(algo, batch)
        algo.update(batch, 1, Counters())
        assert distance(algo.model.online_flat.gradients, expected) < ROUNDING["float32"]
        widths.append(float(algo.model.support[-1] - algo.model.support[0]))
    assert widths == sorted(set(widths))


def test_actions_do_not_depend_on_the_range(engine):
    algo = make(small(**AUTO), engine=engine)
    obs = 5 * np.random.default_rng(0).standard_normal((64, 5)).astype(np.float32)
    before, after = np.zeros(64, np.int64), np.zeros(64, np.int64)
    algo.engines.now.act(obs, None, 0.0, before)
    algo.model.support.copy_(torch.linspace(-300, 100, 11))
    algo.engines.now.act(obs, None, 0.0, after)
    assert len(set(before)) > 1
    assert np.array_equal(before, after)


def test_the_range_is_saved_with_the_run_and_with_its_policy(engine):
    algo = make(small(**AUTO), engine=engine)
    batch = random_batch(spec(), 1)
    algo.update(batch, 1, Counters())
    state = algo.state()
    other = make(small(**AUTO), engine=engine, seed=1)
    other.load_state(state)
    assert torch.equal(other.model.support, algo.model.support)
    policy = QPolicy(algo.config, spec().obs, spec().action, state["model"].arrays)
    assert torch.equal(policy.support, algo.model.support)
    for algo_now in (algo, other):
        move_target(algo_now)
        algo_now.update(batch, 1, Counters())
    assert torch.equal(algo.model.online_flat.values, other.model.online_flat.values)
    state["model"].arrays["range.ends"] = np.array([1.0, 1.0])
    with pytest.raises(InvalidStateError, match=r"range.ends must rise"):
        other.load_state(state)
