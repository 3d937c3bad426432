"""PufferLib's trainer on its own CartPole in C, in process; its episodes end after 200 steps.

Its trainer has options beyond PPO (V-trace, prioritized segments, clipped values); they are
disabled where possible.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pufferlib
import pufferlib.vector
import torch
from pufferlib.ocean.cartpole.cartpole import Cartpole
from pufferlib.pufferl import PuffeRL
from runner_protocol import serve, settings
from torch import nn

SETTINGS = settings()
ROLLOUT = SETTINGS["num_envs"] * SETTINGS["update_steps"]
NEVER = 10**15


class Network(nn.Module):
    """Separate policy and value networks with the interface that PufferLib expects."""

    def __init__(self) -> None:
        super().__init__()
        self.policy, self.value = self._layers(2), self._layers(1)
        self.hidden_size = SETTINGS["net"][-1]

    def _layers(self, outputs: int) -> nn.Sequential:
        activation: Callable[[], nn.Module] = {"tanh": nn.Tanh, "relu": nn.ReLU}[
            SETTINGS["activation"]
        ]
        widths = [4, *SETTINGS["net"]]
        layers: list[nn.Module] = []
        for rows, columns in pairwise(widths):
            layers += [nn.Linear(rows, columns), activation()]
        return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))

    def forward_eval(self, obs: Any, state: Any = None) -> tuple[Any, Any]:
        """Logits and values, while collecting."""
        return self.policy(obs), self.value(obs)

    def forward(self, obs: Any, state: Any = None) -> tuple[Any, Any]:
        """Logits and values, while learning."""
        return self.forward_eval(obs)


def config() -> dict[str, Any]:
    """The settings under PufferLib's names."""
    return {
        "seed": SETTINGS["seed"],
        "learning_rate": SETTINGS["lr"],
        "gamma": SETTINGS["gamma"],
        "gae_lambda": SETTINGS["gae_lambda"],
        "update_epochs": SETTINGS["epochs"],
        "clip_coef": SETTINGS["clip"],
        "vf_coef": SETTINGS["value_coef"],
        "ent_coef": SETTINGS["entropy_coef"],
        "max_grad_norm": SETTINGS["max_grad_norm"],
        "minibatch_size": SETTINGS["minibatch_size"],
        "max_minibatch_size": SETTINGS["minibatch_size"],
        "bptt_horizon": SETTINGS["update_steps"],
        "adam_eps": SETTINGS["adam_eps"],
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "optimizer": "adam",
        "anneal_lr": False,
        "vf_clip_coef": 1e9,
        "vtrace_rho_clip": 1.0,
        "vtrace_c_clip": 1.0,
        "prio_alpha": 0.0,
        "prio_beta0": 1.0,
        "batch_size": "auto",
        "total_timesteps": NEVER,
        "checkpoint_interval": NEVER,
        "data_dir": os.getcwd(),
        "device": "cpu",
        "cpu_offload": False,
        "precision": "float32",
        "torch_deterministic": True,
        "compile": False,
        "compile_mode": "default",
        "compile_fullgraph": True,
        "use_rnn": False,
        "env": "cartpole",
        "name": "bench",
        "project": "bench",
    }


def main() -> None:
    """Train on request."""
    torch.manual_seed(SETTINGS["seed"])
    torch.set_num_threads(SETTINGS["threads"])
    # The dashboard would be printed several times per second.
    PuffeRL.print_dashboard = lambda *_, **__: None
    games = {"num_envs": SETTINGS["num_envs"], "report_interval": SETTINGS["update_steps"]}
    envs = pufferlib.vector.make(Cartpole, env_kwargs=games, backend=pufferlib.PufferEnv)
    trainer = PuffeRL(config(), envs, Network())

    def train(rounds: int) -> float | None:
        lengths: list[float] = []
        for _ in range(rounds):
            trainer.evaluate()
            lengths += trainer.stats.get("episode_length", [])
            trainer.train()
        return float(lengths[-1]) if lengths else None

    serve(f"pufferlib {pufferlib.__version__}", train, rollout=ROLLOUT)


if __name__ == "__main__":
    main()
