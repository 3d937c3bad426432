"""What users can do: play Snake, be blue, place fuel breaks."""

from __future__ import annotations

from base64 import b64decode
from contextlib import closing

import numpy as np
import pytest

from briskrl.core.rng import Streams, derive_seed
from briskrl.core.types import StepBuffers
from briskrl.envs.make import make_env
from briskrl.envs.wildfire.planning.baselines import plan_cells
from briskrl.envs.wildfire.simulate import Simulator
from briskrl.export.load import load_policy
from tests.web.play.page_client import watching

UP, RIGHT, DOWN, LEFT = range(4)
NEVER = 65535


def test_snake_on_the_food_sequence_of_the_agent(server):
    with watching(server, "snake") as page:
        agent = page.whole_game()
        mine = page.answer("duel")
        assert (mine["food"], mine["heading"]) == (agent[0]["food"], agent[0]["heading"])
        # Who steers like the agent finds the same food, and ends as it did.
        for state in agent[1:]:
            assert not mine["over"]
            mine = page.answer("move", direction=state["heading"])
            assert (mine["score"], mine["steps"]) == (state["score"], agent.index(state))
            if "end" not in state:
                assert (mine["body"][0], mine["food"]) == (state["head"], state["food"])
        status, body = page.ask("move", direction=UP)
        assert (mine["over"], status, body["code"]) == (True, 400, "over")


def test_snake_turns_only_sideways_and_starts_again(server):
    with watching(server, "snake", seed=1) as page:
        start = page.answer("duel")
        back = (start["heading"] + 2) % 4
        moved = page.answer("move", direction=back)
        assert moved["heading"] == start["heading"]
        assert moved["body"][1] == start["body"][0]
        assert page.answer("duel") == start


def test_food_that_lies_on_the_users_snake_is_drawn_elsewhere(server):
    with watching(server, "snake", seed=2) as page:
        game = page.answer("duel")
        width = 10
        for _ in range(400):
            if game["over"]:
                break
            assert game["food"] not in game["body"]
            row, col = divmod(game["body"][0], width)
            to_row, to_col = divmod(game["food"], width)
            direction = (
                (DOWN if to_row > row else UP) if to_row != row else RIGHT if to_col > col else LEFT
            )
            game = page.answer("move", direction=direction)
        assert game["score"] > 0


@pytest.fixture
def network(runs):
    agent = load_policy(runs / "cage2", memory=False).agent
    made = make_env("cage2", 1, config=agent.env_config, hold_ended=True)
    with closing(made):
        buffers = StepBuffers.allocate(made.env_spec, 1)
        made.start(derive_seed(0, "evaluate"), buffers)
        yield agent, made, buffers


def test_blue_goes_on_from_the_users_action(server, network):
    agent, env, buffers = network
    with watching(server, "cage2") as page:
        scene = page.event("game")["scene"]
        own = scene["actions"].index("Restore User1")
        page.states(30)
        page.answer("act", epoch=1, index=12, action=own)
        branch = page.event("branch")
        assert branch == {"epoch": 2, "from": 13}
        batch = page.event("states")
        assert (batch["epoch"], batch["from"]) == (2, 13)
        found = batch["states"]
        page.answer("want", epoch=2, shown=13, upto=40)
        while len(found) < 28:
            found += page.event("states")["states"]
    total = 0.0
    for step in range(1, 41):
        chosen = np.array([own]) if step == 13 else agent.policy.act(buffers.obs, None)
        env.step_into(chosen, buffers)
        total += float(buffers.reward[0])
        if step >= 13:
            state, truth = found[step - 13], env.truth()
            assert state["a"] == chosen[0]
            assert state["access"] == truth.access[0].tolist()
            assert state["belief"] == truth.compromise[0].tolist()
            assert state["t"] == pytest.approx(total, abs=1e-3)
    assert found[0]["human"]
    assert "human" not in found[1]


@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ({"epoch": 1, "index": 0, "action": 145}, "bad-action"),
        ({"epoch": 1, "index": 5000, "action": 0}, "bad-index"),
        ({"epoch": 9, "index": 0, "action": 0}, "stale"),
    ],
)
def test_impossible_actions_are_refused(server, numbers, code):
    with watching(server, "cage2") as page:
        page.event("states")
        status, body = page.ask("act", **numbers)
        assert (status, body["code"]) == (400, code)
        # The game goes on.
        page.answer("want", epoch=1, shown=0, upto=3)
        assert page.event("states")["from"] == 1


@pytest.fixture
def land(runs):
    """The landscape, its held-out fires and its budget, from the environment itself."""
    config = load_policy(runs / "wildfire", memory=False).agent.env_config.for_evaluation()
    with closing(make_env("wildfire", 1, config=config, hold_ended=True)) as env:
        member = env.pool.members[0]
        yield member, config, env.pool.budget


def burned(member, cells):
    simulator, fires = Simulator(member.scene), member.fires("test", 1000)
    treated = np.zeros(member.scene.landscape.cells, np.bool_)
    treated[cells] = True
    area = simulator.burned_cells(fires, treated).mean() / member.scene.burnable.sum()
    return area, simulator.burned_frac(fires, treated)


def test_burned_area_is_that_of_direct_simulation(server, land):
    member, config, budget = land
    with watching(server, "wildfire") as page:
        treated = page.whole_game()[-1]["treated"]
        found = page.answer("compare")
        own = [int(cell) for cell in np.flatnonzero(member.scene.legal)[:budget]]
        for cell in own:
            mine = page.answer("treat", cell=cell)["own"]
    planned = plan_cells(
        "dpv-iterative",
        Simulator(member.scene),
        member.fires("training", config.plan_fires),
        budget,
        Streams(member.streams_seed)["plan"],
    )
    assert found["fires"] == 1000
    expected = {"none": [], "agent": treated, "dpv": sorted(planned.tolist())}
    for who, cells in expected.items():
        area, value = burned(member, cells)
        assert found[who]["cells"] == cells
        assert found[who]["area"] == pytest.approx(area)
        assert found[who]["value"] == pytest.approx(value)
    assert mine["cells"] == own
    assert mine["area"] == pytest.approx(burned(member, own)[0])


def test_breaks_are_toggled_within_the_budget(server, land):
    member, _, budget = land
    legal = np.flatnonzero(member.scene.legal).tolist()
    with watching(server, "wildfire") as page:
        page.event("states")
        for cell in legal[:budget]:
            page.answer("treat", cell=cell)
        status, body = page.ask("treat", cell=legal[budget])
        assert (status, body["code"]) == (400, "budget")
        assert page.answer("treat", cell=legal[0])["own"]["cells"] == legal[1:budget]
        assert page.answer("clear")["own"]["cells"] == []
        status, body = page.ask("treat", cell=member.scene.landscape.cells)
        assert (status, body["code"]) == (400, "illegal-cell")


def test_fires_arrive_as_in_the_simulator(server, land):
    member, _, _ = land
    with watching(server, "wildfire") as page:
        facts = page.event("game")["facts"]
        page.whole_game()
        page.answer("compare")
        cells = page.answer("compare")["agent"]["cells"]
        found = page.answer("fire", fire=3)
        assert page.ask("fire", fire=24)[0] == 400
    fires = member.fires("test", 1000)
    assert facts["fires"][3]["cell"] == fires.cell[3]
    treated = np.zeros(member.scene.landscape.cells, np.bool_)
    for who, breaks in (("none", []), ("agent", cells)):
        treated[:] = False
        treated[breaks] = True
        minutes = Simulator(member.scene).arrival(
            int(fires.cell[3]), int(fires.weather[3]), treated
        )
        shown = np.frombuffer(b64decode(found["minutes"][who]), "<u2").astype(float)
        np.testing.assert_allclose(
            shown, np.nan_to_num(minutes.minutes.ravel(), nan=NEVER), atol=0.51
        )
