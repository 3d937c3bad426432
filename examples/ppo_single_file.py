"""PPO on one page: the torch reference of `brisk train --algo ppo`, in the style of CleanRL.

Everything from the network to the clipped loss is written out below; briskrl only supplies the
compiled CartPole, through Gymnasium's vector interface. The same algorithm, compiled and with all
options, is `briskrl/algos/ppo`.

Run it with: python examples/ppo_single_file.py --total-timesteps 100000
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from dataclasses import dataclass, fields

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

import briskrl  # noqa: F401  (registers the environment ids)


@dataclass
class Config:
    """Settings; every field is a flag."""

    env_id: str = "BriskCartPole-v1"
    """A Gymnasium id with discrete actions whose vector env resets in the same step."""
    seed: int = 1
    """Seed of the network, the actions and the environments."""
    total_timesteps: int = 200_000
    """Environment steps to train for."""
    num_envs: int = 32
    """Environments that step at the same time."""
    num_steps: int = 64
    """Steps of each environment in one rollout."""
    update_epochs: int = 4
    """Passes over every rollout."""
    num_minibatches: int = 4
    """Gradient updates per pass."""
    learning_rate: float = 2.5e-3
    """Adam's learning rate; it falls linearly to 0."""
    gamma: float = 0.98
    """Discount factor."""
    gae_lambda: float = 0.95
    """Lambda of generalized advantage estimation."""
    clip_coef: float = 0.2
    """Clip range of the probability ratio."""
    ent_coef: float = 0.01
    """Entropy coefficient."""
    vf_coef: float = 0.5
    """Value loss coefficient."""
    max_grad_norm: float = 0.5
    """Largest norm of the gradient."""


class ActorCritic(nn.Module):
    """Two separate networks: logits (B, A) of the policy, and values (B,)."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(
            layer(inputs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, actions, gain=0.01)
        )
        self.critic = nn.Sequential(
            layer(inputs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, gain=1.0)
        )

    def forward(self, obs: Tensor) -> tuple[Categorical, Tensor]:
        """The action distribution and the values of observations (B, F)."""
        return Categorical(logits=self.actor(obs)), self.critic(obs).squeeze(-1)


def layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    """A dense layer with orthogonal weights and biases of 0."""
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


@dataclass
class Rollout:
    """T steps of N environments; all fields are (T, N) but for obs (T, N, F)."""

    obs: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    rewards: Tensor
    ended: Tensor
    """Whether the episode terminated or was truncated."""
    final_values: Tensor
    """Values of the final observations of episodes that were truncated; 0 elsewhere."""

    @classmethod
    def allocate(cls, steps: int, num_envs: int, inputs: int) -> Rollout:
        """Zeroed tensors."""
        shape = (steps, num_envs)
        others = {field.name: torch.zeros(shape) for field in fields(cls) if field.name != "obs"}
        return cls(obs=torch.zeros(*shape, inputs), **others)


@torch.no_grad()
def collect(
    envs: gymnasium.vector.VectorEnv,
    network: ActorCritic,
    rollout: Rollout,
    obs: Tensor,
    returns: deque[float],
) -> Tensor:
    """Fill a rollout from `obs` (N, F) on; returns the observations that follow it."""
    for t in range(len(rollout.obs)):
        policy, value = network(obs)
        action = policy.sample()
        rollout.obs[t], rollout.actions[t], rollout.values[t] = obs, action, value
        rollout.log_probs[t] = policy.log_prob(action)
        next_obs, reward, terminated, truncated, infos = envs.step(action.numpy())
        ended = terminated | truncated
        rollout.rewards[t] = torch.as_tensor(reward)
        rollout.ended[t] = torch.as_tensor(ended)
        rollout.final_values[t] = 0.0
        if ended.any():
            returns.extend(infos["return"][ended].tolist())
            cut = np.flatnonzero(truncated & ~terminated)
            if len(cut):
                final_obs = torch.as_tensor(infos["final_obs"][cut])
                rollout.final_values[t, cut] = network(final_obs)[1]
        obs = torch.as_tensor(next_obs)
    return obs


def gae(
    rollout: Rollout, last_value: Tensor, gamma: float, gae_lambda: float
) -> tuple[Tensor, Tensor]:
    """Advantages and returns (T, N) by generalized advantage estimation (Schulman 2016)."""
    advantages = torch.zeros_like(rollout.rewards)
    next_advantage, next_value = torch.zeros_like(last_value), last_value
    for t in reversed(range(len(advantages))):
        # A terminated episode is worth nothing more; a truncated one what its last obs is worth.
        ended = rollout.ended[t] > 0
        next_value = torch.where(ended, rollout.final_values[t], next_value)
        next_advantage = torch.where(ended, 0.0, next_advantage)
        delta = rollout.rewards[t] + gamma * next_value - rollout.values[t]
        advantages[t] = next_advantage = delta + gamma * gae_lambda * next_advantage
        next_value = rollout.values[t]
    return advantages, advantages + rollout.values


def ppo_loss(
    log_prob: Tensor,
    entropy: Tensor,
    value: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    returns: Tensor,
    config: Config,
) -> Tensor:
    """The PPO loss of a minibatch (Schulman 2017, equation 9); all tensors are (B,)."""
    ratio = (log_prob - old_log_prob).exp()
    clipped_ratio = ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef)
    policy_loss = torch.max(-advantage * ratio, -advantage * clipped_ratio).mean()
    value_loss = (value - returns).square().mean()
    return policy_loss + config.vf_coef * value_loss - config.ent_coef * entropy.mean()


def update(
    network: ActorCritic,
    optimizer: torch.optim.Optimizer,
    rollout: Rollout,
    advantages: Tensor,
    returns: Tensor,
    config: Config,
) -> None:
    """Go over a rollout several times in shuffled minibatches."""
    obs, actions = rollout.obs.flatten(0, 1), rollout.actions.flatten()
    old_log_probs = rollout.log_probs.flatten()
    for _ in range(config.update_epochs):
        for rows in torch.randperm(len(obs)).chunk(config.num_minibatches):
            policy, value = network(obs[rows])
            advantage = advantages.flatten()[rows]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            loss = ppo_loss(
                policy.log_prob(actions[rows]),
                policy.entropy(),
                value,
                old_log_probs[rows],
                advantage,
                returns.flatten()[rows],
                config,
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), config.max_grad_norm)
            optimizer.step()


def train(config: Config) -> float:
    """Train; returns the mean return of the last 100 episodes."""
    torch.manual_seed(config.seed)
    envs = gymnasium.make_vec(config.env_id, num_envs=config.num_envs)
    inputs, actions = envs.single_observation_space.shape[0], envs.single_action_space.n
    network = ActorCritic(inputs, int(actions))
    optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate, eps=1e-5)
    rollout = Rollout.allocate(config.num_steps, config.num_envs, inputs)
    episode_returns: deque[float] = deque(maxlen=100)
    obs = torch.as_tensor(envs.reset(seed=config.seed)[0])
    start, iterations = time.time(), config.total_timesteps // rollout.rewards.numel()
    for iteration in range(iterations):
        optimizer.param_groups[0]["lr"] = config.learning_rate * (1 - iteration / iterations)
        obs = collect(envs, network, rollout, obs, episode_returns)
        with torch.no_grad():
            last_value = network(obs)[1]
        advantages, returns = gae(rollout, last_value, config.gamma, config.gae_lambda)
        update(network, optimizer, rollout, advantages, returns, config)
        if iteration % 10 == 9 or iteration == iterations - 1:
            steps = (iteration + 1) * rollout.rewards.numel()
            speed, mean = steps / (time.time() - start), np.mean(episode_returns)
            print(f"{steps} steps: mean return {mean:.1f}, {speed:.0f} steps/s")
    envs.close()
    return float(np.mean(episode_returns))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for field in fields(Config):
        flag = "--" + field.name.replace("_", "-")
        parser.add_argument(flag, type=type(field.default), default=field.default)
    train(Config(**vars(parser.parse_args())))
