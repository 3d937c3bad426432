"""Episodes of fuel-break placement: masks, budgets, seeds, landscapes and settings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.core.errors import ConfigError
from briskrl.core.types import StepBuffers
from briskrl.envs.wildfire.config import CHANNELS, WildfireConfig
from briskrl.envs.wildfire.env import WildfireVecEnv, topk_masked
from briskrl.envs.wildfire.simulate import Simulator
from tests.envs.wildfire.episode_driver import SMALL, legal_actions, make


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), protect=st.booleans(), count=st.sampled_from([1, 2]))
def test_masks_are_right(seed, protect, count):
    env = make(
        3,
        n_settlements=2,
        protect_above=3.0 if protect else 0.0,
        n_lines=1,
        cells_per_step=count,
    )
    _, infos = env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    terminated = np.zeros(3, np.bool_)
    while not terminated.all():
        for i, land in enumerate(env.peek()["landscape"]):
            landscape = env.pool.members[land].scene.landscape
            legal = landscape.burnable & ~landscape.protected
            expected = legal.ravel() & ~env.treated()[i]
            np.testing.assert_array_equal(infos["action_mask"][i], expected)
            if protect:
                assert not infos["action_mask"][i][landscape.value.ravel() > 3].any()
        before = env.treated()
        actions = legal_actions(env, rng)
        _, _, terminated, _, infos = env.step(actions)
        added = env.treated() & ~before
        assert (env.treated() & before == before).all()
        assert (added.sum(axis=1) <= count).all()
        for i in range(3):
            assert set(np.flatnonzero(added[i])) <= set(np.atleast_1d(actions[i]))


def test_illegal_cells_spend_budget_and_cost_the_penalty():
    env = make(2, illegal_penalty=-3.0, landscapes=1)
    env.reset(seed=0)
    shut = int(np.flatnonzero(~env.action_masks()[0])[0])
    _, reward, _, _, _ = env.step(np.array([shut, shut]))
    np.testing.assert_array_equal(reward, [-3, -3])
    state = env.peek()
    assert not state["treated"].any()
    np.testing.assert_array_equal(state["spent"], [1, 1])
    np.testing.assert_array_equal(state["dropped"], [1, 1])


def test_illegal_cells_raise_if_configured():
    env = make(2, illegal="raise")
    env.reset(seed=0)
    cell = int(np.flatnonzero(env.action_masks().all(axis=0))[0])
    env.step(np.array([cell, cell]))
    with pytest.raises(ValueError, match=rf"Env 0: the cell at row {cell // 10}, column"):
        env.step(np.array([cell, cell]))


def test_several_cells_are_clipped_to_the_budget_and_doubles_dropped():
    env = make(1, cells_per_step=4, budget_frac=7 / 90, landscapes=1)
    env.reset(seed=0)
    cells = np.flatnonzero(env.action_masks()[0])
    _, _, terminated, _, _ = env.step(np.array([[cells[0], cells[0], cells[1], cells[2]]]))
    assert not terminated[0]
    assert env.peek()["dropped"][0] == 1
    assert env.treated().sum() == 3
    _, _, terminated, _, infos = env.step(cells[3:7][None])
    assert terminated[0]
    assert infos["n_treated"][0] == 3 + 3
    assert infos["dropped"][0] == 1
    assert not env.treated()[0, cells[6]]
    assert env.env_spec.max_steps == 2


def test_padding_is_no_illegal_cell():
    env = make(1, cells_per_step=3, illegal_penalty=-1.0)
    out = StepBuffers.allocate(env.env_spec, 1)
    env.start(0, out)
    cell = np.flatnonzero(env.action_masks()[0])[0]
    env.step_into(np.array([[cell, -1, -1]]), out)
    assert env.peek()["dropped"][0] == 0
    assert env.treated().sum() == 1


def test_top_cells_are_legal_and_best_first():
    values = np.array([[5.0, 9, 1, 7], [1, 2, 3, 4]], np.float32)
    mask = np.array([[True, False, True, True], [False, False, True, False]])
    found = topk_masked(values, mask, 3)
    np.testing.assert_array_equal(found, [[3, 0, 2], [2, -1, -1]])


def test_episodes_end_when_nothing_legal_is_left():
    env = make(1, landscapes=1, budget_frac=1.0, nb_frac=0.9, n_fires=2)
    _, infos = env.reset(seed=0)
    legal = int(infos["action_mask"].sum())
    rng, steps, done = np.random.default_rng(0), 0, False
    while not done:
        _, _, (done,), _, infos = env.step(legal_actions(env, rng))
        steps += 1
    assert steps == legal == infos["n_treated"][0] < 90
    assert infos["burned_frac"][0] == 0


def test_landscapes_are_the_same_after_a_hundred_episodes():
    env = make(5, autoreset_mode="SameStep", budget_frac=0.1)
    before = [member.scene.landscape.digest() for member in env.pool.members]
    tables = [member.scene.tables.minutes.tobytes() for member in env.pool.members]
    packed = env.pool.data.tobytes()
    untreated: dict[int, list[float]] = {}
    env.reset(seed=0)
    rng, episodes = np.random.default_rng(0), 0
    while episodes < 100:
        _, _, terminated, _, infos = env.step(legal_actions(env, rng))
        for i in np.flatnonzero(terminated):
            land = int(infos["landscape_id"][i])
            untreated.setdefault(land, []).append(float(infos["burned_frac_untreated"][i]))
        episodes += int(terminated.sum())
    assert [member.scene.landscape.digest() for member in env.pool.members] == before
    assert [member.scene.tables.minutes.tobytes() for member in env.pool.members] == tables
    assert env.pool.data.tobytes() == packed
    with pytest.raises(ValueError, match="read-only"):
        env.pool.members[0].scene.landscape.fuel[0, 0] = 99
    with pytest.raises(ValueError, match="read-only"):
        env.pool.data[0] = 1
    assert len(untreated) == 3


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_and_batches_change_nothing(threads):
    """Rows of a batch equal single episodes, seed by seed."""
    rng = np.random.default_rng(0)
    actions = rng.integers(90, size=(12, 7))
    batch = WildfireVecEnv(7, threads=threads, **SMALL)
    singles = [WildfireVecEnv(1, **SMALL) for _ in range(7)]
    obs, _ = batch.reset(seed=50)
    for i, single in enumerate(singles):
        np.testing.assert_array_equal(single.reset(seed=50 + i)[0][0], obs[i])
    for row in actions:
        whole = batch.step(row)
        for i, single in enumerate(singles):
            for one, many in zip(single.step(row[i : i + 1])[:4], whole[:4], strict=True):
                np.testing.assert_array_equal(one[0], many[i])
    batch.close()


def test_planes_hold_the_quantity_they_are_named_after():
    shown = (*CHANNELS, "downstream")
    env = make(2, n_settlements=1, obs_channels=shown)
    obs, _ = env.reset(seed=0)
    names = dict(zip(shown, obs.swapaxes(0, 1), strict=True))
    assert not names["treated"].any()
    np.testing.assert_array_equal(names["legal"].reshape(2, -1) > 0, env.action_masks())
    assert (names["budget"] == 1).all()
    for i, land in enumerate(env.peek()["landscape"]):
        scene = env.pool.members[land].scene
        landscape = scene.landscape
        water = ~landscape.burnable
        for name in ("rate", "north", "flame", "burn_prob", "value"):
            assert not names[name][i][water].any()
        np.testing.assert_allclose(names["slope"][i], landscape.slope, rtol=1e-6)
        fires = env.pool.members[land].fires("observation", 8)
        expected = Simulator(scene).burn_probability(fires).reshape(9, 10)
        np.testing.assert_allclose(names["burn_prob"][i], expected, rtol=1e-6)
        behind, _ = Simulator(scene).downstream(fires)
        expected = (behind / behind.max()).reshape(9, 10)
        np.testing.assert_allclose(names["downstream"][i], expected, rtol=1e-6)
    cell = int(np.flatnonzero(env.action_masks()[0])[0])
    obs, _, _, _, _ = env.step(np.array([cell, cell]))
    names = dict(zip(shown, obs.swapaxes(0, 1), strict=True))
    assert names["treated"][0].sum() == 1 == names["treated"][0].ravel()[cell]
    np.testing.assert_allclose(names["budget"], 1 - 1 / env.pool.budget)


def test_chosen_planes_come_in_their_order():
    env = make(1, obs_channels=("plan", "treated", "fuel"), plan="dpv-static", plan_fires=16)
    obs, _ = env.reset(seed=0)
    scene = env.pool.members[env.peek()["landscape"][0]].scene
    assert obs.shape == (1, 3, 9, 10)
    np.testing.assert_allclose(obs[0, 2], scene.landscape.fuel / 204)
    assert (obs[0, 0] > 0).sum() == env.pool.budget
    minimal = make(1, obs="minimal")
    assert minimal.env_spec.obs.shape == (2, 9, 10)


def test_a_pinned_env_plays_its_landscape():
    env = make(6, autoreset_mode="SameStep", budget_frac=0.02)
    env.pin([0, 1, 2, 2, 1, 0])
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(6):
        np.testing.assert_array_equal(env.peek()["landscape"], [0, 1, 2, 2, 1, 0])
        env.step(legal_actions(env, rng))
    env.pin(None)
    for _ in range(20):
        env.step(legal_actions(env, rng))
    assert len(set(env.peek()["landscape"].tolist())) > 1
    with pytest.raises(ValueError, match="numbers below 3"):
        env.pin([3] * 6)


def test_ignitions_keep_to_their_radius():
    env = make(2, ignition_radius=1, n_fires=64)
    env.reset(seed=0)
    rows, cols = np.divmod(env.fires(0).cell, 10)
    assert (np.maximum(np.abs(rows - 4), np.abs(cols - 5)) <= 1).all()
    assert len(np.unique(env.fires(0).cell)) > 4


def test_ignitions_follow_their_weights():
    env = make(1, n_lines=1, road_ignitions=50.0, n_fires=4000, landscapes=1)
    env.reset(seed=0)
    weight = env.pool.members[0].scene.landscape.ignition_weight.ravel()
    share = np.bincount(env.fires(0).cell, minlength=90) / 4000
    expected = weight / weight.sum()
    assert (np.abs(share - expected) < 5 * np.sqrt(expected / 4000) + 1e-9).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"split": "test", "landscapes": 101}, "100 landscapes"),
        ({"fuel_weights": (1.0,)}, "as many as fuels"),
        ({"obs_channels": ("tree",)}, "no 'tree'"),
        ({"obs_channels": ("legal", "legal")}, "twice"),
        ({"obs_channels": ("plan",)}, "needs a baseline"),
        ({"fuels": (102, 110)}, "110 is not a fuel model"),
        ({"height": 3}, "height"),
        ({"budget_frac": 0.0}, "budget_frac"),
        ({"source": "landfire", "height": 200, "split": "test"}, "no window"),
    ],
)
def test_invalid_settings_are_refused(wrong, message):
    with pytest.raises(ConfigError, match=message):
        WildfireVecEnv(1, **({"landscapes": 1} | wrong))


def test_evaluation_plays_landscapes_that_training_never_saw():
    config = WildfireConfig()
    assert config.for_evaluation().split == "validation"
    assert WildfireConfig(landscapes=1).for_evaluation() == WildfireConfig(landscapes=1)
    assert config.for_evaluation().for_evaluation() == config.for_evaluation()
