"""Networks of the user: a torch module by its address."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from torch import Tensor, nn

from briskrl.core.errors import ConfigError
from briskrl.training.evaluate import evaluate, load_policy
from briskrl.training.loop import resume, train
from tests.training.runs import policy_hash, small_config

HERE = __name__


class TwoWays(nn.Module):
    """Dense layers with a way around them, and normalization."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.inner = nn.Linear(shape[0], 12, bias=False)
        self.norm = nn.LayerNorm(12)
        self.around = nn.Linear(shape[0], 12)

    def forward(self, obs: Tensor) -> Tensor:
        return self.norm(self.inner(obs)).relu() + self.around(obs)


class Normalized(nn.Module):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(shape[0])


class Square(nn.Module):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()

    def forward(self, obs: Tensor) -> Tensor:
        return obs[:, None]


@pytest.mark.parametrize("algo", ["ppo", "rainbow"])
def test_a_module_of_the_user_trains_resumes_and_is_evaluated(algo: str, tmp_path: Path) -> None:
    def config(name: str, steps: int):
        body = {"body": f"{HERE}:TwoWays"}
        path = tmp_path / name
        return small_config(
            path, algo, env="cartpole", num_envs=8, steps=steps, warmup=False, algo_config=body
        )

    train(config("whole", 960))
    assert train(config("parts", 480)).updates > 0
    resume(tmp_path / "parts", steps=960)
    assert policy_hash(tmp_path / "parts") == policy_hash(tmp_path / "whole")
    network = load_policy(tmp_path / "parts").policy.network
    assert any(isinstance(layer, TwoWays) for layer in network.modules())
    assert evaluate(tmp_path / "parts", episodes=2).mean_steps > 0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"{HERE}:Normalized", "has buffers"),
        (f"{HERE}:Square", "must map"),
        (f"{HERE}:Missing", "cannot be made"),
        ("no_such_module:Body", "ModuleNotFoundError"),
        ("wide", "must be one of auto"),
        ("a b:c", "must be one of auto"),
    ],
)
def test_bodies_that_cannot_be_used_are_refused(body: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        train(small_config(tmp_path / "r", "ppo", env="cartpole", algo_config={"body": body}))
    assert not (tmp_path / "r").exists()


def test_a_run_that_others_can_change_imports_no_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_body.py").write_text(
        "from tests.training.test_custom_body import TwoWays as Body\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    body = {"body": "own_body:Body"}
    config = small_config(
        tmp_path / "r", "ppo", env="cartpole", num_envs=4, steps=64, algo_config=body
    )
    train(config)
    (tmp_path / "r" / "policy" / "policy.json").chmod(0o666)
    (tmp_path / "r" / "config.toml").chmod(0o666)
    monkeypatch.delitem(sys.modules, "own_body")
    for work in (lambda: evaluate(tmp_path / "r", episodes=1), lambda: resume(tmp_path / "r")):
        with pytest.raises(ConfigError, match="own_body"):
            work()
    assert "own_body" not in sys.modules
