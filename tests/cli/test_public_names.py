"""The public interface: exactly these names, imported lazily."""

from __future__ import annotations

import subprocess
import sys

import pytest

import briskrl
from tests.cli.conftest import environment

NAMES = [
    "ActionTableTask",
    "BriskError",
    "Cage2Config",
    "CartPoleConfig",
    "ConfigError",
    "DQNConfig",
    "DivergedError",
    "EnvStepError",
    "EnvWorkerError",
    "EvalResult",
    "EvaluateEvery",
    "EventTask",
    "GymConfig",
    "OrderResult",
    "OrderSurrogate",
    "OrderedVisitConfig",
    "PPOConfig",
    "PQNConfig",
    "PhaseTimer",
    "RunFolderError",
    "RunResult",
    "Searcher",
    "SearcherConfig",
    "SnakeConfig",
    "Stage",
    "StopAtScore",
    "StorageError",
    "TrainConfig",
    "TuneConfig",
    "WildfireConfig",
    "Workflow",
    "WorkflowConfig",
    "WorkflowEnvConfig",
    "WorkflowSpace",
    "WorkflowTrainer",
    "WorkflowVecEnv",
    "__version__",
    "diagnose",
    "evaluate",
    "evaluate_workflow",
    "joint",
    "load_policy",
    "make_env",
    "register_envs",
    "resume",
    "search",
    "train",
    "tune",
]


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(briskrl.__all__) == sorted(NAMES)
    assert sorted(dir(briskrl)) == sorted(NAMES)


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = ("torch", "numba", "gymnasium", "numpy", "msgspec")
    assert run(f"import briskrl, sys; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_like_it"):
        briskrl.nothing_like_it  # noqa: B018


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"__version__"}))
def test_every_public_name_can_be_imported(name: str) -> None:
    assert callable(getattr(briskrl, name))


def test_tune_is_the_function_whatever_was_imported_before() -> None:
    first = "import briskrl, briskrl.tuning.run, briskrl.doctor"
    assert run(f"{first}; print(callable(briskrl.tune), callable(briskrl.diagnose))") == "True True"


def test_every_exception_is_a_brisk_error() -> None:
    errors = [getattr(briskrl, name) for name in NAMES if name.endswith("Error")]
    assert len(errors) == 7
    assert all(issubclass(error, briskrl.BriskError) for error in errors)


def test_the_old_name_of_the_ppo_config_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="briskrl.PPOConfig"):
        assert briskrl.OnPolicyConfig is briskrl.PPOConfig


@pytest.mark.parametrize(
    "first",
    ["pass", "import briskrl.training.config", "from briskrl import resume", "briskrl.train"],
)
def test_train_can_be_called_whatever_was_imported_before(first: str) -> None:
    later = "from briskrl import train; import briskrl.training.config as config"
    checks = "callable(briskrl.train), callable(train), config.TrainConfig.__name__"
    assert run(f"import briskrl; {first}; {later}; print({checks})") == "True True TrainConfig"
