"""`load_policy(path).act` takes any sensible observation, and names what is wrong with others."""

from __future__ import annotations

import numpy as np
import pytest

import briskrl
from briskrl.algos.ppo.policy import StochasticPolicy
from briskrl.core.errors import BriskError, RunFolderError
from briskrl.export.acting import ActingPolicy, NetworkDecisions, ObservationError
from briskrl.export.selection import ActionSelector
from briskrl.export.trained_network import network_of
from briskrl.training.loop import train
from tests.export.policies import random_observations, random_policy
from tests.training.runs import small_config


def acting(name, seed=0):
    trained = random_policy(name)
    network = network_of(trained.agent.policy)
    selector = ActionSelector(trained.action, network.kind)
    decisions = NetworkDecisions(network.score, selector)
    policy = ActingPolicy(
        decisions, trained.obs, trained.action, env="cartpole", env_config={}, seed=seed
    )
    return trained, policy


def test_one_observation_gives_one_action_and_many_give_many():
    trained, policy = acting("ppo")
    obs = random_observations(trained, 5, masked=False).obs
    many = policy.act(obs)
    np.testing.assert_array_equal(many, trained.agent.policy.act(obs, None))
    assert [policy.act(row) for row in obs] == many.tolist()
    assert type(policy.act(obs[0])) is int
    assert policy.act(obs[:1]).shape == (1,)
    _, several = acting("ppo several")
    assert several.act(obs[0]).shape == (3,)
    assert several.act(obs).shape == (5, 3)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "int8", "uint8", "bool", "list"])
def test_every_float_and_int_type_is_taken(dtype):
    _, policy = acting("ppo")
    whole = np.array([[0, 1, 0, 1, 1, 0, 1], [1, 1, 0, 0, 0, 0, 1]])
    expected = policy.act(whole.astype(np.float32))
    given = whole.tolist() if dtype == "list" else whole.astype(dtype)
    np.testing.assert_array_equal(policy.act(given), expected)


def test_bytes_are_scaled_whatever_their_type():
    trained, policy = acting("ppo cnn")
    obs = random_observations(trained, 20, masked=False).obs
    expected = trained.agent.policy.act(obs, None)
    np.testing.assert_array_equal(policy.act(obs.astype(np.float64)), expected)
    np.testing.assert_array_equal(policy.act(obs.astype(np.int32)), expected)


@pytest.mark.parametrize(
    ("obs", "problem"),
    [
        (np.zeros(6), r"shape \(7,\).*\(6,\)"),
        (np.zeros((2, 3, 7)), r"\(2, 3, 7\)"),
        (3.0, r"\(\)"),
        (np.full(7, np.nan), "not finite"),
        (np.array([np.inf, -np.inf, 0, 0, 0, 0, 0]), "not finite"),
        (["a"] * 7, "must be numbers"),
        (np.array([[1, 2], [3]], dtype=object), "must be numbers"),
        (np.zeros(7, complex), "must be numbers"),
    ],
)
def test_wrong_observations_are_refused_with_what_is_expected(obs, problem):
    _, policy = acting("ppo")
    with pytest.raises(ObservationError, match=problem):
        policy.act(obs)


def test_no_observations_give_no_actions():
    _, policy = acting("ppo")
    assert policy.act(np.zeros((0, 7))).shape == (0,)


def test_masks_leave_only_legal_actions():
    trained, policy = acting("dqn")
    obs = random_observations(trained, 50, masked=False).obs
    mask = np.array([False, False, True, False])
    assert set(policy.act(obs, mask)) == {2}
    assert policy.act(obs[0], mask.astype(np.int64)) == 2
    with pytest.raises(ObservationError, match=r"\(4,\) or \(50, 4\), not \(3,\)"):
        policy.act(obs, mask[:3])
    with pytest.raises(ObservationError, match="bool or integer"):
        policy.act(obs, mask.astype(np.float32))
    _, continuous = acting("ppo continuous")
    with pytest.raises(ObservationError, match="no mask"):
        continuous.act(obs[0], mask)


def draws(policy, obs, count, mask=None):
    return policy.act(np.repeat(obs[None], count, axis=0), mask, deterministic=False)


def test_drawn_actions_follow_the_probabilities():
    trained, policy = acting("ppo")
    obs = random_observations(trained, 1, masked=False).obs[0]
    mask = np.array([True, True, False, True])
    expected = policy.outputs(obs, mask)["probabilities"][0]
    drawn = draws(policy, obs, 20_000, mask)
    found = np.bincount(drawn, minlength=4) / len(drawn)
    np.testing.assert_allclose(found, expected, atol=0.015)
    assert found[2] == 0


def test_drawn_dimensions_subsets_and_numbers_follow_the_distribution():
    trained, policy = acting("ppo several")
    obs = random_observations(trained, 1, masked=False).obs[0]
    expected = policy.outputs(obs)["probabilities"][0]
    drawn = draws(policy, obs, 20_000)
    for column, (begin, size) in enumerate(((0, 3), (3, 2), (5, 4))):
        found = np.bincount(drawn[:, column], minlength=size) / len(drawn)
        np.testing.assert_allclose(found, expected[begin : begin + size], atol=0.015)
    trained, policy = acting("ppo subset")
    obs = random_observations(trained, 1, masked=False).obs[0]
    expected = policy.outputs(obs)["probabilities"][0]
    drawn = draws(policy, obs, 5_000)
    np.testing.assert_allclose(np.bincount(drawn[:, 0], minlength=30) / 5_000, expected, atol=0.03)
    assert all(len(set(row)) == 5 for row in drawn[:200].tolist())
    trained, policy = acting("ppo continuous")
    obs = random_observations(trained, 1, masked=False).obs[0]
    outputs = policy.outputs(obs)
    drawn = draws(policy, obs, 20_000)
    assert drawn.min() >= -0.5
    assert drawn.max() <= 0.75
    for d in range(2):
        mean, deviation = outputs["mean"][0, d], np.exp(outputs["log_std"][0, d])
        normal = np.random.default_rng(1).normal(mean, deviation, 100_000).clip(-0.5, 0.75)
        assert drawn[:, d].mean() == pytest.approx(normal.mean(), abs=0.03)


def test_a_seed_repeats_draws():
    trained, policy = acting("ppo", seed=3)
    obs = random_observations(trained, 100, masked=False).obs
    first = policy.act(obs, deterministic=False)
    assert (policy.act(obs, deterministic=False) != first).any()
    policy.reset(seed=3)
    np.testing.assert_array_equal(policy.act(obs, deterministic=False), first)


def test_action_values_are_always_acted_on_greedily():
    trained, policy = acting("dqn")
    obs = random_observations(trained, 100, masked=False).obs
    np.testing.assert_array_equal(policy.act(obs, deterministic=False), policy.act(obs))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(small_config(folder, "ppo", env="snake", engine="fused"))
    return folder


def test_a_run_folder_is_loaded_with_its_environment(run):
    policy = briskrl.load_policy(run)
    assert policy.env == "snake"
    assert isinstance(policy.policy, StochasticPolicy)
    env = briskrl.make_env(policy.env, 8, config=policy.env_config)
    obs, _ = env.reset(seed=1)
    np.testing.assert_array_equal(policy.act(obs), policy.policy.act(np.asarray(obs), None))
    env.close()
    with pytest.raises(RunFolderError, match="policy of a run"):
        briskrl.load_policy(run / "policy")


def test_without_a_memory_there_is_nothing_to_replace(run):
    with pytest.raises(BriskError, match="no memory"):
        briskrl.load_policy(run).replace_action(1)
