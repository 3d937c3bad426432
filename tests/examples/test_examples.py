"""The programs in `examples/` run and learn."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from briskrl.algos.losses import PolicyTerms, surrogate, value_error
from briskrl.algos.ppo.kernels.gae import gae

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_custom_environment_is_learned(capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLES / "custom_env.py"))["main"]
    assert main(episodes=50) > 0.9
    assert "arrived" in capsys.readouterr().out


def test_a_compiled_environment_trains_in_a_loop_of_ones_own() -> None:
    main = runpy.run_path(str(EXAMPLES / "gymnasium_vec.py"))["main"]
    assert main(iterations=60, num_envs=128, horizon=64) > 60


def test_the_single_file_ppo_learns_cartpole() -> None:
    module = runpy.run_path(str(EXAMPLES / "ppo_single_file.py"))
    # A random policy holds the pole for about 22 steps.
    assert module["train"](module["Config"](total_timesteps=40_000)) > 80


def test_the_loss_of_the_single_file_ppo_is_that_of_the_package() -> None:
    module = runpy.run_path(str(EXAMPLES / "ppo_single_file.py"))
    config = module["Config"](clip_coef=0.1, ent_coef=0.03, vf_coef=0.7)
    torch.manual_seed(0)
    log_prob, old_log_prob, advantage, value, returns, entropy = torch.randn(6, 200)
    loss = module["ppo_loss"](log_prob, entropy, value, old_log_prob, advantage, returns, config)
    terms = PolicyTerms(
        policy=surrogate(log_prob, old_log_prob, advantage, config.clip_coef),
        value=value_error(value, value, returns, clip=0.0),
        entropy=entropy,
        log_ratio=log_prob - old_log_prob,
    )
    expected = terms.loss(value_coef=config.vf_coef, entropy_coef=config.ent_coef).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_advantages_of_the_single_file_ppo_are_those_of_the_package() -> None:
    module = runpy.run_path(str(EXAMPLES / "ppo_single_file.py"))
    rng = np.random.default_rng(0)
    steps, num_envs = 20, 7
    reward, value, final_value = rng.standard_normal((3, steps + 1, num_envs)).astype(np.float32)
    terminated, truncated = rng.random((2, steps + 1, num_envs)) < 0.15
    truncated &= ~terminated
    advantage, returns = np.zeros((2, steps + 1, num_envs), np.float32)
    weight, settings = np.ones_like(reward), np.array([0.9, 0.8, 1.0, np.inf])
    gae(reward, value, final_value, terminated, truncated, weight, settings, advantage, returns)
    rollout = module["Rollout"].allocate(steps, num_envs, inputs=1)
    rollout.rewards, rollout.values = torch.tensor(reward[:-1]), torch.tensor(value[:-1])
    rollout.ended = torch.tensor(terminated | truncated)[:-1].float()
    rollout.final_values = torch.tensor(final_value * truncated)[:-1]
    found = module["gae"](rollout, torch.tensor(value[-1]), 0.9, 0.8)
    for tensor, expected in zip(found, (advantage, returns), strict=True):
        np.testing.assert_allclose(tensor.numpy(), expected[:-1], atol=1e-5)
