"""Settings of Gymnasium environments, as data; imports nothing heavy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from briskrl.core.aliases import AliasTable
from briskrl.core.config import Setting, Settings, accepts_aliases

ATARI: dict[str, Any] = {
    "grayscale": True,
    "resize": 84,
    "frame_skip": 4,
    "frame_stack": 4,
    "noop_max": 30,
    "fire_reset": True,
    "episodic_life": True,
    "clip_reward": True,
}
"""The usual preprocessing of Atari games (Mnih 2015)."""
PREPROCESSING = tuple(name for name in ATARI if name != "clip_reward")
"""Settings of the wrapper in `preprocessing`."""


@accepts_aliases
@dataclass(frozen=True, slots=True)
class GymConfig:
    """How Gymnasium environments are made and stepped."""

    ALIASES: ClassVar[AliasTable] = {
        "import": "packages",
        "env_file": "env_files",
        "max_episode_steps": "max_steps",
    }

    # Fields that may differ when a run is resumed: how environments are stepped, not which.
    RESUME_MAY_CHANGE: ClassVar[frozenset[str]] = frozenset(
        {
            *("backend", "workers", "min_ready", "env_timeout", "on_env_error"),
            *("packages", "env_files"),
        }
    )

    backend: Literal["auto", "compiled", "sync", "process", "async", "vector"] = "auto"
    """sync steps one environment after another in this process; process uses worker processes in
    lockstep; async uses worker processes and trains on whichever environments are ready; compiled
    uses our bit-identical compiled version (CartPole has one); vector uses the environment's own
    vector version, if it has one, but then resuming is not bit-exact. auto prefers compiled and
    otherwise measures a step to decide between sync, process and async."""
    workers: Annotated[int, Meta(ge=0, le=1024)] = 0
    """Worker processes; 0 means one per core, or at least 16 for async."""
    min_ready: Annotated[int, Meta(ge=0)] = 0
    """Environments that must be ready before the async backend continues; 0 means half of them."""
    env_timeout: Annotated[float, Meta(gt=0)] = 60.0
    """Seconds after which an environment counts as stuck: in a worker in any call, in this process
    while it is made and tested."""
    on_env_error: Literal["stop", "respawn"] = "stop"
    """If an environment fails: stop, or truncate its episode and replace it."""
    max_steps: Annotated[int, Meta(ge=1)] | None = None
    """Steps after which an episode is truncated; by default the registered limit."""
    atari: bool = False
    """The usual preprocessing of Atari games: the next eight settings with grayscale, 84, 4, 4, 30,
    fire_reset, episodic_life and clip_reward."""
    grayscale: bool = False
    """Observe brightness instead of colors."""
    resize: Annotated[int, Meta(ge=0, le=4096)] = 0
    """Side of the square that pictures are resized to; 0 keeps their size."""
    frame_skip: Annotated[int, Meta(ge=1, le=100)] = 1
    """Frames for which an action is repeated; the last two are merged by their maximum."""
    frame_stack: Annotated[int, Meta(ge=1, le=64)] = 1
    """Newest frames that an observation holds, as planes."""
    noop_max: Annotated[int, Meta(ge=0, le=1000)] = 0
    """Games begin with 1 to this many steps without an action; 0 for none."""
    fire_reset: bool = False
    """Begin games that wait for it with the action FIRE."""
    episodic_life: bool = False
    """End an episode with every lost life; evaluations play whole games."""
    clip_reward: bool = False
    """Learn from the sign of rewards; scores and evaluations use the rewards themselves."""
    joint_actions: bool = False
    """Turn a MultiDiscrete action space into one discrete action over all combinations."""
    env_args: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments for gymnasium.make: JSON, or comma-separated key=value pairs."""
    packages: tuple[str, ...] = ()
    """Packages to import first, because they register environments."""
    env_files: tuple[str, ...] = ()
    """Python files to import first, because they register environments."""

    @classmethod
    def resolve_flags(cls, given: Settings) -> Settings:
        """What flags mean in the current folder.

        Files become absolute paths. A package that is not installed becomes a file if the current
        folder has one; packages in config files are never looked for there.
        """
        found = dict(given)
        files = [
            str(Path(name).expanduser().absolute())
            for name in _names(given, "env_file", "env_files")
        ]
        packages = []
        for name in _names(given, "import", "packages"):
            local = _in_current_folder(name)
            packages += [name] if local is None else []
            files += [] if local is None else [local]
        for alias in ("import", "packages", "env_file", "env_files"):
            found.pop(alias, None)
        if packages:
            found["packages"] = Setting(tuple(packages), "--import")
        if files:
            found["env_files"] = Setting(tuple(files), "--env-file")
        return found

    def modules(self, env: str) -> tuple[str, ...]:
        """The files and modules imported for the environment `env`, as in gym:module:Id."""
        prefix = env.partition(":")[2].rpartition(":")[0]
        return (*self.env_files, *self.packages, *filter(None, [prefix]))

    @property
    def preprocesses(self) -> bool:
        """Whether any setting changes what an environment shows or when its episodes end."""
        plain = GymConfig()
        return any(getattr(self, name) != getattr(plain, name) for name in PREPROCESSING)

    def expanded(self) -> GymConfig:
        """These settings with what `atari` stands for."""
        return replace(self, atari=False, **ATARI) if self.atari else self

    def for_evaluation(self) -> GymConfig:
        """These settings for whole episodes, each of which depends only on its own seed."""
        if self.atari or self.episodic_life or self.clip_reward:
            whole = replace(self.expanded(), episodic_life=False, clip_reward=False)
            return whole.for_evaluation()
        if self.backend == "vector":
            return replace(self, backend="sync")
        return replace(self, backend="process", min_ready=0) if self.backend == "async" else self

    def check(self) -> list[str]:
        """Invalid combinations, one sentence each."""
        wrong = []
        for key in ("render_mode", "max_episode_steps", "disable_env_checker", "id"):
            if key in self.env_args:
                instead = " Use max_steps." if key == "max_episode_steps" else ""
                wrong.append(f"env_args cannot hold {key!r}: it is set by the trainer.{instead}")
        wrong += [
            f"env_args.{key} = {value!r} is not a JSON value that a TOML file can hold."
            for key, value in self.env_args.items()
            if not _is_plain(value)
        ]
        wrong += [
            f"packages names {name!r}, which cannot be the name of a Python package."
            for name in self.packages
            if not all(part.isidentifier() for part in name.split("."))
        ]
        if self.min_ready and self.backend not in ("async", "auto"):
            wrong.append(f'min_ready is for the backend "async", not {self.backend!r}.')
        return wrong


def _names(given: Settings, *keys: str) -> list[str]:
    """The names under all of these keys."""
    values = [given[key].value for key in keys if key in given]
    return [name for value in values if isinstance(value, tuple | list) for name in value]


def _in_current_folder(name: str) -> str | None:
    """The path of a module of the current folder, unless an installed one has its name."""
    top = name.partition(".")[0]
    if not top.isidentifier() or find_spec(top) is not None:
        return None
    file, folder = Path.cwd() / f"{top}.py", Path.cwd() / top
    if file.is_file():
        return str(file)
    return str(folder) if (folder / "__init__.py").is_file() else None


def _is_plain(value: Any) -> bool:
    """Whether JSON and TOML can both hold a value; TOML has no null."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(member) for key, member in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, bool | int | str)
