"""`make_env`: a batch of environments from a name."""

from __future__ import annotations

from typing import Any, cast

from briskrl.core.errors import ConfigError
from briskrl.envs.base import VecEnv
from briskrl.envs.registry import ENVS


def make_env(
    name: str,
    num_envs: int,
    config: Any = None,
    threads: int = 1,
    *,
    hold_ended: bool = False,
    render_mode: str | None = None,
) -> VecEnv:
    """N environments of a family, with its default settings if `config` is None.

    Args:
        name: The family, or `family:member` as in gym:CartPole-v1.
        num_envs: N.
        config: Settings of the family.
        threads: Threads that compiled environments may use.
        hold_ended: Ended episodes stay as they are until the next `start`, for rendering.
        render_mode: How `render` draws; None if it will not be called.

    Raises:
        ConfigError: The name is unknown, the settings are of another family or not valid, or the
            environment does not have this render mode.
    """
    family = ENVS.get(name)
    kind = family.load_config()
    if config is None:
        config = kind()
    if not isinstance(config, kind):
        raise ConfigError(
            f"The environment {name!r} takes a {kind.__name__}, not a {type(config).__name__}."
        )
    if num_envs < 1 or threads < 1:
        raise ConfigError(f"num_envs ({num_envs}) and threads ({threads}) must be 1 or more.")
    wrong = config.check()
    if wrong:
        raise ConfigError(" ".join(wrong))
    options = {"threads": threads, "hold_ended": hold_ended}
    if family.member:
        member = name.partition(":")[2]
        if not member:
            raise ConfigError(f"{name!r} needs a name after a colon, as in {name}:{family.member}.")
        return family.load_factory()(member, num_envs, config, **options, render_mode=render_mode)
    env: Any = family.load_factory()(num_envs, config, **options)
    if render_mode is not None:
        _set_render_mode(env, name, render_mode)
    return cast(VecEnv, env)


def _set_render_mode(env: Any, name: str, render_mode: str) -> None:
    if render_mode not in getattr(env, "metadata", {}).get("render_modes", []):
        env.close()
        raise ConfigError(f"The environment {name!r} has no render mode {render_mode}.")
    env.render_mode = render_mode
