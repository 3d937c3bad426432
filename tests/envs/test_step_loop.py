"""The generic step loop: one compiled kernel per family, found again in the cache."""

from __future__ import annotations

import subprocess
import sys

from briskrl.envs.cage2.kernels.step import KERNELS as CAGE2
from briskrl.envs.cage2.kernels.step import replay
from briskrl.envs.cartpole.kernels.step import KERNELS as CARTPOLE
from briskrl.envs.gym.compiled.kernels.cartpole import KERNELS as GYM_CARTPOLE
from briskrl.envs.kernels.step_loop import StepMode
from briskrl.envs.snake.kernels.step import KERNELS as SNAKE
from briskrl.envs.wildfire.kernels.step import KERNELS as WILDFIRE

FAMILIES = (SNAKE, CARTPOLE, CAGE2, WILDFIRE, GYM_CARTPOLE)
STEPPED = """
from briskrl.envs.cartpole.env import CartPoleVecEnv
env = CartPoleVecEnv(3)
env.reset(seed=1)
env.step([0, 1, 0])
stats = env.kernels.step.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_every_family_has_its_own_files_in_the_cache() -> None:
    compiled = [kernel for family in FAMILIES for kernel in (family.step, family.parallel_step)]
    caches = [kernel._cache for kernel in (*compiled, replay)]
    names = {(cache.cache_path, cache._name) for cache in caches}
    assert len(names) == len(compiled) + 1


def test_a_second_process_finds_the_compiled_step() -> None:
    run(STEPPED)
    assert run(STEPPED) == "1 0"


def test_modes_are_numbered_in_the_order_that_kernels_rely_on() -> None:
    assert [mode.value for mode in StepMode] == [0, 1, 2, 3, 4]
    assert [mode.name for mode in StepMode if mode < StepMode.RESET] == [
        "SAME_STEP",
        "NEXT_STEP",
        "DISABLED",
    ]
