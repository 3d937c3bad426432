"""PPO compared with its peers: equal settings, whole rounds, consistent figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.compare import PeersBench
from benchmarks.peers.ppo_settings import CLEANRL_STYLE, DEFAULTS, EQUAL, PPOSettings, Scale
from briskrl.algos.ppo.config import PPOConfig
from briskrl.training.resolve import complete

pytest.importorskip("stable_baselines3")

from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

from benchmarks.peers import ppo
from benchmarks.peers.compare import measure_peers
from benchmarks.peers.dqn_sb3 import NEVER
from benchmarks.peers.ppo import Match, OurSlices
from benchmarks.peers.ppo_sb3 import WARM_UP_ROUNDS, RoundSliceCallback, build_ppo, make_envs

SMALL = Scale(num_envs=4, update_steps=8, minibatch_size=16, epochs=2)
SETTINGS = PPOSettings(SMALL, SMALL)
BENCH = PeersBench(slices=2, seconds=0.01)


def test_the_peer_trains_with_the_same_settings_as_ours() -> None:
    config = CLEANRL_STYLE.peer_config()
    model = build_ppo(make_envs("CartPole-v1", 4, seed=1), config, seed=1)
    assert isinstance(model.env, DummyVecEnv)
    assert model.n_steps == config.update_steps == 128
    assert model.batch_size == config.minibatch_size == 128
    assert model.n_epochs == config.epochs == 4
    assert (model.gamma, model.gae_lambda) == (config.gamma, config.gae_lambda)
    assert (model.ent_coef, model.vf_coef) == (config.entropy_coef, config.value_coef)
    assert model.max_grad_norm == config.max_grad_norm
    assert model.normalize_advantage == config.normalize_advantage
    for left in (1.0, 0.5, 0.0):
        assert model.lr_schedule(left) == config.lr == 2.5e-4
        assert model.clip_range(left) == config.clip == 0.2
        assert model.clip_range_vf(left) == config.clip_value == 0.2
    (group,) = model.policy.optimizer.param_groups
    assert (group["lr"], group["eps"]) == (config.lr, config.adam_eps)


def test_both_networks_have_the_same_layers(tmp_path: Path) -> None:
    model = build_ppo(make_envs("CartPole-v1", 64, seed=0), EQUAL.peer_config(), seed=0)
    ours = OurSlices(SETTINGS, BENCH, tmp_path / "run")
    try:
        mine = sorted(
            tuple(value.shape)
            for value in ours._loop.trainer.algo.model.network.parameters()  # type: ignore[attr-defined]
        )
    finally:
        ours.close()
    assert sorted(tuple(value.shape) for value in model.policy.parameters()) == mine
    body = model.policy.mlp_extractor
    kinds = [type(layer) for layer in (*body.policy_net, *body.value_net)]
    assert kinds == [nn.Linear, nn.Tanh] * 4


def test_without_value_clipping_the_peer_has_none_either() -> None:
    model = build_ppo(make_envs("CartPole-v1", 2, seed=0), PPOConfig(minibatch_size=64), 0)
    assert model.clip_range_vf is None


def test_the_settings_match_the_names_of_the_figures() -> None:
    for settings, ours, peer in (
        (EQUAL, (64, 32, 256), (64, 32, 256)),
        (CLEANRL_STYLE, (4, 128, 128), (4, 128, 128)),
        (DEFAULTS, (1024, 32, 4096), (64, 32, 256)),
    ):
        for scale, wanted in ((settings.ours, ours), (settings.peer, peer)):
            assert (scale.num_envs, scale.update_steps, scale.minibatch_size) == wanted
            assert scale.epochs == 4
    config = complete(DEFAULTS.our_config(0))
    assert (config.env, config.algo, config.num_envs) == ("gym:CartPole-v1", "ppo", 1024)
    assert config.env_config.backend == "auto"
    assert {EQUAL.backend, CLEANRL_STYLE.backend} == {"sync"}
    usual = PPOConfig()
    assert config.algo_config.update_steps == usual.update_steps
    assert config.algo_config.minibatch_size == usual.minibatch_size


def test_slices_of_the_peer_are_whole_rounds() -> None:
    model = build_ppo(make_envs("CartPole-v1", 4, seed=0), SETTINGS.peer_config(), seed=0)
    at = []
    callback = RoundSliceCallback(
        cpu_s=0.02,
        slices=3,
        between=lambda: at.append((model.num_timesteps, model._n_updates)),
    )
    model.learn(NEVER, callback=callback, log_interval=NEVER)
    assert len(callback.rates) == len(at) == 4
    assert min(callback.rates) > 0
    assert callback.rounds >= 1
    first = WARM_UP_ROUNDS * SMALL.rollout
    wanted = [first + k * callback.rounds * SMALL.rollout for k in range(4)]
    assert [step for step, _ in at] == wanted
    # The peer counts epochs: every collected rollout has been learned from.
    assert [epochs for _, epochs in at] == [step // SMALL.rollout * SMALL.epochs for step, _ in at]
    # It is stopped in the step after the last slice.
    assert model.num_timesteps == wanted[-1] + callback.rounds * SMALL.rollout + SMALL.num_envs


def test_our_slices_are_whole_rounds(tmp_path: Path) -> None:
    ours = OurSlices(SETTINGS, BENCH, tmp_path / "run")
    try:
        counters = ours._loop.trainer.counters
        updates = SMALL.epochs * SMALL.rollout // SMALL.minibatch_size
        for _ in range(2):
            begin = (counters.env_steps, counters.updates)
            assert begin[0] % SMALL.rollout == 0
            ours.run_slice()
            assert counters.env_steps - begin[0] == ours.rounds * SMALL.rollout
            assert counters.updates - begin[1] == ours.rounds * updates
    finally:
        ours.close()
    assert ours.notes == ()
    assert len(ours.rates) == 2
    assert min(ours.rates) > 0
    assert (tmp_path / "run" / "episodes.csv").stat().st_size > 0


def test_notes_name_the_backend_that_auto_chose(tmp_path: Path) -> None:
    ours = OurSlices(replace(SETTINGS, backend=DEFAULTS.backend), BENCH, tmp_path / "run")
    ours.close()
    (note,) = ours.notes
    assert note.endswith("so compiled.")


def test_figures_of_ppo_alone_leave_those_of_dqn_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EQUAL", "CLEANRL_STYLE", "DEFAULTS", "VECTOR"):
        monkeypatch.setattr(ppo, name, SETTINGS)
    figures = measure_peers(PeersBench(only="ppo", slices=1, seconds=0.01, peer_num_envs=40))
    assert figures.ratio is None
    assert figures.net is None
    found = figures.ppo
    assert found is not None
    for match in (found.equal, found.cleanrl, found.defaults, found.vector):
        assert isinstance(match, Match)
        assert match.ratio == pytest.approx(match.ours_steps_per_cpu_s / match.peer_steps_per_cpu_s)
        assert np.isfinite(match.ratio)
        assert match.ours == match.peer == SMALL
        assert min(match.ours_rounds, match.peer_rounds) >= 1
    assert found.env == "CartPole-v1"
    assert found.settings["lr_schedule"] == "constant"
    assert figures.whole is figures.stepping is None
