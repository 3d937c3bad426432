"""A session plays the games of `brisk eval`, state by state."""

from __future__ import annotations

import io
from base64 import b64decode
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from briskrl.core.rng import derive_seed
from briskrl.core.types import StepBuffers
from briskrl.envs.make import make_env
from briskrl.export.load import load_policy
from briskrl.training.evaluate import HasEvaluationSettings, play_games
from tests.web.play.page_client import watching

SEED, EPISODE = 3, 2


class DirectGame:
    """The same game, played here."""

    def __init__(self, folder, *, render_mode=None):
        self.loaded = load_policy(folder, memory=False)
        self.agent = agent = self.loaded.agent
        config = agent.env_config
        if isinstance(config, HasEvaluationSettings):
            config = config.for_evaluation()
        self.env = make_env(agent.env, 1, config=config, hold_ended=True, render_mode=render_mode)
        self.buffers = StepBuffers.allocate(self.env.env_spec, 1)
        self.env.start(derive_seed(SEED, "evaluate") + EPISODE, self.buffers)
        self.env.drain_stats()

    def step(self, action=None):
        """Whether the game goes on."""
        if action is None:
            action = self.agent.policy.act(self.buffers.obs, self.buffers.mask)
        else:
            action = np.array([action], np.int64)
        self.env.step_into(action, self.buffers)
        return not self.env.drain_stats().count


@pytest.fixture
def direct(runs):
    with closing(_Opened(runs)) as opened:
        yield opened


class _Opened:
    def __init__(self, runs):
        self.runs, self.games = runs, []

    def __call__(self, name, **options):
        self.games.append(DirectGame(self.runs / name, **options))
        return self.games[-1]

    def close(self):
        for game in self.games:
            game.env.close()


def evaluated(runs, name):
    agent = load_policy(runs / name, memory=False).agent
    return play_games(agent, episodes=EPISODE + 1, seed=SEED)


def check_end(states, games):
    """The end is the result of the evaluation's game."""
    assert states[-1]["end"] == {
        "score": games.score[EPISODE],
        "steps": games.steps[EPISODE],
        "return": pytest.approx(games.returns[EPISODE], rel=1e-6),
        "won": bool(games.won[EPISODE]),
    }
    assert len(states) == games.steps[EPISODE] + 1
    assert states[-1]["t"] == pytest.approx(games.returns[EPISODE], abs=1e-3)


def test_snake_with_its_inputs_and_action_values(server, runs, direct):
    with watching(server, "snake", seed=SEED, episode=EPISODE) as page:
        game = page.event("game")
        states = page.whole_game()
    check_end(states, evaluated(runs, "snake"))
    play = direct("snake")
    assert (game["kind"], game["policy"]["algo"]) == ("snake", "dqn")
    assert len(game["scene"]["inputs"]) == play.env.env_spec.obs.size
    body = game["facts"]["body"]
    for state in states:
        now = {name: int(values[0]) for name, values in play.env.peek().items()}
        assert {name: state[name] for name in ("head", "food", "score", "length")} == {
            name: now[name] for name in ("head", "food", "score", "length")
        }
        # The page rebuilds bodies from heads and lengths.
        if state["head"] != body[0]:
            body = [state["head"], *body][: state["length"]]
        assert body == play.env.body(0).tolist()
        if "end" in state:
            break
        np.testing.assert_allclose(state["obs"], play.buffers.obs[0], atol=1e-4)
        outputs = play.loaded.outputs(play.buffers.obs[0])
        np.testing.assert_allclose(state["values"], outputs["values"][0], atol=1e-3)
        assert state["next"] == int(outputs["action"][0])
        play.step()


def test_cage2_with_truth_and_blues_view(server, runs, direct):
    with watching(server, "cage2", seed=SEED, episode=EPISODE) as page:
        game = page.event("game")
        states = page.whole_game()
    check_end(states, evaluated(runs, "cage2"))
    play = direct("cage2")
    assert [host["name"] for host in game["scene"]["hosts"]][7] == "Op_Server0"
    assert len(game["scene"]["actions"]) == 145
    for state in states:
        truth = play.env.truth()
        assert state["access"] == truth.access[0].tolist()
        assert state["belief"] == truth.compromise[0].tolist()
        bits = play.buffers.obs[0, :52].reshape(13, 4).astype(int)
        if "end" in state:
            break
        assert state["activity"] == (bits[:, 0] + 2 * bits[:, 1]).tolist()
        outputs = play.loaded.outputs(play.buffers.obs[0])
        best, probability = state["probabilities"]["top"][0]
        assert best == state["next"] == int(outputs["action"][0])
        assert probability == pytest.approx(outputs["probabilities"].max(), abs=1e-3)
        play.step()
    assert states[-1]["moves"][0].startswith("blue")


def test_cage2_with_the_order_to_follow(server, runs, direct):
    with watching(server, "ordered", seed=SEED, episode=EPISODE) as page:
        game = page.event("game")
        states = page.whole_game()
    # Its total is that of the evaluation: without the bonus.
    check_end(states, evaluated(runs, "ordered"))
    env = (play := direct("ordered")).env
    assert game["kind"] == "cage2"
    assert game["facts"]["order"] == list(env.caption(0).names)
    hosts = [host["name"] for host in game["scene"]["hosts"]]
    members = game["scene"]["categories"]
    assert sorted(members) == sorted(env.task.categories)
    assert [hosts[index] for index in members["op_host"]] == ["Op_Host0", "Op_Host1", "Op_Host2"]
    was_open = False
    for state in states:
        assert state["open"] == list(env.caption(0).opened)
        assert state["fixes"] == [env.caption(0).ok, env.caption(0).judged]
        held = [any(state["access"][host] for host in members[name]) for name in members]
        assert any(state["open"]) == any(held)
        was_open |= any(held)
        if "end" not in state:
            play.step()
    assert was_open


def test_cartpole(server, runs, direct):
    with watching(server, "cartpole", seed=SEED, episode=EPISODE) as page:
        states = page.whole_game()
    check_end(states, evaluated(runs, "cartpole"))
    play = direct("cartpole")
    for state in states[:-1]:
        np.testing.assert_allclose(state["obs"], play.buffers.obs[0], atol=1e-4)
        play.step()


def test_wildfire_with_breaks_as_they_appear(server, runs, direct):
    with watching(server, "wildfire", seed=SEED, episode=EPISODE) as page:
        game = page.event("game")
        states = page.whole_game()
    check_end(states, evaluated(runs, "wildfire"))
    play = direct("wildfire")
    ground = np.frombuffer(b64decode(game["facts"]["ground"]), np.uint8)
    assert ground.size == 8 * 8 * 3
    for state in states:
        now = play.env.peek()
        assert state["treated"] == np.flatnonzero(now["treated"][0]).tolist()
        assert state["burned"] == pytest.approx(now["burned_frac"][0], abs=1e-4)
        if "end" not in state:
            play.step()
    assert len(states[-1]["treated"]) == game["scene"]["budget"]


def test_any_gymnasium_environment_as_frames(server, runs, direct):
    with watching(server, "lake", seed=SEED, episode=EPISODE) as page:
        game = page.event("game")
        states = page.whole_game()
    check_end(states, evaluated(runs, "lake"))
    play = direct("lake", render_mode="rgb_array")
    assert (game["kind"], game["scene"]["actions"]) == ("frames", ["0", "1", "2", "3"])
    for state in states:
        image = np.asarray(Image.open(io.BytesIO(b64decode(state["frame"]))), int)
        drawn = np.asarray(play.env.render()[0], int)
        assert image.shape == drawn.shape
        # JPEG keeps colors nearly.
        assert np.abs(image - drawn).mean() < 8
        if "end" not in state:
            play.step()


def test_another_seed_is_another_game(server):
    with watching(server, "snake", seed=SEED, episode=EPISODE) as page:
        first = page.event("states")["states"][0]
        for seed, episode in ((SEED + 1, EPISODE), (SEED, EPISODE + 1)):
            page.answer("begin", seed=seed, episode=episode)
            assert page.event("game")["seed"] == seed
            assert page.event("states")["states"][0]["food"] != first["food"]
        page.answer("begin", seed=SEED, episode=EPISODE)
        page.event("game")
        assert page.event("states")["states"][0] == first
