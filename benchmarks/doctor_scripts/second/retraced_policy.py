"""PPO with clipped ratios on CartPole that compiles its policy for fast acting.

The policy is traced again for every step of a rollout. `--fixed` calls the module itself.
"""

import gymnasium as gym
import torch
from options import Stopwatch, from_command_line
from torch import nn
from torch.distributions import Categorical

ENVS, LENGTH = 16, 64


def make_network(outputs):
    return nn.Sequential(
        nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
    )


class Actor:
    def __init__(self, network, fixed):
        self.network, self.fixed = network, fixed

    @torch.no_grad()
    def act(self, obs):
        network = self.network
        if not self.fixed:
            network = torch.jit.trace(network, obs, check_trace=False)
        distribution = Categorical(logits=network(obs))
        action = distribution.sample()
        return action, distribution.log_prob(action)


def play(envs, actor, obs):
    history = []
    for _ in range(LENGTH):
        action, log_prob = actor.act(obs)
        following, reward, terminated, _, _ = envs.step(action.numpy())
        history.append((obs, action, log_prob, torch.tensor(reward), torch.tensor(terminated)))
        obs = torch.tensor(following)
    return obs, [torch.stack(parts) for parts in zip(*history, strict=True)]


def discounted(rewards, terminated, value):
    returns = torch.empty(rewards.shape)
    for t in range(LENGTH - 1, -1, -1):
        value = returns[t] = rewards[t].float() + 0.98 * value * ~terminated[t]
    return returns


def main():
    options = from_command_line(steps=50_000)
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    envs = gym.make_vec("CartPole-v1", ENVS, vectorization_mode="vector_entry_point")
    policy, critic = make_network(2), make_network(1)
    optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=1e-3)
    actor = Actor(policy, options.fixed)
    obs = torch.tensor(envs.reset(seed=options.seed)[0])
    watch = Stopwatch()
    rollouts = options.steps // (ENVS * LENGTH)
    for _ in range(rollouts):
        obs, (seen, actions, old_log_probs, rewards, terminated) = play(envs, actor, obs)
        with torch.no_grad():
            returns = discounted(rewards, terminated, critic(obs).squeeze(-1)).flatten()
        seen, actions, old_log_probs = (
            seen.flatten(0, 1),
            actions.flatten(),
            old_log_probs.flatten(),
        )
        for _ in range(4):
            for rows in torch.randperm(ENVS * LENGTH).chunk(4):
                value = critic(seen[rows]).squeeze(-1)
                gap = returns[rows] - value
                now = Categorical(logits=policy(seen[rows])).log_prob(actions[rows])
                ratio = (now - old_log_probs[rows]).exp()
                weight = (gap / (gap.std() + 1e-6)).detach()
                gain = torch.minimum(ratio * weight, ratio.clamp(0.8, 1.2) * weight)
                optimizer.zero_grad()
                (gap.square().mean() - gain.mean()).backward()
                optimizer.step()
    watch.report(rollouts * ENVS * LENGTH)


if __name__ == "__main__":
    main()
