"""Tianshou's PPO on Gymnasium's CartPole, in process, as in its examples."""

from __future__ import annotations

from importlib.metadata import version
from itertools import pairwise
from typing import Any

import gymnasium
import torch
from runner_protocol import serve, settings
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from tianshou.utils.torch_utils import policy_within_training_step
from torch import nn

SETTINGS = settings()
ROLLOUT = SETTINGS["num_envs"] * SETTINGS["update_steps"]


class Body(nn.Module):
    """Dense layers with the interface that Tianshou's heads expect."""

    def __init__(self) -> None:
        super().__init__()
        activation = {"tanh": nn.Tanh, "relu": nn.ReLU}[SETTINGS["activation"]]
        layers: list[nn.Module] = []
        for rows, columns in pairwise([4, *SETTINGS["net"]]):
            layers += [nn.Linear(rows, columns), activation()]
        self.layers = nn.Sequential(*layers)
        self.output_dim = SETTINGS["net"][-1]

    def get_output_dim(self) -> int:
        """Width of the last layer."""
        return int(self.output_dim)

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[Any, Any]:
        """Features of observations (M, 4)."""
        return self.layers(torch.as_tensor(obs, dtype=torch.float32)), state


def build() -> tuple[Any, Any]:
    """The algorithm and its collector."""
    envs = DummyVectorEnv([lambda: gymnasium.make("CartPole-v1")] * SETTINGS["num_envs"])
    actor = DiscreteActor(preprocess_net=Body(), action_shape=2, softmax_output=False)
    policy = DiscreteActorPolicy(
        actor=actor,
        action_space=gymnasium.spaces.Discrete(2),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
    )
    algorithm = PPO(
        policy=policy,
        critic=DiscreteCritic(preprocess_net=Body()),
        optim=AdamOptimizerFactory(lr=SETTINGS["lr"], eps=SETTINGS["adam_eps"]),
        gamma=SETTINGS["gamma"],
        gae_lambda=SETTINGS["gae_lambda"],
        eps_clip=SETTINGS["clip"],
        vf_coef=SETTINGS["value_coef"],
        ent_coef=SETTINGS["entropy_coef"],
        max_grad_norm=SETTINGS["max_grad_norm"],
        advantage_normalization=SETTINGS["normalize_advantage"],
        max_batchsize=ROLLOUT,
    )
    collector = Collector(algorithm, envs, VectorReplayBuffer(ROLLOUT, SETTINGS["num_envs"]))
    collector.reset()
    return algorithm, collector


def one_round(algorithm: Any, collector: Any) -> Any:
    """Collect a rollout and learn from it, as Tianshou's on-policy trainer does."""
    with policy_within_training_step(algorithm.policy):
        collected = collector.collect(n_step=ROLLOUT)
        algorithm.update(
            buffer=collector.buffer,
            batch_size=SETTINGS["minibatch_size"],
            repeat=SETTINGS["epochs"],
        )
    collector.reset_buffer(keep_statistics=True)
    return collected


def main() -> None:
    """Train on request."""
    torch.manual_seed(SETTINGS["seed"])
    torch.set_num_threads(SETTINGS["threads"])
    algorithm, collector = build()

    def train(rounds: int) -> float | None:
        found = None
        for _ in range(rounds):
            collected = one_round(algorithm, collector)
            if collected.returns_stat is not None:
                found = float(collected.returns_stat.mean)
        return found

    serve(f"tianshou {version('tianshou')}", train, rollout=ROLLOUT)


if __name__ == "__main__":
    main()
