"""The ids under which Gymnasium makes the native environments."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import pytest

from briskrl.envs.gym_ids import GYM_IDS, GymId, register_envs

ALIASES = {
    "Snake-10x10-features-v0",
    "Snake-10x10-flood-v0",
    "Snake-10x10-grid-v0",
    "BriskCartPole-v1",
    "Cage2-v0",
    "Cage2-competition-v0",
    "FuelBreak20-v0",
    "FuelBreak40-v0",
    "FuelBreakLandfire50-v0",
}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[0]


@pytest.mark.parametrize(
    "imports",
    [
        "import briskrl, gymnasium; briskrl.register_envs()",
        "import gymnasium, briskrl",
        "import gymnasium",
    ],
)
@pytest.mark.parametrize("name", ["briskrl/Snake-10x10-flood-v0", "Snake-10x10-flood-v0"])
def test_ids_are_registered_after_importing_the_package(imports: str, name: str) -> None:
    """Also through Gymnasium's "package:id" form, without an import."""
    prefix = "" if "briskrl" in imports else "briskrl:"
    made = run(
        f"{imports}\nenvs = gymnasium.make_vec('{prefix}{name}', num_envs=3)\n"
        "print(type(envs).__name__, envs.reset(seed=1)[0].shape)"
    )
    assert made == "SnakeVecEnv (3, 14)"


def test_registering_imports_no_environment() -> None:
    heavy = ("torch", "numba", "briskrl.envs.snake.env")
    code = f"import gymnasium, briskrl, sys; print([m for m in {heavy} if m in sys.modules])"
    assert run(code) == "[]"


def test_every_id_has_a_namespace_and_old_ids_remain_as_aliases() -> None:
    register_envs()
    register_envs()
    assert {entry.alias for entry in GYM_IDS if entry.alias} == ALIASES
    for entry in GYM_IDS:
        assert entry.id.startswith("briskrl/")
        spec = gymnasium.registry[entry.id]
        if entry.alias:
            alias = gymnasium.registry[entry.alias]
            assert (alias.entry_point, alias.kwargs) == (spec.entry_point, spec.kwargs)


@pytest.mark.parametrize("entry", GYM_IDS, ids=lambda entry: entry.name)
def test_ids_make_the_classes_that_they_name(entry: GymId) -> None:
    register_envs()
    quick = {"landscapes": 2} if entry.family == "wildfire" else {}
    env = gymnasium.make(entry.id, disable_env_checker=True, **quick)
    assert type(env.unwrapped).__name__ == f"{entry.prefix}Env"
    envs = gymnasium.make_vec(entry.id, num_envs=2, **quick)
    assert type(envs).__name__ == f"{entry.prefix}VecEnv"
    assert envs.single_observation_space == env.observation_space
    env.close()
    envs.close()
