"""Evaluation during training: it disturbs nothing, keeps the best policy, and resumes exactly."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import briskrl
from briskrl.cli.main import main
from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.training.evaluate import evaluate_agent, load_policy
from briskrl.training.hooks import StopRequest
from briskrl.training.loop import resume, train
from briskrl.training.periodic_evaluation import PeriodicEvaluation
from briskrl.training.reporter import SilentReporter
from briskrl.training.storage.safetensors_io import read_tensors
from tests.training.runs import fused_config, policy_hash

EVALUATED = {"eval_every": 500, "eval_episodes": 12}


def config(run_dir, preset="dqn", **options):
    return fused_config(run_dir, preset, **{"env": "cartpole", "steps": 3000, **options})


def evaluations(run):
    return [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]


class Notes(SilentReporter):
    def __init__(self):
        self.notes = []

    def on_note(self, text):
        self.notes.append(text)


@pytest.mark.parametrize("preset", ["dqn", "noisy-dqn", "ppo"])
def test_evaluation_changes_nothing_in_training(tmp_path, preset):
    train(config(tmp_path / "plain", preset))
    train(config(tmp_path / "evaluated", preset, **EVALUATED))
    assert policy_hash(tmp_path / "evaluated") == policy_hash(tmp_path / "plain")
    episodes = [(tmp_path / run / "episodes.csv").read_bytes() for run in ("plain", "evaluated")]
    assert episodes[0] == episodes[1]
    assert not (tmp_path / "plain" / "evaluations.jsonl").exists()
    assert not (tmp_path / "plain" / "best_policy").exists()


def test_evaluations_are_due_at_every_multiple(tmp_path):
    reporter = Notes()
    result = train(config(tmp_path / "run", **EVALUATED), reporter=reporter)
    found = evaluations(tmp_path / "run")
    # An iteration collects 16 transitions.
    assert [-(-step // 16) * 16 for step in range(500, 3001, 500)] == [
        row["env_steps"] for row in found
    ]
    assert all(row["episodes"] == 12 for row in found)
    assert sum("evaluation after" in note for note in reporter.notes) == len(found)
    best = max(found, key=lambda row: row["mean_score"])
    assert result.best_evaluation == best


def test_the_best_policy_is_kept_next_to_the_last(tmp_path):
    run = tmp_path / "run"
    result = train(config(run, "ppo", steps=12_000, **{**EVALUATED, "eval_every": 2000}))
    best = result.best_evaluation
    seed = PeriodicEvaluation(config(run, "ppo", **EVALUATED))._seed
    again = evaluate_agent(load_policy(run, best=True), episodes=12, seed=seed)
    assert again.mean_score == best["mean_score"]
    about = json.loads((run / "best_policy" / "policy.json").read_text())["description"]
    assert about["env_steps"] == best["env_steps"]
    assert about["evaluation"]["mean_score"] == best["mean_score"]
    policy = briskrl.load_policy(run, best=True)
    assert policy.act(np.zeros(4)) in (0, 1)


def test_a_resumed_run_evaluates_and_keeps_the_same(tmp_path):
    options = {**EVALUATED, "checkpoint_steps": 700}
    train(config(tmp_path / "whole", **options))
    # Stops between two checkpoints, after an evaluation that the checkpoint does not know.
    part = tmp_path / "part"
    train(config(part, **{**options, "steps": 2600}))
    newest = sorted((part / "checkpoints").glob("step_*"))[-1]
    shutil.rmtree(newest)
    before = sorted((part / "checkpoints").glob("step_*"))[-1]
    (part / "checkpoints" / "LATEST").write_text(before.name)
    resume(part, steps=3000)
    assert evaluations(part) == evaluations(tmp_path / "whole")
    assert policy_hash(part) == policy_hash(tmp_path / "whole")
    best = [
        read_tensors(run / "best_policy" / "model.safetensors")
        for run in (part, tmp_path / "whole")
    ]
    assert best[0].keys() == best[1].keys()
    assert all((best[0][name] == best[1][name]).all() for name in best[0])


def test_training_ends_when_an_evaluation_reaches_the_target(tmp_path):
    run, reporter = tmp_path / "run", Notes()
    options = {"eval_every": 500, "eval_episodes": 8, "steps": 100_000}
    result = train(config(run, "ppo", stop_at="score=20", **options), reporter=reporter)
    found = evaluations(run)
    assert result.stopped == "finished"
    assert result.env_steps == found[-1]["env_steps"] < 100_000
    assert found[-1]["mean_score"] >= 20
    assert all(row["mean_score"] < 20 for row in found[:-1])
    assert any("score=20 is reached" in note for note in reporter.notes)
    with pytest.raises(ConfigError, match="stop_at"):
        resume(run)
    # With another target it goes on.
    path = run / "config.toml"
    path.write_text(path.read_text().replace("score=20", "score=501"))
    further = resume(run, steps=result.env_steps + 1000)
    assert further.env_steps > result.env_steps


def test_a_run_that_was_stopped_ends_at_the_same_step(tmp_path):
    options = {"eval_every": 500, "eval_episodes": 8, "steps": 100_000, "stop_at": "score=20"}
    whole = train(config(tmp_path / "whole", "ppo", **options))

    def stop_early(recorder):
        if recorder.trainer.counters.env_steps >= whole.env_steps // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config(tmp_path / "part", "ppo", checkpoint_steps=300, **options), hooks=[stop_early])
    assert resume(tmp_path / "part").env_steps == whole.env_steps
    assert policy_hash(tmp_path / "part") == policy_hash(tmp_path / "whole")
    assert evaluations(tmp_path / "part") == evaluations(tmp_path / "whole")
    assert StopRequest().requested is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"stop_at": "score=20"}, "eval_every"),
        ({"stop_at": "475", "eval_every": 10}, "score=NUMBER"),
        ({"stop_at": "score=nan", "eval_every": 10}, "score=NUMBER"),
        ({"stop_at": "steps=3", "eval_every": 10}, "score=NUMBER"),
    ],
)
def test_impossible_targets_are_refused(tmp_path, options, problem):
    with pytest.raises(ConfigError, match=problem):
        train(config(tmp_path / "run", **options))
    assert not (tmp_path / "run").exists()


def test_an_environment_object_cannot_be_evaluated_meanwhile(tmp_path):
    import gymnasium

    env = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    with pytest.raises(ConfigError, match="made a second time"):
        train(config(tmp_path / "run", eval_every=100), env=env)
    assert not (tmp_path / "run").exists()


def test_without_evaluations_there_is_no_best_policy(tmp_path, capsys):
    run = tmp_path / "run"
    train(config(run, steps=300))
    with pytest.raises(RunFolderError, match="--eval-every"):
        load_policy(run, best=True)
    assert main(["eval", str(run), "--best"]) == 2
    assert "--eval-every" in capsys.readouterr().err
    assert main(["eval", "cartpole", "--best"]) == 2
    assert "environment" in capsys.readouterr().err


def test_the_command_evaluates_and_stops(tmp_path, capsys):
    run = tmp_path / "run"
    words = ["train", "cartpole", "--algo", "ppo", "--steps", "40000", "--num-envs", "16"]
    flags = ["--eval-every", "2000", "--eval-episodes", "6", "--stop-at", "score=15"]
    assert main([*words, *flags, "--engine", "fused", "--no-zoo", "--run-dir", str(run)]) == 0
    out = capsys.readouterr().out
    assert "over 6 episodes" in out
    assert "best     score" in out
    assert evaluations(run)[-1]["episodes"] == 6


def test_episodes_of_evaluations_need_evaluations(tmp_path, capsys):
    assert main(["train", "cartpole", "--eval-episodes", "5", "--print-config"]) == 2
    assert "--eval-every" in capsys.readouterr().err
    assert (
        main(["train", "cartpole", "--seeds", "2", "--eval-episodes", "5", "--print-config"]) == 0
    )
    assert "eval_episodes = 5" in capsys.readouterr().out
