"""Advantage actor-critic on CartPole that adds up its losses for the summary at the end.

The sum keeps the graph of every update alive. `--fixed` adds up numbers instead of tensors.
"""

import gymnasium as gym
import numpy as np
import torch
from options import Stopwatch, from_command_line
from torch import nn

HORIZON, NUM_ENVS = 16, 16


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.policy, self.value = nn.Linear(128, 2), nn.Linear(128, 1)

    def forward(self, x):
        hidden = self.body(x)
        return self.policy(hidden).log_softmax(-1), self.value(hidden).squeeze(-1)


options = from_command_line(steps=250_000)
torch.set_num_threads(1)
torch.manual_seed(options.seed)
envs = gym.make_vec("CartPole-v1", NUM_ENVS, vectorization_mode="vector_entry_point")
model = TwoHeads()
optimizer = torch.optim.RMSprop(model.parameters(), lr=7e-4)
total_loss, updates, watch = 0.0, 0, Stopwatch()
obs, _ = envs.reset(seed=options.seed)
for _ in range(options.steps // (HORIZON * NUM_ENVS)):
    rollout = []
    for _ in range(HORIZON):
        x = torch.as_tensor(obs)
        with torch.no_grad():
            log_probs, _ = model(x)
        action = torch.multinomial(log_probs.exp(), 1).squeeze(1)
        obs, reward, lost, _, _ = envs.step(action.numpy())
        rollout.append((x, action, torch.as_tensor(reward), torch.as_tensor(lost)))
    with torch.no_grad():
        _, following = model(torch.as_tensor(obs))
    loss = 0.0
    for x, action, reward, lost in reversed(rollout):
        following = reward.float() + 0.99 * following * ~lost
        log_probs, value = model(x)
        advantage = following - value
        chosen = log_probs.gather(1, action.unsqueeze(1)).squeeze(1)
        loss = loss + (advantage.square() - advantage.detach() * chosen).mean() / HORIZON
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total_loss += loss.item() if options.fixed else loss + np.float32(0)
    updates += 1
print(f"mean loss {float(total_loss) / updates:.4f}")
watch.report(updates * HORIZON * NUM_ENVS)
