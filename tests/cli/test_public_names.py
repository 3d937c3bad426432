"""What `import briskrl` promises."""

from __future__ import annotations

import subprocess
import sys

import pytest

import briskrl
from tests.cli.conftest import environment

NAMES = [
    "DQNConfig",
    "GymConfig",
    "PPOConfig",
    "SnakeConfig",
    "Stage",
    "TrainConfig",
    "__version__",
    "evaluate",
    "load_policy",
    "make_env",
    "resume",
    "train",
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


@pytest.mark.parametrize(
    "first",
    ["pass", "import briskrl.training.config", "from briskrl import resume", "briskrl.train"],
)
def test_train_can_be_called_whatever_was_imported_before(first: str) -> None:
    later = "from briskrl import train; import briskrl.training.config as config"
    checks = "callable(briskrl.train), callable(train), config.TrainConfig.__name__"
    assert run(f"import briskrl; {first}; {later}; print({checks})") == "True True TrainConfig"
