"""A DQN agent for the scripts of this folder."""

import torch
from networks import mlp
from torch import nn


class DQNAgent:
    def __init__(self, obs_size, num_actions, *, hidden=(64, 64), lr=1e-3, target_every=250):
        self.q_net = mlp(obs_size, *hidden, num_actions)
        self.target_net = mlp(obs_size, *hidden, num_actions)
        self.target_net.load_state_dict(self.q_net.state_dict())
        self.optimizer = torch.optim.Adam(self.q_net.parameters(), lr=lr)
        self.num_actions, self.target_every = num_actions, target_every
        self.updates = 0

    @torch.no_grad()
    def act(self, obs, epsilon=0.1):
        """Actions for a batch of observations."""
        greedy = self.q_net(obs).argmax(1)
        random = torch.randint(self.num_actions, greedy.shape)
        return torch.where(torch.rand(greedy.shape) < epsilon, random, greedy)

    def update(self, obs, actions, rewards, next_obs, dones):
        with torch.no_grad():
            target = rewards + 0.99 * (1 - dones) * self.target_net(next_obs).max(1).values
        q_values = self.q_net(obs).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q_values, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.target_every and self.updates % self.target_every == 0:
            self.target_net.load_state_dict(self.q_net.state_dict())
        return loss
