"""Sample Factory's PPO on Gymnasium's CartPole, in one process and without asynchrony.

Its runner goes on by itself, so orders are waited for in another thread: after the last round that
was ordered, the runner's own thread is held up until there are more.
"""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from queue import Queue
from threading import Thread
from typing import Any

import gymnasium
import numpy as np
import torch
from runner_protocol import serve, settings
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner

SETTINGS = settings()
ROLLOUT = SETTINGS["num_envs"] * SETTINGS["update_steps"]
FOREVER = 1 << 40
ENV = "CartPole-v1"


def options(folder: str) -> dict[str, object]:
    """The settings in Sample Factory's words."""
    return {
        "algo": "APPO",
        "env": ENV,
        "experiment": "bench",
        "train_dir": folder,
        "device": "cpu",
        "seed": SETTINGS["seed"],
        "serial_mode": True,
        "async_rl": False,
        "num_workers": 1,
        "worker_num_splits": 1,
        "num_envs_per_worker": SETTINGS["num_envs"],
        "rollout": SETTINGS["update_steps"],
        "batch_size": SETTINGS["minibatch_size"],
        "num_batches_per_epoch": ROLLOUT // SETTINGS["minibatch_size"],
        "num_epochs": SETTINGS["epochs"],
        "use_rnn": False,
        "recurrence": 1,
        "actor_critic_share_weights": False,
        "nonlinearity": SETTINGS["activation"],
        "gamma": SETTINGS["gamma"],
        "gae_lambda": SETTINGS["gae_lambda"],
        "ppo_clip_ratio": SETTINGS["clip"],
        "value_loss_coeff": SETTINGS["value_coef"],
        "exploration_loss_coeff": SETTINGS["entropy_coef"],
        "max_grad_norm": SETTINGS["max_grad_norm"],
        "learning_rate": SETTINGS["lr"],
        "adam_eps": SETTINGS["adam_eps"],
        "with_vtrace": False,
        "normalize_input": False,
        "normalize_returns": False,
        "decorrelate_envs_on_one_worker": False,
        "set_workers_cpu_affinity": False,
        "train_for_env_steps": FOREVER,
        "save_every_sec": FOREVER,
        "save_best_every_sec": FOREVER,
        "heartbeat_interval": FOREVER,
        "heartbeat_reporting_interval": FOREVER,
    }


def make_env(name: str, *_: object, **__: object) -> Any:
    """A game; by a name, since the library asks another process what games look like."""
    return gymnasium.make(name)


class Pace(AlgoObserver):  # type: ignore[misc]
    """Holds the runner up until rounds are ordered."""

    def __init__(self) -> None:
        self.orders: Queue[int] = Queue()
        self.returns: Queue[float | None] = Queue()
        self._left = 0

    def train(self, rounds: int) -> float | None:
        """Have so many rounds trained; for whoever gives orders."""
        self.orders.put(rounds)
        return self.returns.get()

    def wait(self) -> None:
        """Wait for an order; for the runner."""
        self._left = self.orders.get()

    def on_training_step(self, runner: Any, training_iteration_since_resume: int) -> None:
        """A round is over."""
        self._left -= 1
        if self._left == 0:
            ended = runner.policy_avg_stats.get("reward", [[]])[0]
            self.returns.put(float(np.mean(ended)) if len(ended) else None)
            self.wait()


def main() -> None:
    """Train by orders."""
    torch.set_num_threads(SETTINGS["threads"])
    register_env(ENV, make_env)
    layers = ["--encoder_mlp_layers", *map(str, SETTINGS["net"])]
    with tempfile.TemporaryDirectory() as folder:
        words = [f"--{name}={value}" for name, value in options(folder).items()] + layers
        parser, _ = parse_sf_args(words)
        _, runner = make_runner(parse_full_cfg(parser, words))
        pace = Pace()
        runner.register_observer(pace)
        name = f"sample-factory {version('sample-factory')}"
        Thread(target=serve, args=(name, pace.train), kwargs={"rollout": ROLLOUT}).start()
        runner.init()
        pace.wait()
        runner.run()


if __name__ == "__main__":
    main()
