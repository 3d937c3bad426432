"""Actor-critic on one CartPole at a time. `--fixed`: 16 of them are stepped together."""

import time

import torch
from arguments import parse_args
from cartpoles import make_cartpoles
from networks import mlp

args = parse_args(__doc__, steps=32_000)
torch.manual_seed(args.seed)
torch.set_num_threads(1)
num_envs = 16 if args.fixed else 1
length = 512 // num_envs
envs = make_cartpoles(num_envs)
actor, critic = mlp(4, 128, 128, 2), mlp(4, 128, 128, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=7e-4)
obs = torch.from_numpy(envs.reset(seed=args.seed)[0])
start = time.time()
for _ in range(args.steps // 512):
    states, actions, rewards, masks = [], [], [], []
    for _ in range(length):
        with torch.no_grad():
            action = torch.distributions.Categorical(logits=actor(obs)).sample()
        next_obs, reward, terminated, truncated, _ = envs.step(action.numpy())
        states.append(obs)
        actions.append(action)
        rewards.append(torch.from_numpy(reward.copy()))
        masks.append(1.0 - torch.from_numpy(terminated.copy()).float())
        obs = torch.from_numpy(next_obs.copy())
    with torch.no_grad():
        value = critic(obs).squeeze(1)
    returns = []
    for reward, mask in zip(reversed(rewards), reversed(masks), strict=True):
        value = reward.float() + 0.99 * mask * value
        returns.append(value)
    returns = torch.stack(returns[::-1]).flatten()
    states, actions = torch.cat(states), torch.cat(actions)
    values = critic(states).squeeze(1)
    policy = torch.distributions.Categorical(logits=actor(states))
    advantage = returns - values
    loss = advantage.square().mean() - (policy.log_prob(actions) * advantage.detach()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{args.steps // 512 * 512} steps in {time.time() - start:.2f} s")
