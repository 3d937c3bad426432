"""Episodes of fuel-break placement: rewards, fires, masks, budgets, seeds and landscapes."""

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

SMALL = {"height": 9, "width": 10, "landscapes": 3, "n_weather": 3, "n_fires": 6, "obs_fires": 8}


def make(num_envs=2, **settings):
    hold = settings.pop("autoreset_mode", "Disabled")
    return WildfireVecEnv(num_envs, autoreset_mode=hold, **(SMALL | settings))


def legal_actions(env, rng):
    """A random legal cell per env, or several of them."""
    count = env.config.cells_per_step
    cells = topk_masked(rng.random(env.action_mask.shape), env.action_masks(), count)
    return cells[:, 0] if count == 1 else np.where(cells < 0, 0, cells)


def full_loss(env, index):
    """Burned share of an episode's own fires, burned anew from nothing."""
    state = env.peek()
    scene = env.pool.members[state["landscape"][index]].scene
    losses = Simulator(scene).losses(env.fires(index), state["treated"][index])
    return float(np.add.accumulate(losses)[-1]) / (len(losses) * scene.total_value)


def play_out(env, rng, each_step=lambda *_: None):
    env.reset(seed=int(rng.integers(2**31)))
    rewards = []
    while True:
        _, reward, terminated, truncated, infos = env.step(legal_actions(env, rng))
        assert not truncated.any()
        rewards.append(reward)
        each_step(reward, infos)
        if terminated.all():
            return np.array(rewards), infos


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    directions=st.sampled_from([8, 16, 32]),
    leaky=st.booleans(),
    cells_per_step=st.sampled_from([1, 1, 3]),
    duration=st.sampled_from([60.0, 300.0, 720.0, 3000.0]),
    wind=st.sampled_from([5.0, 20.0, 50.0]),
    settlements=st.integers(0, 2),
)
def test_delta_rewards_equal_full_simulation_exactly(
    seed, directions, leaky, cells_per_step, duration, wind, settlements
):
    env = make(
        directions=directions,
        leaky_diagonals=leaky,
        cells_per_step=cells_per_step,
        duration_min=duration,
        wind_kmh=wind,
        n_settlements=settlements,
        budget_frac=0.15,
    )
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    before = [full_loss(env, i) for i in range(2)]
    np.testing.assert_array_equal(env.peek()["burned_frac"], before)
    terminated = np.zeros(2, np.bool_)
    while not terminated.all():
        _, reward, terminated, _, _ = env.step(legal_actions(env, rng))
        after = [full_loss(env, i) for i in range(2)]
        np.testing.assert_array_equal(env.peek()["burned_frac"], after)
        expected = np.float32(100 * (np.array(before) - np.array(after)))
        np.testing.assert_array_equal(reward, expected)
        before = after


def narrow(seed):
    """Fires driven by a gale, so thin that they pass cells which they do not reach in time."""
    env = make(1, wind_kmh=60.0, wind_sd_kmh=0.0, duration_min=40.0, cell_m=60.0, n_fires=20)
    env.reset(seed=seed)
    return env


def grazed_cells(env):
    """Cells that no fire burns, but that change a fire when they are treated."""
    scene = env.pool.members[env.peek()["landscape"][0]].scene
    simulator, fires = Simulator(scene), env.fires(0)
    untreated, burned = simulator.losses(fires), simulator.burn_probability(fires) > 0
    found = []
    for cell in np.flatnonzero(env.action_masks()[0] & ~burned):
        treated = np.zeros(scene.landscape.cells, np.bool_)
        treated[cell] = True
        if (simulator.losses(fires, treated) != untreated).any():
            found.append(int(cell))
    return found


def test_breaks_that_a_fire_only_grazes_count():
    """Treating a cell that nothing burns may change a fire, and rewards must show it."""
    tried = 0
    for seed in range(30):
        for cell in grazed_cells(narrow(seed)):
            env = narrow(seed)
            _, reward, _, _, _ = env.step(np.array([cell]))
            assert env.peek()["burned_frac"][0] == full_loss(env, 0)
            assert reward[0] > 0
            tried += 1
    assert tried > 5


def test_rewards_telescope():
    for name in ("delta", "relative", "terminal"):
        env = make(4, reward=name, budget_frac=0.1)
        rewards, infos = play_out(env, np.random.default_rng(3))
        burned, untreated = infos["burned_frac"], infos["burned_frac_untreated"]
        if name == "terminal":
            assert not rewards[:-1].any()
            expected = -100 * burned
        else:
            expected = 100 * (untreated - burned) / (untreated if name == "relative" else 1)
        np.testing.assert_allclose(rewards.sum(axis=0), expected, rtol=1e-5)
        np.testing.assert_allclose(infos["return"], expected, rtol=1e-5)
        np.testing.assert_allclose(infos["score"], 100 * (1 - burned / untreated), rtol=1e-5)


def test_terminal_and_delta_rewards_tell_the_same_story():
    ends = []
    for name in ("delta", "terminal"):
        _, infos = play_out(make(3, reward=name), np.random.default_rng(5))
        ends.append(infos["burned_frac"])
    np.testing.assert_array_equal(*ends)


def test_fresh_fires_compare_both_masks_on_the_same_new_sample():
    env = make(2, fires="fresh", n_fires=12)
    env.reset(seed=4)
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(3):
        before = env.treated()
        _, reward, _, _, _ = env.step(legal_actions(env, rng))
        for i in range(2):
            scene = env.pool.members[env.peek()["landscape"][i]].scene
            fires, simulator = env.fires(i), Simulator(scene)
            gain = simulator.burned_frac(fires, before[i]) - simulator.burned_frac(
                fires, env.treated()[i]
            )
            np.testing.assert_allclose(reward[i], 100 * gain, atol=1e-4)
        samples.append(env.fires(0).cell.copy())
    assert not np.array_equal(samples[0], samples[1])


def test_fires_are_fixed_during_an_episode_and_new_in_the_next():
    env = make(1, autoreset_mode="SameStep", landscapes=1)
    env.reset(seed=1)
    first = env.fires(0)
    rng = np.random.default_rng(0)
    for _ in range(env.env_spec.max_steps - 1):
        env.step(legal_actions(env, rng))
        np.testing.assert_array_equal(env.fires(0).cell, first.cell)
    env.step(legal_actions(env, rng))
    assert not np.array_equal(env.fires(0).cell, first.cell)


def test_fires_of_a_round_are_the_same_for_all_and_new_in_the_next():
    env = make(3, autoreset_mode="SameStep", landscapes=1, fires="round")
    rng, rounds = np.random.default_rng(0), []
    env.reset(seed=1)
    for _ in range(3):
        first, *others = (env.fires(i) for i in range(3))
        for other in others:
            np.testing.assert_array_equal(other.cell, first.cell)
            np.testing.assert_array_equal(other.weather, first.weather)
        assert all(not np.array_equal(first.cell, before) for before in rounds)
        rounds.append(first.cell)
        for _ in range(env.env_spec.max_steps):
            env.step(legal_actions(env, rng))
    env.reset(seed=2)
    np.testing.assert_array_equal(env.fires(0).cell, rounds[0])


@pytest.mark.parametrize("mode", ["fixed", "test"])
def test_a_set_of_fires_belongs_to_its_landscape(mode):
    env = make(6, fires=mode)
    env.reset(seed=3)
    by_landscape = {}
    for i, land in enumerate(env.peek()["landscape"]):
        cells = env.fires(i).cell
        np.testing.assert_array_equal(by_landscape.setdefault(int(land), cells), cells)
        np.testing.assert_array_equal(cells, env.pool.members[land].fires(mode, 6).cell)


def test_samples_for_different_purposes_differ():
    member = make(1).pool.members[0]
    samples = [
        member.fires(purpose, 50).cell for purpose in ("test", "training", "fixed", "observation")
    ]
    for i, one in enumerate(samples):
        assert all(not np.array_equal(one, other) for other in samples[:i])


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


def test_illegal_cells_spend_budget_and_cost_what_they_are_told_to():
    env = make(2, illegal_penalty=-3.0, landscapes=1)
    env.reset(seed=0)
    shut = int(np.flatnonzero(~env.action_masks()[0])[0])
    _, reward, _, _, _ = env.step(np.array([shut, shut]))
    np.testing.assert_array_equal(reward, [-3, -3])
    state = env.peek()
    assert not state["treated"].any()
    np.testing.assert_array_equal(state["spent"], [1, 1])
    np.testing.assert_array_equal(state["dropped"], [1, 1])


def test_illegal_cells_are_refused_if_asked():
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


def test_planes_are_what_they_are_called():
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
    ("wrong", "told"),
    [
        ({"split": "test", "landscapes": 101}, "100 landscapes"),
        ({"fuel_weights": (1.0,)}, "as many as fuels"),
        ({"obs_channels": ("tree",)}, "no 'tree'"),
        ({"obs_channels": ("legal", "legal")}, "twice"),
        ({"obs_channels": ("plan",)}, "needs a baseline"),
        ({"fuels": (102, 110)}, "110 is no fuel model"),
        ({"height": 3}, "height"),
        ({"budget_frac": 0.0}, "budget_frac"),
        ({"source": "landfire", "height": 200, "split": "test"}, "no window"),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong, told):
    with pytest.raises(ConfigError, match=told):
        WildfireVecEnv(1, **({"landscapes": 1} | wrong))


def test_evaluation_plays_landscapes_that_training_never_saw():
    config = WildfireConfig()
    assert config.for_evaluation().split == "validation"
    assert WildfireConfig(landscapes=1).for_evaluation() == WildfireConfig(landscapes=1)
    assert config.for_evaluation().for_evaluation() == config.for_evaluation()
