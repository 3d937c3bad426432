"""Behavior cloning of a teacher before the first step: it works, runs once, and is exact."""

from __future__ import annotations

import shutil
import signal
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.core.errors import ConfigError, InvalidStateError
from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.envs.wildfire.env import WildfireVecEnv
from briskrl.envs.wildfire.landscape_pool import planned
from briskrl.envs.wildfire.planning.teacher import Demonstrator
from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import load_policy, run_suite
from briskrl.training.loop import resume, train
from briskrl.training.pretrain import Pretrainer, TeacherActor, pretrain
from briskrl.training.reporter import SilentReporter
from briskrl.training.resolve import complete
from briskrl.training.storage.checkpoint import Checkpointer, list_checkpoints
from briskrl.training.trainer import Trainer
from tests.algos.transitions import PLAIN
from tests.training.runs import policy_hash

SMALL = WildfireConfig(
    height=8,
    width=8,
    landscapes=1,
    obs_channels=("treated",),
    budget_frac=5 / 64,
    n_fires=8,
    n_weather=4,
    plan_fires=64,
)
PPO = {"update_steps": 5, "minibatch_size": 80, "net": (32,), "body": "mlp"}
PPO_TAUGHT = {**PPO, "pretrain_from": "dpv", "pretrain_steps": 120, "pretrain_lr": 3e-3}
DQN_TAUGHT = {
    "net": (32,),
    "body": "mlp",
    "lr": 3e-3,
    "gamma": 1.0,
    "learning_starts": 0,
    "epsilon_start": 0.1,
    "buffer_size": 512,
    "pretrain_from": "dpv-iterative",
    "pretrain_transitions": 320,
    "pretrain_steps": 200,
    "target_every": 20,
}


def config(run_dir: Path, algo: str = "ppo", env: WildfireConfig = SMALL, **options) -> TrainConfig:
    taught = PPO_TAUGHT
    if algo in DQN_PRESETS:
        taught = {**PLAIN, **DQN_PRESETS[algo], **DQN_TAUGHT}
    values = {"steps": 320, "num_envs": 16, "seed": 3, "checkpoint_seconds": 0.0, **options}
    table = {**taught, **values.pop("algo_config", {})}
    return TrainConfig(
        env="wildfire", env_config=env, algo=algo, algo_config=table, run_dir=str(run_dir), **values
    )


class Notes(SilentReporter):
    def __init__(self):
        self.notes = []

    def on_note(self, text):
        self.notes.append(text)

    def pretrained(self):
        return [note for note in self.notes if note.startswith("pretrained")]


def breaks(agent) -> set[int]:
    """Cells that an agent treats on the only landscape of its settings."""
    env = WildfireVecEnv(1, config=agent.env_config, autoreset_mode="Disabled")
    obs, infos = env.reset(seed=0)
    ended = False
    while not ended:
        obs, _, terminated, _, infos = env.step(agent.policy.act(obs, infos["action_mask"]))
        ended = bool(terminated[0])
    return set(np.flatnonzero(env.treated()[0]).tolist())


def plan_of(env: WildfireConfig) -> set[int]:
    member = WildfireVecEnv(1, config=env).pool.members[0]
    return set(planned(replace(env, plan="dpv-iterative"), member).tolist())


@pytest.mark.parametrize("engine", ["torch", "fused"])
def test_behavior_cloning_lowers_the_cross_entropy_until_the_agent_follows_the_teacher(
    tmp_path, engine
):
    with closing(Trainer(complete(config(tmp_path / "run", engine=engine)))) as trainer:
        trainer.start()
        losses = pretrain(trainer)
        counters, earned = trainer.counters, trainer.schedule.counted_steps
    assert losses[0] > 2
    assert losses[-1] < 0.3
    assert counters.env_steps == counters.updates == counters.episodes == earned == 0
    train(config(tmp_path / "run", engine=engine, steps=16))
    assert breaks(load_policy(tmp_path / "run")) == plan_of(SMALL)


@pytest.mark.parametrize("engine", ["torch", "fused"])
@pytest.mark.parametrize("algo", ["dqn", "rainbow"])
def test_the_margin_loss_makes_dqn_follow_the_teacher(tmp_path, algo, engine):
    values = {"v_min": 0.0, "v_max": 60.0, "noisy": False} if algo == "rainbow" else {}
    asked = config(
        tmp_path / "run", algo, engine=engine, steps=16, algo_config={**values, "epsilon_end": 0.0}
    )
    train(asked)
    assert breaks(load_policy(tmp_path / "run")) == plan_of(SMALL)


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_several_cells_per_step_can_be_cloned(tmp_path, algo):
    env = replace(SMALL, cells_per_step=2)
    table = {"body": "fcn", "channels": (8, 8), "net": (8,)}
    with closing(Trainer(complete(config(tmp_path / "run", algo, env, algo_config=table)))) as one:
        one.start()
        losses = pretrain(one)
    assert losses[-1] < 0.7 * losses[0]


def test_the_teachers_transitions_fill_the_replay_buffer_and_training_continues(tmp_path):
    with closing(Trainer(complete(config(tmp_path / "run", "dqn")))) as trainer:
        trainer.start()
        pretrain(trainer)
        # The newest step of each environment waits for what follows it.
        assert trainer.memory.size == 320 - 16
        trainer.iterate()
        assert trainer.memory.size == 320
        assert trainer.counters.env_steps == 16


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_nothing_of_pretraining_counts_as_progress_of_the_run(tmp_path, algo):
    with closing(Trainer(complete(config(tmp_path / "run", algo)))) as trainer:
        trainer.start()
        counters, schedule = trainer.counters.state(), trainer.schedule.state()
        assert pretrain(trainer)
        assert trainer.counters.state() == counters
        assert trainer.schedule.state() == schedule


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_resume_is_bit_identical_and_does_not_pretrain_again(tmp_path, algo):
    table = {"lr_schedule": "constant"} if algo == "ppo" else {}
    whole = config(tmp_path / "whole", algo, algo_config=table)
    train(whole)
    train(replace(whole, steps=160, run_dir=str(tmp_path / "halves")))
    notes = Notes()
    resume(tmp_path / "halves", steps=320, reporter=notes)
    assert policy_hash(tmp_path / "whole") == policy_hash(tmp_path / "halves")
    assert not any("pretrain" in note for note in notes.notes)


def test_the_pretrained_network_is_saved_before_the_first_step(tmp_path):
    whole = config(tmp_path / "whole", algo_config={"lr_schedule": "constant"})
    train(replace(whole, keep_checkpoints=10))
    shutil.copytree(tmp_path / "whole", tmp_path / "early")
    newest, *_, first = list_checkpoints(tmp_path / "early" / "checkpoints")
    assert first.name.endswith("_000000000000")
    shutil.rmtree(newest)
    # A resume goes back to an earlier checkpoint only if this is deleted too.
    (tmp_path / "early" / "checkpoints" / "LATEST").unlink()
    notes = Notes()
    resume(tmp_path / "early", reporter=notes)
    assert "continuing from step 0" in notes.notes
    assert policy_hash(tmp_path / "whole") == policy_hash(tmp_path / "early")


class Interrupter:
    """Interrupts at chosen calls of a method, counted over several runs."""

    def __init__(self, monkeypatch, owner: type, name: str):
        self.calls, self._at = 0, set()
        called = getattr(owner, name)

        def call(*args, **kwargs):
            self.calls += 1
            if self.calls in self._at:
                signal.raise_signal(signal.SIGINT)
            return called(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    def interrupt_next(self, *later: int) -> None:
        self._at = {self.calls + number for number in later}


CONSTANT = {"lr_schedule": "constant"}
RESUMED = [
    ("ppo", {"engine": "torch", "algo_config": CONSTANT}),
    ("ppo", {"engine": "fused", "algo_config": CONSTANT}),
    ("ppo", {"engine": "fused", "algo_config": {**CONSTANT, "normalize_obs": True, "reuse": 1}}),
    ("dqn", {"engine": "fused"}),
    ("rainbow", {"engine": "torch", "algo_config": {"v_min": 0.0, "v_max": 60.0}}),
]


@pytest.mark.parametrize(("algo", "options"), RESUMED, ids=["torch", "fused", "all", "dqn", "per"])
def test_pretraining_interrupted_anywhere_continues_bit_identically(
    tmp_path, monkeypatch, algo, options
):
    env = replace(SMALL, teacher_plans=3, teacher_keep=2)
    asked = config(tmp_path / "run", algo, env, **options)
    whole = Notes()
    train(replace(asked, run_dir=str(tmp_path / "whole")), reporter=whole)
    plans = Interrupter(monkeypatch, Demonstrator, "prepare")
    games = Interrupter(monkeypatch, TeacherActor, "act")
    updates = Interrupter(monkeypatch, Pretrainer, "_report")
    go_on = partial(train, asked)
    for stops, later in ((plans, 2), (games, 1), (games, 7), (updates, 1), (updates, 2)):
        stops.interrupt_next(later)
        stopped = go_on(reporter=Notes())
        assert (stopped.stopped, stopped.env_steps, stopped.updates) == ("sigint", 0, 0)
        assert list_checkpoints(tmp_path / "run" / "checkpoints")
        go_on = partial(resume, tmp_path / "run")
    notes = Notes()
    assert go_on(reporter=notes).stopped == "finished"
    assert notes.pretrained() == whole.pretrained()
    assert policy_hash(tmp_path / "run") == policy_hash(tmp_path / "whole")


def test_a_run_killed_during_pretraining_continues_bit_identically(tmp_path, monkeypatch):
    asked = config(tmp_path / "run", engine="fused", algo_config=CONSTANT, checkpoint_seconds=1e-9)
    saves = []
    save = Checkpointer.save

    def save_and_copy(checkpointer, step, state):
        save(checkpointer, step, state)
        saves.append(step)
        if len(saves) == 20:
            shutil.copytree(tmp_path / "run", tmp_path / "killed")
        return list_checkpoints(checkpointer.folder)[0]

    monkeypatch.setattr(Checkpointer, "save", save_and_copy)
    train(asked)
    assert saves[:30] == [0] * 30
    resume(tmp_path / "killed")
    assert policy_hash(tmp_path / "killed") == policy_hash(tmp_path / "run")


def test_an_interrupt_before_pretraining_leaves_a_run_that_starts_from_the_beginning(tmp_path):
    class StopsSoon(Notes):
        def on_warmup(self, seconds):
            signal.raise_signal(signal.SIGINT)

    asked = config(tmp_path / "run", algo_config={"lr_schedule": "constant"})
    assert train(asked, reporter=StopsSoon()).stopped == "sigint"
    assert not list_checkpoints(tmp_path / "run" / "checkpoints")
    resume(tmp_path / "run")
    train(replace(asked, run_dir=str(tmp_path / "whole")))
    assert policy_hash(tmp_path / "run") == policy_hash(tmp_path / "whole")


def test_plans_that_do_not_fit_the_landscapes_are_made_again():
    env = WildfireVecEnv(2, config=replace(SMALL, teacher_plans=2))
    teacher, fresh = Demonstrator(env, "dpv"), Demonstrator(env, "dpv")
    while teacher.prepare():
        pass
    plans = teacher.state()["plans"]
    for bad in (plans + 64, plans - 64, plans[0], plans.astype(np.float64), np.tile(plans, (2, 1))):
        fresh.load_state({"plans": bad})
        assert len(fresh.state()["plans"]) == 0
    fresh.load_state({"plans": plans})
    assert not fresh.prepare()
    env.reset(seed=1)
    assert fresh.actions().tolist() == teacher.actions().tolist()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"env": "snake", "env_config": None}, "'snake' has no teachers to pretrain from"),
        ({"algo_config": {"pretrain_from": "dpw"}}, "no teacher 'dpw'. Did you mean 'dpv'"),
        ({"algo_config": {"pretrain_from": None}}, "pretrain_steps needs pretrain_from"),
        ({"algo_config": {"pretrain_steps": 0}}, "pretrain_from needs pretrain_steps"),
    ],
)
def test_unknown_teachers_raise_before_anything_is_written(tmp_path, options, said):
    asked = config(tmp_path / "run")
    table = {**PPO_TAUGHT, **options.get("algo_config", {})}
    with pytest.raises(ConfigError, match=said):
        train(replace(asked, **(options | {"algo_config": table})))
    assert not (tmp_path / "run").exists()


def test_many_teacher_plans_keep_more_entropy_than_one(tmp_path):
    finals = []
    for plans in (1, 16):
        env = replace(SMALL, teacher_plans=plans, teacher_fires=8)
        with closing(Trainer(complete(config(tmp_path / "run", env=env)))) as trainer:
            trainer.start()
            finals.append(pretrain(trainer)[-1])
    assert finals[1] > 4 * finals[0]


def test_ppo_improves_on_its_teacher(tmp_path):
    env = replace(
        SMALL, fires="round", reward="terminal", n_fires=32, teacher_plans=16, teacher_fires=8
    )
    table = {
        **{"baseline": "peers", "value_coef": 0.0, "gae_lambda": 1.0, "gamma": 1.0, "lr": 3e-3},
        **{"update_steps": 5, "minibatch_size": 160, "entropy_coef": 0.003, "net": (64,)},
    }
    asked = config(tmp_path / "run", env=env, algo_config=table, num_envs=64, steps=24_000)
    train(asked)
    report = run_suite(load_policy(tmp_path / "run"), "wildfire-own").as_json()
    assert report["vs"]["dpv-static"]["relative_pct"] < -10
    assert report["vs"]["dpv-iterative"]["relative_pct"] < 1


@pytest.mark.parametrize("algo", ["dqn", "rainbow"])
def test_one_transition_per_environment_is_enough_to_pretrain_on(tmp_path, algo):
    """More are collected until something can be sampled, whatever n_step is."""
    small = {"pretrain_transitions": 8, "pretrain_steps": 8, "pretrain_from": "random"}
    run = config(tmp_path / "run", algo, steps=16, num_envs=8, algo_config=small)
    with closing(Trainer(complete(run))) as trainer:
        trainer.start()
        losses = pretrain(trainer)
        assert losses
        assert trainer.pretrained


@pytest.mark.parametrize(
    "spoil",
    [
        lambda saved: saved.scalars["counters"].update(updates=-1),
        lambda saved: saved.scalars["counters"].update(env_steps="many"),
        lambda saved: saved.scalars["schedule"].update(collected=7),
        lambda saved: saved.scalars.pop("plays"),
        lambda saved: saved.scalars.pop("schedule"),
        lambda saved: saved.arrays.pop("losses"),
        lambda saved: saved.arrays.update(losses=np.zeros((2, 2))),
    ],
)
def test_impossible_states_of_pretraining_are_rejected_when_they_are_loaded(tmp_path, spoil):
    with closing(Trainer(complete(config(tmp_path / "run", engine="fused")))) as trainer:
        trainer.start()
        states = []
        pretrain(trainer, between=lambda run: not states.append(run.state()) and len(states) < 4)
        trainer.load_state(states[-1].states, states[-1].counters)
        assert trainer.pretraining is not None
        spoil(states[-1].states["pretraining"])
        with pytest.raises(InvalidStateError):
            trainer.load_state(states[-1].states, states[-1].counters)
