"""Every environment and backend that the contract tests cover."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from briskrl.envs.base import VecEnv
from briskrl.envs.cage2.config import Cage2Config
from briskrl.envs.cartpole.config import CartPoleConfig
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.make import make_env
from briskrl.envs.ordered_visit.config import OrderedVisitConfig
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.envs.workflow.env import WorkflowVecEnv


@dataclass(frozen=True)
class Case:
    """One way to build an environment."""

    label: str
    name: str
    config: Any = None

    @property
    def native(self) -> bool:
        """Whether it is compiled; allocations of Python environments are not tested."""
        return "gym:" not in self.name or getattr(self.config, "backend", "") == "compiled"

    def make(self, num_envs: int, *, threads: int = 1) -> VecEnv:
        return make_env(self.name, num_envs, config=self.config, threads=threads)


def snake(label: str, **settings: Any) -> Case:
    return Case(f"snake-{label}", "snake", SnakeConfig(**settings))


def cage2(label: str, **settings: Any) -> Case:
    return Case(f"cage2-{label}", "cage2", Cage2Config(**settings))


def ordered_visit(label: str, **settings: Any) -> Case:
    settings = {"side": 8, "regions": 3, "region_size": 2, "max_steps": 25} | settings
    return Case(f"ordered-visit-{label}", "ordered-visit", OrderedVisitConfig(**settings))


def workflow(label: str, settings: dict[str, Any], **options: Any) -> Case:
    """CAGE-2 with a workflow; `settings` are those of the networks."""
    settings = {"length": 30} | settings
    config = WorkflowEnvConfig(task_config=settings, **options)
    return Case(f"workflow-{label}", "workflow:cage2", config)


def wildfire(label: str, **settings: Any) -> Case:
    """Small landscapes and few fires, because the contract is not about physics."""
    small = {"height": 6, "width": 7, "landscapes": 3, "n_weather": 2, "n_fires": 4, "obs_fires": 8}
    return Case(f"wildfire-{label}", "wildfire", WildfireConfig(**(small | settings)))


def gym(label: str, member: str, **settings: Any) -> Case:
    """A row for a Gymnasium environment; `backend="process"` and the like make other rows."""
    settings = {"backend": "sync", "packages": ("tests.envs.gym.toy_envs",)} | settings
    return Case(f"gym-{label}", f"gym:{member}", GymConfig(**settings))


CASES = [
    Case("snake", "snake"),
    snake("features", obs="features"),
    snake("flood", obs="flood"),
    snake("extended", obs="extended"),
    snake("grid-float", obs="grid", grid_dtype="float32"),
    snake("grid-bytes", obs="grid", grid_dtype="uint8", grid_reachable=True),
    snake("grid-ego", obs="grid", grid_frame="ego", grid_center="head", grid_reachable=True),
    snake("masks", obs="flood", masks=True),
    snake("absolute", actions="absolute", masks=True, height=4, width=6, hunger_limit=25),
    snake("mirror", obs="extended", mirror=True, masks=True),
    snake("random-start", start="random", height=5, width=9, shaping=0.5, max_steps=30),
    snake("cycle-start", start="cycle", start_mix=0.5, obs="grid", height=6, width=6),
    snake("solid-tail", tail_rule="solid", height=4, width=4, masks=True),
    snake("large", height=20, width=20, obs="flood", start="cycle"),
    Case("cartpole", "cartpole"),
    Case("cartpole-short", "cartpole", CartPoleConfig(max_steps=15)),
    cage2("meander", red="meander", length=30),
    cage2("green", red="bline", length=50, green=True, view="wrapper2", terminal=True),
    cage2("masks", length=30, edition="competition", mask="useful"),
    cage2("reduced", length=30, actions="reduced", mask="useful", decoy_memory="full"),
    cage2(
        "memories",
        length=30,
        frames=3,
        scan_memory=True,
        decoy_memory="count",
        event_memory=True,
        restore_memory=True,
        clock=True,
        mask="legal",
    ),
    cage2("response", length=30, response_prob=0.4, start_compromised=5),
    workflow("drawn", {"red": "meander", "response_prob": 0.5}),
    workflow("fixed", {"mask": "useful"}, workflow="outside-in", alignment_mode="step"),
    workflow(
        "reduced",
        {"actions": "reduced", "mask": "useful", "start_compromised": 4, "frames": 2},
        encoding="pairwise",
        require=("op_server>user",),
    ),
    ordered_visit("small"),
    ordered_visit("large", side=20, regions=4, region_size=4),
    Case(
        "workflow-ordered-visit",
        "workflow:ordered-visit",
        WorkflowEnvConfig(
            task_config={"side": 7, "regions": 3, "region_size": 2, "max_steps": 30},
            encoding="rank",
        ),
    ),
    wildfire("delta", budget_frac=0.2),
    wildfire("several-cells", cells_per_step=3, budget_frac=0.25, fires="fresh", n_settlements=1),
    wildfire("fixed", fires="fixed", reward="terminal", directions=8, obs="minimal"),
    wildfire("landfire", source="landfire", reward="relative", directions=32),
    Case(
        "workflow-gym",
        "workflow:gym:brisktest/Subnets-v0",
        WorkflowEnvConfig(
            task="tests.envs.workflow.subnets:by_action", task_config={"backend": "sync"}
        ),
    ),
    gym("cartpole", "CartPole-v1"),
    gym("compiled-cartpole", "CartPole-v1", backend="compiled"),
    gym("compiled-short", "CartPole-v0", backend="compiled", max_steps=15),
    gym("box-actions", "Pendulum-v1", max_steps=40),
    gym("dict", "brisktest/DictWorld-v0"),
    gym("image", "brisktest/ImageWorld-v0"),
    gym("several-actions", "brisktest/MultiWorld-v0"),
    gym("joint-actions", "brisktest/MultiWorld-v0", joint_actions=True),
    gym("shifted-actions", "brisktest/ShiftedWorld-v0"),
    gym("masks", "brisktest/MaskInfoWorld-v0"),
    gym("own-state", "brisktest/SpeakingWorld-v0"),
    gym("hidden-state", "brisktest/HiddenWorld-v0"),
    gym("process-masks", "brisktest/MaskInfoWorld-v0", backend="process", workers=2),
    gym("process-image", "brisktest/ImageWorld-v0", backend="process", workers=2),
    gym("async-box-actions", "Pendulum-v1", max_steps=40, backend="async", workers=2),
]

every_case = pytest.mark.parametrize("case", CASES, ids=[case.label for case in CASES])
NATIVE = [case for case in CASES if case.native]
native_case = pytest.mark.parametrize("case", NATIVE, ids=[case.label for case in NATIVE])


@contextmanager
def opened(case: Case, num_envs: int, *, threads: int = 1) -> Iterator[VecEnv]:
    env = case.make(num_envs, threads=threads)
    try:
        yield env
    finally:
        env.close()


def stepped(env: VecEnv) -> VecEnv:
    """The environments that step by themselves: those below a workflow."""
    return env.inner if isinstance(env, WorkflowVecEnv) else env
