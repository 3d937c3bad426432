"""The training loop, tested on short runs of Snake."""

from __future__ import annotations

import csv
import math
import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from briskrl.algos.ppo.gae import AdvantageEstimator
from briskrl.algos.registry import ALGOS
from briskrl.core.errors import ConfigError, DivergedError, RunFolderError
from briskrl.core.phase import PhaseTimer
from briskrl.training import progress_meter, trainer
from briskrl.training.loop import resume, train
from briskrl.training.reporter import SilentReporter
from briskrl.training.storage.checkpoint import list_checkpoints
from briskrl.training.storage.line_files import read_jsonl
from tests.training.runs import fused_config, policy_hash, small_config


def test_equal_seeds_give_equal_parameters_and_other_seeds_do_not(tmp_path):
    first = train(fused_config(tmp_path / "a"))
    train(fused_config(tmp_path / "b"))
    train(fused_config(tmp_path / "c", seed=6))
    assert first.updates > 0
    assert policy_hash(tmp_path / "a") == policy_hash(tmp_path / "b")
    assert policy_hash(tmp_path / "a") != policy_hash(tmp_path / "c")


@pytest.mark.parametrize("preset", ["dqn", "rainbow", "ppo", "a2c"])
def test_a_warm_up_does_not_change_the_training(tmp_path, preset):
    with_warmup = train(fused_config(tmp_path / "with", preset))
    without = train(fused_config(tmp_path / "without", preset, warmup=False))
    assert with_warmup.warmup_s > 0 == without.warmup_s
    assert policy_hash(tmp_path / "with") == policy_hash(tmp_path / "without")
    episodes = [(tmp_path / name / "episodes.csv").read_text() for name in ("with", "without")]
    assert episodes[0] == episodes[1]


def test_rollouts_of_one_step_are_trained_on_with_a_warm_up(tmp_path):
    table = {"update_steps": 1, "minibatch_size": 8}
    hashes = []
    for name, warmup in (("with", True), ("without", False)):
        config = fused_config(tmp_path / name, "a2c", warmup=warmup, steps=64, algo_config=table)
        assert train(config).updates > 0
        hashes.append(policy_hash(tmp_path / name))
    assert hashes[0] == hashes[1]


def test_a_warm_up_covers_rollout_reuse_and_does_not_change_the_training(tmp_path, monkeypatch):
    estimate, ages = AdvantageEstimator.estimate, []

    def watched(self, rollout, engine):
        ages.append(rollout.age)
        estimate(self, rollout, engine)

    monkeypatch.setattr(AdvantageEstimator, "estimate", watched)
    for name, warmup, first in (("with", True, 1), ("without", False, 0)):
        train(fused_config(tmp_path / name, "ppo", warmup=warmup, algo_config={"reuse": 1}))
        assert ages[0] == first
        assert set(ages) == {0, 1}
        ages.clear()
    assert policy_hash(tmp_path / "with") == policy_hash(tmp_path / "without")


@pytest.mark.parametrize("preset", list(ALGOS))
def test_a_resumed_run_is_bit_identical_to_an_uninterrupted_one(tmp_path, preset):
    env_config = {"obs": "flood", "masks": True, "height": 6, "width": 6}
    config = fused_config(tmp_path / "whole", preset, env_config=env_config, steps=2000)
    train(config)
    train(replace(config, run_dir=str(tmp_path / "parts"), steps=900))
    resume(tmp_path / "parts", steps=1500)
    resume(tmp_path / "parts", steps=2000)
    assert policy_hash(tmp_path / "parts") == policy_hash(tmp_path / "whole")
    whole, parts = ((tmp_path / name / "episodes.csv").read_text() for name in ("whole", "parts"))
    assert whole == parts


def test_checkpoints_do_not_change_the_training(tmp_path):
    train(fused_config(tmp_path / "plain"))
    train(fused_config(tmp_path / "saving", checkpoint_steps=500, keep_checkpoints=3))
    assert policy_hash(tmp_path / "plain") == policy_hash(tmp_path / "saving")
    assert len(list_checkpoints(tmp_path / "saving" / "checkpoints")) == 3


@pytest.mark.parametrize("num_envs", [1, 7, 64, 250])
@pytest.mark.parametrize("ratio", [0.004, "fast", 0.37, 1.0])
def test_updates_follow_the_ratio_exactly_for_any_number_of_envs(tmp_path, num_envs, ratio):
    config = small_config(
        tmp_path / "run", num_envs=num_envs, steps=1200, algo_config={"train_steps_ratio": ratio}
    )
    result = train(config)
    number = {"fast": 0.03125}.get(ratio, ratio)
    earning = result.env_steps - result.learning_starts
    assert result.updates == math.floor(round(earning * number, 9))
    assert result.updates_per_transition == result.updates / earning


def test_the_counters_agree_with_one_another_and_with_the_files(tmp_path):
    result = train(small_config(tmp_path / "run"))
    assert result.env_steps == 3008
    assert result.steps_per_episode == result.env_steps / result.episodes
    with (tmp_path / "run" / "episodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == result.episodes
    assert sum(int(row["steps"]) for row in rows) <= result.env_steps
    last = [float(row["return"]) for row in rows][-1000:]
    assert result.mean_return == pytest.approx(np.mean(last), rel=1e-5)
    metrics = list(read_jsonl(tmp_path / "run" / "metrics.jsonl"))
    assert metrics[-1]["env_steps"] == result.env_steps
    assert metrics[-1]["updates"] == result.updates


class Ticks:
    """A clock that moves on by a millisecond whenever it is read."""

    def __init__(self):
        self.ms = 0

    def ns(self):
        self.ms += 1
        return self.ms * 1_000_000

    def seconds(self):
        return self.ns() / 1e9


def test_phases_cover_the_wall_time(tmp_path, monkeypatch):
    clock = Ticks()
    monkeypatch.setattr(trainer, "PhaseTimer", lambda: PhaseTimer(clock.ns))
    monkeypatch.setattr(progress_meter, "perf_counter", clock.seconds)
    result = train(small_config(tmp_path / "run"))
    phases = result.phases
    # A phase takes one tick whenever it is entered.
    each_step = result.env_steps / 16 / 1000
    assert [phases[name] for name in ("act", "env", "store")] == pytest.approx([each_step] * 3)
    assert 0 < phases["sample"] == pytest.approx(phases["update"])
    assert phases["update"] <= each_step < phases["log"]
    # Begin and end are read a few ticks apart.
    assert sum(phases.values()) == pytest.approx(result.wall_s, abs=0.005)


@pytest.mark.parametrize(
    "budget",
    [{"episodes": 32}, {"max_episodes": 2}, {"episodes": 32, "max_episodes": 2, "steps": 10**9}],
)
def test_budgets_of_episodes_agree_with_one_another(tmp_path, budget):
    result = train(small_config(tmp_path / "run", "ppo", **{"steps": None, **budget}))
    assert 32 <= result.episodes < 48
    assert result.env_steps < 10_000


def test_conflicting_budgets_raise(tmp_path):
    with pytest.raises(ConfigError, match="is 32 in total, but episodes is 5"):
        train(small_config(tmp_path / "run", episodes=5, max_episodes=2))
    assert not (tmp_path / "run").exists()


def test_an_episode_budget_stops_the_run(tmp_path):
    result = train(small_config(tmp_path / "run", steps=10**9, episodes=40))
    assert 40 <= result.episodes <= 40 + 16


def test_an_existing_folder_raises_and_is_not_changed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("precious")
    with pytest.raises(RunFolderError, match="already exists"):
        train(small_config(tmp_path / "run"))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine.txt"]


def test_a_config_that_fails_late_writes_nothing(tmp_path):
    with pytest.raises(ConfigError, match="planes"):
        train(small_config(tmp_path / "run", algo_config={"body": "cnn"}))
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_says_how_to_train_it_further(tmp_path):
    train(small_config(tmp_path / "run"))
    with pytest.raises(ConfigError, match="--steps"):
        resume(tmp_path / "run")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_last_iteration_leaves_a_finished_run(tmp_path, number):
    config = fused_config(tmp_path / "run", warmup=False, steps=960)

    def interrupt(recorder):
        if recorder.trainer.counters.env_steps >= config.steps:
            os.kill(os.getpid(), number)

    assert train(config, hooks=[interrupt]).stopped == "finished"
    train(replace(config, run_dir=str(tmp_path / "whole")))
    assert policy_hash(tmp_path / "run") == policy_hash(tmp_path / "whole")


class Notes(SilentReporter):
    def __init__(self):
        self.notes = []

    def on_note(self, text):
        self.notes.append(text)


def test_a_resume_from_the_previous_checkpoint_ends_with_the_same_parameters(tmp_path):
    train(fused_config(tmp_path / "whole"))
    train(fused_config(tmp_path / "run", checkpoint_steps=1000, keep_checkpoints=2, steps=2000))
    newest = list_checkpoints(tmp_path / "run" / "checkpoints")[0]
    model = newest / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-7])
    notes = Notes()
    resume(tmp_path / "run", steps=3000, reporter=notes)
    assert newest.name in " ".join(notes.notes)
    assert policy_hash(tmp_path / "run") == policy_hash(tmp_path / "whole")


def test_a_run_killed_before_its_first_checkpoint_starts_again(tmp_path):
    train(fused_config(tmp_path / "whole"))
    config = fused_config(tmp_path / "run", steps=640)
    train(config)
    for name in ("checkpoints", "policy"):
        shutil.rmtree(tmp_path / "run" / name)
    notes = Notes()
    resume(tmp_path / "run", steps=3000, reporter=notes)
    assert "beginning" in " ".join(notes.notes)
    assert policy_hash(tmp_path / "run") == policy_hash(tmp_path / "whole")


def test_non_finite_losses_stop_the_run_and_keep_the_last_checkpoint(tmp_path):
    config = small_config(tmp_path / "run", checkpoint_steps=160, env_config={"reward_step": -0.01})

    def poison(run):
        if run.trainer.counters.env_steps > 1000:
            run.trainer.algo.model.online_flat.values.fill_(float("nan"))

    with pytest.raises(DivergedError, match="diverged_batch"):
        train(config, hooks=[poison])
    assert (tmp_path / "run" / "diverged_batch.safetensors").is_file()
    assert list_checkpoints(tmp_path / "run" / "checkpoints")


def test_training_restores_the_torch_settings_of_the_process(tmp_path):
    torch.set_num_threads(2)
    train(small_config(tmp_path / "run", steps=64))
    assert torch.get_num_threads() == 2
    assert float(np.float32(1e-39) * np.float32(0.5)) > 0
    with pytest.raises(RunFolderError):
        train(small_config(tmp_path / "run", steps=64))
    assert torch.get_num_threads() == 2
