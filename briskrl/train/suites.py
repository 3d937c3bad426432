"""Official evaluations by name: finds a family's suite and plays its games with an agent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from briskrl.core.errors import ConfigError, nearest
from briskrl.core.registry import load_object
from briskrl.envs.registry import ENVS
from briskrl.envs.suites import Games, Report, Suite
from briskrl.train.evaluate import Agent, play_games


def find_suite(env: str, name: str) -> Suite:
    """The suite of this name that the family of an environment offers.

    Raises:
        ConfigError: It offers none of this name.
    """
    suites = ENVS.get(env).suites
    if name not in suites:
        known = nearest(name, suites) if suites else "It has none."
        raise ConfigError(f"The environment {env!r} has no suite {name!r}. {known}")
    found: Suite = load_object(suites[name])
    return found


def run_suite(agent: Agent, name: str, *, episodes: int | None = None, seed: int = 0) -> Report:
    """What the suite says about an agent; `episodes` replaces the number it prescribes."""
    family = ENVS.get(agent.env)

    def play(config: Any, *, episodes: int, seed: int, player: str | None = None) -> Games:
        playing = replace(agent, env_config=config)
        if player is not None:
            chosen = family.players[player]
            playing = Agent(chosen.policy(), agent.env, replace(config, **chosen.needs))
        return play_games(playing, episodes=episodes, seed=seed)

    return find_suite(agent.env, name)(play, agent.env_config, episodes=episodes, seed=seed)
