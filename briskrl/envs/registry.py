"""The table of environment families; looking at it imports no environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from briskrl.core.errors import ConfigError, nearest
from briskrl.core.registry import Registry, load_object

if TYPE_CHECKING:
    from briskrl.core.spec import EnvSpec
    from briskrl.core.types import Array, Bools
    from briskrl.envs.base import VecEnv


@dataclass(frozen=True, slots=True)
class Player:
    """A hand-written player, as a baseline for training."""

    actions: str
    """Address "module:function" of observations (N, *obs) -> actions (N,); if the player has a
    memory, the address of a class whose objects are such functions."""
    needs: Mapping[str, object] = field(default_factory=dict)
    """Settings that it needs to read the observations."""

    def policy(self) -> HandWritten:
        """A new player, for one batch of games."""
        found = load_object(self.actions)
        return HandWritten(found() if isinstance(found, type) else found)


class HandWritten:
    """A hand-written player as a policy.

    Players with a memory have a method `restart`, which takes a mask (N,) of new episodes.
    """

    def __init__(self, decide: Callable[[Array], Array]) -> None:
        self._decide = decide
        self.restart: Callable[[Bools], None] | None = getattr(decide, "restart", None)

    def act(self, obs: Array, mask: Bools | None) -> Array:
        """Actions (N,) for observations (N, *obs)."""
        return self._decide(obs)

    def fitted(self, spec: EnvSpec) -> HandWritten:
        """The same player, which needs no network of the right size."""
        return self


class Teacher(Protocol):
    """A player whose actions an agent can be pretrained on, in one batch of environments.

    Teachers read the environments themselves, not observations, so they can teach agents with any
    observation.
    """

    def prepare(self) -> bool:
        """Do some of the planning, a few seconds if possible; False if everything is planned."""
        ...

    def actions(self) -> Array:
        """The next actions, (N,) or (N, D)."""
        ...

    def state(self) -> dict[str, Array]:
        """The plans made so far; games are part of the state of the environments."""
        ...

    def load_state(self, arrays: dict[str, Array]) -> None:
        """Continue with saved plans."""
        ...


@dataclass(frozen=True, slots=True)
class EnvFamily:
    """An environment family; everything in it is known without importing the environment."""

    name: str
    summary: str
    """One line for listings."""
    config: str
    """Address "module:Class" of the settings dataclass; importing it must be cheap."""
    factory: str
    """Address "module:function" of (num_envs, config, *, threads, hold_ended) -> VecEnv; in a
    family with members, the member comes first and `render_mode` last."""
    players: Mapping[str, Player] = field(default_factory=dict)
    """Hand-written players by name, the best first."""
    suites: Mapping[str, str] = field(default_factory=dict)
    """Official evaluations by name: addresses "module:function" of an `evaluation_suites.Suite`."""
    teacher: str = ""
    """Address "module:function" of (env, name) -> Teacher; empty if there are no teachers."""
    teachers: tuple[str, ...] = ()
    """Names that `teacher` knows."""
    memory: str = ""
    """Address "module:function" of settings -> an `export.acting.ObservationMemory`, or None; empty
    if observations depend on nothing but the present. Importing it imports no Numba."""
    member: str = ""
    """Example of a member, the part of a name after the colon; empty if there are no members."""
    steps_in_python: bool = False
    """Whether environments are stepped one by one in Python in general, which makes steps expensive
    compared with updates."""

    def load_config(self) -> type[Any]:
        """The settings dataclass."""
        found: type[Any] = load_object(self.config)
        return found

    def load_factory(self) -> Callable[..., VecEnv]:
        """The function that builds a batch."""
        found: Callable[..., VecEnv] = load_object(self.factory)
        return found


class EnvRegistry(Registry[EnvFamily]):
    """Families by name; `family:member` stands for the family if it has members."""

    def __contains__(self, name: str) -> bool:
        family, colon, member = name.partition(":")
        if not super().__contains__(family):
            return False
        return not colon or bool(member and super().get(family).member)

    def get(self, name: str) -> EnvFamily:
        """The family of a name.

        Raises:
            ConfigError: The name is unknown; the message carries the nearest known ones.
        """
        family, colon, member = name.partition(":")
        if not super().__contains__(family):
            raise ConfigError(f"Unknown env {name!r}. {nearest(family, self)}")
        found = super().get(family)
        if colon and not found.member:
            raise ConfigError(f"Unknown env {name!r}. {family!r} is one environment.")
        if colon and not member:
            raise ConfigError(f"{name!r} names no environment. Try {family}:{found.member}.")
        return found


ENVS = EnvRegistry("env")
ENVS.add(
    "snake",
    EnvFamily(
        name="snake",
        summary="Snake on a walled board, compiled; features, reachable space or planes",
        config="briskrl.envs.snake.config:SnakeConfig",
        factory="briskrl.envs.snake.env:build",
        players={
            "heuristic": Player(
                "briskrl.envs.snake.players:heuristic_actions",
                needs={"obs": "flood", "actions": "relative", "mirror": False},
            )
        },
    ),
)
ENVS.add(
    "cartpole",
    EnvFamily(
        name="cartpole",
        summary="CartPole-v1 of Gymnasium, compiled",
        config="briskrl.envs.cartpole.config:CartPoleConfig",
        factory="briskrl.envs.cartpole.env:build",
        players={"heuristic": Player("briskrl.envs.cartpole.players:heuristic_actions")},
    ),
)
_ALL_ACTIONS = {"actions": "full", "mask": "none"}
ENVS.add(
    "cage2",
    EnvFamily(
        name="cage2",
        summary="CAGE challenge 2, cyber defense of a network, exact in both editions, compiled",
        config="briskrl.envs.cage2.config:Cage2Config",
        factory="briskrl.envs.cage2.env:build",
        players={
            "heuristic": Player("briskrl.envs.cage2.players:Heuristic", needs=_ALL_ACTIONS),
            "react-restore": Player("briskrl.envs.cage2.players:ReactRestore", needs=_ALL_ACTIONS),
            "sleep": Player("briskrl.envs.cage2.players:sleep_actions", needs=_ALL_ACTIONS),
        },
        suites={"cage2": "briskrl.envs.cage2.suite:score"},
        memory="briskrl.envs.cage2.blue_memory:blue_memory",
    ),
)
_PLANNED = "briskrl.envs.wildfire.players:planned_actions"
_BASELINES = (
    *("dpv-iterative", "dpv-static", "local-search", "greedy"),
    *("betweenness", "burn-prob", "line"),
)
ENVS.add(
    "wildfire",
    EnvFamily(
        name="wildfire",
        summary="Fuel breaks against wildfires on synthetic and real landscapes, compiled",
        config="briskrl.envs.wildfire.config:WildfireConfig",
        factory="briskrl.envs.wildfire.env:build",
        players={
            name: Player(
                _PLANNED,
                needs={"plan": name, "obs_channels": ("plan", "legal"), "cells_per_step": 1},
            )
            for name in _BASELINES
        },
        suites={
            name: f"briskrl.envs.wildfire.suite:{name.replace('-', '_')}"
            for name in (
                *("wildfire20", "wildfire20-full", "wildfire40", "landfire50"),
                "wildfire-own",
            )
        },
        teacher="briskrl.envs.wildfire.planning.teacher:Demonstrator",
        teachers=("dpv", *_BASELINES, "random"),
    ),
)
ENVS.add(
    "ordered-visit",
    EnvFamily(
        name="ordered-visit",
        summary="A grid whose regions have to be visited in a hidden order, compiled",
        config="briskrl.envs.ordered_visit.config:OrderedVisitConfig",
        factory="briskrl.envs.ordered_visit.env:build",
        players={"nearest": Player("briskrl.envs.ordered_visit.players:Nearest")},
    ),
)
ENVS.add(
    "gym",
    EnvFamily(
        name="gym",
        summary="Any Gymnasium environment by its id, as in gym:CartPole-v1",
        config="briskrl.envs.gym.config:GymConfig",
        factory="briskrl.envs.gym.backend_selection:build",
        member="CartPole-v1",
        steps_in_python=True,
    ),
)
ENVS.add(
    "workflow",
    EnvFamily(
        name="workflow",
        summary="An environment whose policy has to obey a workflow, as in workflow:cage2",
        config="briskrl.envs.workflow.config:WorkflowEnvConfig",
        factory="briskrl.envs.workflow.build:build",
        member="cage2",
    ),
)
ENVS.add(
    "given",
    EnvFamily(
        name="given",
        summary="An environment passed from Python: train(config, env=...)",
        config="briskrl.envs.gym.config:GymConfig",
        factory="briskrl.envs.external:build",
        steps_in_python=True,
    ),
)


def check_teacher(env: str, name: str) -> None:
    """Check that an environment has a teacher of this name.

    Raises:
        ConfigError: It has none.
    """
    known = ENVS.get(env).teachers
    if not known:
        raise ConfigError(f"The environment {env!r} has no teachers to pretrain from.")
    if name not in known:
        raise ConfigError(
            f"The environment {env!r} has no teacher {name!r}. {nearest(name, known)}"
        )


def make_teacher(family: str, name: str, env: VecEnv) -> Teacher:
    """A teacher for a batch of environments, which has planned nothing yet.

    Raises:
        ConfigError: There is no such teacher.
    """
    check_teacher(family, name)
    found: Teacher = load_object(ENVS.get(family).teacher)(env, name)
    return found
