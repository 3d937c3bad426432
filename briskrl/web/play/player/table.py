"""Make the game for a trained agent: its environment, and the view that fits it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from briskrl.core.errors import BriskError
from briskrl.core.registry import load_object
from briskrl.core.types import StepBuffers
from briskrl.envs.base import VecEnv
from briskrl.envs.make import make_env
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.training.evaluate import Agent, HasEvaluationSettings
from briskrl.training.game_video import DrawsPictures
from briskrl.web.play.player.brain import Brain
from briskrl.web.play.player.frames_view import FramesView, NumbersView, Picture
from briskrl.web.play.player.game import Game, View

FPS = 30.0
"""Frames per second of environments that do not name their own."""
_PLAYER = "briskrl.web.play.player"
VIEWS = {
    "snake": f"{_PLAYER}.snake_view:SnakeView",
    "cage2": f"{_PLAYER}.cage2_view:Cage2View",
    "workflow:cage2": f"{_PLAYER}.cage2_order_view:Cage2OrderView",
    "cartpole": f"{_PLAYER}.cartpole_view:CartPoleView",
    "wildfire": f"{_PLAYER}.wildfire_view:WildfireView",
}
"""Views of environments (environment, brain) -> View, by family; others show frames."""


def make_game(agent: Agent) -> Game:
    """The game of an agent in the environment that `brisk eval` would play.

    Raises:
        BriskError: The environment cannot be made.
    """
    config = agent.env_config
    if isinstance(config, HasEvaluationSettings):
        config = config.for_evaluation()
    if isinstance(config, WorkflowEnvConfig):
        # The page shows the rewards of the environment, as evaluations do, without the bonus.
        config = replace(config, alignment_mode="none")
    if agent.env not in VIEWS:
        return _drawn_game(agent, config)
    env = make_env(agent.env, 1, config=config, hold_ended=True)
    brain = Brain(agent.policy, env.env_spec)
    make_view: Callable[[VecEnv, Brain], View] = load_object(VIEWS[agent.env])
    return Game(env, brain, make_view(env, brain))


def _drawn_game(agent: Agent, config: Any) -> Game:
    """A game that the environment draws itself; its numbers if it cannot."""
    env, why = _with_pictures(agent.env, config)
    if env is None:
        env = make_env(agent.env, 1, config=config, hold_ended=True)
    brain = Brain(agent.policy, env.env_spec)
    if why or not isinstance(env, DrawsPictures):
        return Game(env, brain, NumbersView(env, why))
    metadata = getattr(env, "metadata", {})
    view = FramesView(env, _picture_of(env), float(metadata.get("render_fps") or FPS))
    return Game(env, brain, view)


def _picture_of(env: DrawsPictures) -> Picture:
    """What draws the present state; workflows have a caption above."""
    from briskrl.envs.workflow.env import WorkflowVecEnv

    if isinstance(env, WorkflowVecEnv):
        return lambda: env.caption(0).above(env.render()[0], env.cell_px)
    return lambda: np.asarray(env.render()[0], np.uint8)


def _with_pictures(name: str, config: Any) -> tuple[VecEnv | None, str]:
    """The environment if it draws pictures, and otherwise why it does not."""
    try:
        env = make_env(name, 1, config=config, hold_ended=True, render_mode="rgb_array")
    except (BriskError, TypeError) as error:
        return None, str(error)
    if not isinstance(env, DrawsPictures):
        return env, f"{name} has no pictures."
    try:
        # Some environments find out at the first frame that a package is missing.
        env.start(0, StepBuffers.allocate(env.env_spec, 1))
        env.render()
    except Exception as error:
        with suppress(Exception):
            env.close()
        return None, str(error)
    return env, ""
