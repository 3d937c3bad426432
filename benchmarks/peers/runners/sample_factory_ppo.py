"""Sample Factory's PPO on Gymnasium's CartPole, synchronously in one process.

Its runner never returns between rounds, so requests are read in another thread: after the last
requested round the runner's thread blocks until there are more.
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
    """The settings under Sample Factory's names."""
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
    """An environment; a module-level function, because the library pickles it."""
    return gymnasium.make(name)


class RequestObserver(AlgoObserver):  # type: ignore[misc]
    """Blocks the runner until rounds are requested."""

    def __init__(self) -> None:
        self.requests: Queue[int] = Queue()
        self.returns: Queue[float | None] = Queue()
        self._left = 0

    def train(self, rounds: int) -> float | None:
        """Train a number of rounds; called by the thread that serves requests."""
        self.requests.put(rounds)
        return self.returns.get()

    def wait(self) -> None:
        """Wait for a request; called by the runner's thread."""
        self._left = self.requests.get()

    def on_training_step(self, runner: Any, training_iteration_since_resume: int) -> None:
        """Called after every round."""
        self._left -= 1
        if self._left == 0:
            ended = runner.policy_avg_stats.get("reward", [[]])[0]
            self.returns.put(float(np.mean(ended)) if len(ended) else None)
            self.wait()


def main() -> None:
    """Train on request."""
    torch.set_num_threads(SETTINGS["threads"])
    register_env(ENV, make_env)
    layers = ["--encoder_mlp_layers", *map(str, SETTINGS["net"])]
    with tempfile.TemporaryDirectory() as folder:
        words = [f"--{name}={value}" for name, value in options(folder).items()] + layers
        parser, _ = parse_sf_args(words)
        _, runner = make_runner(parse_full_cfg(parser, words))
        observer = RequestObserver()
        runner.register_observer(observer)
        name = f"sample-factory {version('sample-factory')}"
        Thread(target=serve, args=(name, observer.train), kwargs={"rollout": ROLLOUT}).start()
        runner.init()
        observer.wait()
        runner.run()


if __name__ == "__main__":
    main()
