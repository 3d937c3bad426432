"""A2C on CartPole with a logger at debug level that formats every transition into a file.

`--fixed` logs only warnings.
"""

import logging

import gymnasium as gym
import numpy as np
import torch
from started import finish, parse
from torch import nn

NUM_ENVS, HORIZON = 8, 10
args, begin = parse(steps=60_000)
logging.basicConfig(
    filename="train.log",
    level=logging.WARNING if args.fixed else logging.DEBUG,
    format="%(asctime)s %(name)s %(funcName)s:%(lineno)d %(message)s",
)
log = logging.getLogger("a2c")


def collect(envs, model, obs):
    steps = []
    for t in range(HORIZON):
        with torch.no_grad():
            logits, _ = model(obs)
            actions = torch.multinomial(logits.softmax(1), 1)[:, 0]
        following, rewards, lost, _, _ = envs.step(actions.numpy())
        for i in range(NUM_ENVS):
            log.debug("t=%d env=%d obs=%s action=%d reward=%.2f", t, i, following[i], actions[i],
                      rewards[i])  # fmt: skip
        steps.append((obs, actions, torch.from_numpy(rewards).float(), torch.from_numpy(lost)))
        obs = torch.from_numpy(np.asarray(following, np.float32))
    return obs, steps


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 64), nn.ReLU())
        self.logits, self.value = nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, obs):
        hidden = self.body(obs)
        return self.logits(hidden), self.value(hidden)[:, 0]


torch.set_num_threads(1)
torch.manual_seed(args.seed)
envs = gym.make_vec("CartPole-v1", NUM_ENVS, vectorization_mode="vector_entry_point")
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
obs = torch.from_numpy(envs.reset(seed=args.seed)[0])
rounds = args.steps // (NUM_ENVS * HORIZON)
for _ in range(rounds):
    obs, steps = collect(envs, model, obs)
    with torch.no_grad():
        carried = model(obs)[1]
    loss = 0.0
    for seen, actions, rewards, lost in reversed(steps):
        carried = rewards + 0.99 * carried * ~lost
        logits, value = model(seen)
        gap = carried - value
        chosen = logits.log_softmax(1).gather(1, actions[:, None])[:, 0]
        loss = loss + (gap.square() - gap.detach() * chosen).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
finish(rounds * NUM_ENVS * HORIZON, begin)
