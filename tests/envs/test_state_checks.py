"""States of compiled environments: real ones are accepted, impossible ones refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from briskrl.core.errors import InvalidStateError
from briskrl.core.types import StepBuffers
from briskrl.envs.cage2.kernels import layout as cage2
from briskrl.envs.cartpole.kernels import step as cartpole
from briskrl.envs.ordered_visit.kernels import step as ordered_visit
from briskrl.envs.snake.env import SnakeVecEnv
from briskrl.envs.snake.kernels import board as snake
from briskrl.envs.wildfire.kernels import layout as wildfire
from tests.envs.contract_cases import NATIVE, Case, opened
from tests.envs.recording import random_actions

STEPS, NUM_ENVS = 120, 16
OWN = [case for case in NATIVE if not case.name.startswith("gym:")]
own_case = pytest.mark.parametrize("case", OWN, ids=[case.label for case in OWN])


@own_case
def test_every_state_that_is_played_is_accepted(case: Case):
    """Also with several episodes behind it, and continuing from it changes nothing."""
    with opened(case, NUM_ENVS) as env, opened(case, NUM_ENVS) as other:
        out, there = (StepBuffers.allocate(env.env_spec, NUM_ENVS) for _ in range(2))
        env.start(3, out)
        for actions in random_actions(env.env_spec, STEPS, NUM_ENVS):
            other.set_state(env.get_state())
            env.step_into(actions, out)
            other.step_into(actions, there)
            np.testing.assert_array_equal(out.obs, there.obs)
            np.testing.assert_array_equal(out.reward, there.reward)


SNAKE = [
    (np.int16, snake.RING_HEAD, 128, "ring head"),
    (np.int16, snake.RING_HEAD, -1, "ring head"),
    (np.int32, snake.LENGTH, 1_000_000, "length"),
    (np.int32, snake.LENGTH, 0, "length"),
    (np.int32, snake.LENGTH, 101, "length"),
    (np.int16, snake.HEADING, 4, "heading"),
    (np.int16, snake.FOOD, 32767, "food"),
    (np.int16, snake.FOOD, 0, "food"),
    (np.int16, snake.FOOD, -2, "food"),
    (np.int16, snake.MIRROR, 2, "mirror"),
    (np.int16, snake.ENDED, 2, "ended"),
    (np.uint64, snake.ROW_SCALARS, 1, "padding"),
    (np.float64, snake.RETURN, np.nan, "return"),
]
ORDERED_VISIT = [
    (np.int16, ordered_visit.X, 8, "position"),
    (np.int16, ordered_visit.Y, -1, "position"),
    (np.int16, ordered_visit.VISITED, 8, "visited"),
    (np.int32, ordered_visit.STEPS, -1, "steps"),
    (np.float64, ordered_visit.TOTAL, np.inf, "return"),
    (np.uint64, ordered_visit.WALLS + 2, 1 << 8, "walls"),
    (np.uint64, ordered_visit.WALLS + 4, 255, "inside a wall"),
]
CARTPOLE = [
    (np.float64, cartpole.X, np.nan, "position"),
    (np.float64, cartpole.SPIN, np.inf, "position"),
    (np.int32, cartpole.STEPS, -1, "steps"),
]
CAGE2 = [
    (np.int16, cage2.AGENT, 3, "agent"),
    (np.int16, cage2.STAGE, 15, "stage"),
    (np.int16, cage2.USER, 13, "user host"),
    (np.int16, cage2.KNOWN_IP, 1 << 13, "known addresses"),
    (np.int16, cage2.KNOWN_HOST, -1, "known hosts"),
    (np.int16, cage2.KNOWN_SUBNET, 8, "known subnets"),
    (np.int16, cage2.HOSTS + cage2.DECOYS, 256, "decoys"),
    (np.int16, cage2.HOSTS + cage2.PORTS_OF, 4096, "known ports"),
    (np.int16, cage2.HOSTS + cage2.LAST_EVENT, 10_001, "since an event"),
    (np.int32, cage2.STEPS, 10_001, "steps"),
]
WILDFIRE = [
    (np.int32, wildfire.LAND, 3, "landscape"),
    (np.int32, wildfire.LAND, -1, "landscape"),
    (np.int32, wildfire.PINNED, 1_000_000, "pinned landscape"),
    (np.int32, wildfire.SPENT, 1_000_000, "spent budget"),
    (np.int32, 2 * wildfire.ROW_SCALARS, 42, "ignition"),
    (np.int32, 2 * wildfire.ROW_SCALARS + 1, 2, "weather"),
    (np.float64, wildfire.LOSS, np.inf, "mean loss"),
]
PLANTED = {
    "snake": SNAKE,
    "cartpole": CARTPOLE,
    "cage2": CAGE2,
    "wildfire": WILDFIRE,
    "ordered-visit": ORDERED_VISIT,
}
PLACES = [(name, *row) for name, rows in PLANTED.items() for row in rows]


@pytest.mark.parametrize(("family", "dtype", "place", "value", "name"), PLACES)
def test_an_impossible_number_is_refused_by_name(
    family: str, dtype: Any, place: int, value: float, name: str
):
    case = next(case for case in OWN if case.name == family)
    with opened(case, 4) as env:
        out = StepBuffers.allocate(env.env_spec, 4)
        env.start(1, out)
        good = dict(env.get_state())
        bad = {family: good[family].copy()}
        bad[family].view(dtype)[2, place] = value
        with pytest.raises(InvalidStateError, match=f"{family}: .*{name}"):
            env.set_state(bad)
        np.testing.assert_array_equal(env.get_state()[family], good[family])


def test_a_snake_cannot_lie_twice_on_a_cell_or_on_its_food():
    env = SnakeVecEnv(2, height=5, width=5)
    env.reset(seed=1)
    layout, good = env._layout, env.get_state()["snake"]
    body = good.view(np.int16)[0, layout.ring : layout.ring + 3]
    for place, value, name in [
        (layout.ring, body[2], "snakes on a cell"),
        (layout.ring, body[0] + 1000, "body"),
        (layout.ring, layout.board + layout.width, "body"),
        (snake.FOOD, body[1], "food lies on a snake"),
    ]:
        bad = good.copy()
        bad.view(np.int16)[0, place] = value
        with pytest.raises(InvalidStateError, match=name):
            env.set_state({"snake": bad})


@pytest.mark.parametrize("change", ["shape", "dtype", "missing"])
def test_a_state_of_another_form_is_refused(change: str):
    env = SnakeVecEnv(2)
    env.reset(seed=1)
    good = env.get_state()["snake"]
    bad = {
        "shape": {"snake": good[:1]},
        "dtype": {"snake": good.view(np.int64)},
        "missing": {"cage2": good},
    }[change]
    with pytest.raises(InvalidStateError, match="the array snake"):
        env.set_state(bad)
