"""One call from a name to a batch of environments."""

from __future__ import annotations

from typing import Any

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
) -> VecEnv:
    """N environments of the family `name`, with its default settings if `config` is None.

    With `hold_ended` an ended episode stays as it ended until the next `start`, to be looked at.

    Raises:
        ConfigError: The name is unknown, or the settings are of another family or cannot work.
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
    return family.load_factory()(num_envs, config, threads=threads, hold_ended=hold_ended)
