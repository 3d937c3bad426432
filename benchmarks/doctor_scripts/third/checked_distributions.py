"""PPO with four action heads that builds a checked Categorical for every head and environment.

`--fixed` builds one per head for all environments, without checks.
"""

import gymnasium as gym
import numpy as np
import torch
from started import finish, parse
from torch import nn
from torch.distributions import Categorical

NUM_ENVS, LENGTH, HEADS = 8, 64, 4


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.heads = nn.Linear(64, 3 * HEADS)
        self.value = nn.Linear(64, 1)

    def forward(self, obs):
        hidden = self.body(obs)
        return self.heads(hidden).view(-1, HEADS, 3), self.value(hidden)[:, 0]


def choose(logits, fixed):
    """Actions of every head, and the sum of their log probabilities."""
    if fixed:
        chosen = Categorical(logits=logits, validate_args=False)
        actions = chosen.sample()
        return actions, chosen.log_prob(actions).sum(1)
    actions = torch.empty(NUM_ENVS, HEADS, dtype=torch.long)
    log_probs = torch.zeros(NUM_ENVS)
    for env in range(NUM_ENVS):
        for head in range(HEADS):
            chosen = Categorical(logits=logits[env, head])
            actions[env, head] = chosen.sample()
            log_probs[env] += chosen.log_prob(actions[env, head])
    return actions, log_probs


def torques(actions):
    """Each head adds a third of a digit to the torque."""
    digits = (actions.numpy() - 1) @ np.array([1.0, 0.5, 0.25, 0.125])
    return digits[:, None].astype(np.float32)


args, begin = parse(steps=30_000)
torch.set_num_threads(1)
torch.manual_seed(args.seed)
envs = gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1") for _ in range(NUM_ENVS)])
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-4)
obs = torch.from_numpy(envs.reset(seed=args.seed)[0])
rounds = args.steps // (NUM_ENVS * LENGTH)
for _ in range(rounds):
    rows = []
    for _ in range(LENGTH):
        with torch.no_grad():
            logits, value = policy(obs)
            actions, log_probs = choose(logits, args.fixed)
        following, reward, _, _, _ = envs.step(torques(actions))
        rows.append((obs, actions, log_probs, value, torch.from_numpy(reward).float() / 10))
        obs = torch.from_numpy(following)
    seen, acted, old, values, rewards = (torch.stack(column) for column in zip(*rows, strict=True))
    returns = torch.zeros_like(rewards)
    carried = values[-1]
    for t in reversed(range(LENGTH)):
        carried = returns[t] = rewards[t] + 0.95 * carried
    gap = (returns - values).flatten()
    gap = (gap - gap.mean()) / (gap.std() + 1e-8)
    seen, acted, old, returns = (x.flatten(0, 1) for x in (seen, acted, old, returns))
    for _ in range(4):
        for rows_at in torch.randperm(len(seen)).split(128):
            logits, value = policy(seen[rows_at])
            log_probs = logits.log_softmax(2).gather(2, acted[rows_at][..., None]).sum((1, 2))
            ratio = (log_probs - old[rows_at]).exp()
            bounded = ratio.clamp(0.8, 1.2) * gap[rows_at]
            loss = (value - returns[rows_at]).square().mean()
            loss = loss - torch.minimum(ratio * gap[rows_at], bounded).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
finish(rounds * NUM_ENVS * LENGTH, begin)
