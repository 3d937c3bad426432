"""DQN on 24 CartPoles whose target network is never updated: steps grow by 24 and skip the moment.

`--fixed`: updated when 1,000 steps have passed. This changes learning, not speed.
"""

import time

import torch
from arguments import parse_args
from cartpoles import make_cartpoles
from dqn import DQNAgent
from replay import ReplayBuffer

TARGET_UPDATE_FREQUENCY = 1_000


def main():
    args = parse_args(__doc__, steps=120_000)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    num_envs = 24
    envs = make_cartpoles(num_envs)
    agent, buffer = DQNAgent(4, 2, target_every=None), ReplayBuffer(20_000, 4)
    obs, _ = envs.reset(seed=args.seed)
    global_step, synced_at, start = 1, 1, time.time()
    while global_step < args.steps:
        actions = agent.act(torch.from_numpy(obs)).numpy()
        next_obs, rewards, terminated, truncated, _ = envs.step(actions)
        buffer.push_batch(obs, actions, rewards, next_obs, terminated)
        obs = next_obs.copy()
        global_step += num_envs
        agent.update(*buffer.sample(64))
        if args.fixed:
            due = global_step - synced_at >= TARGET_UPDATE_FREQUENCY
        else:
            due = global_step % TARGET_UPDATE_FREQUENCY == 0
        if due:
            agent.target_net.load_state_dict(agent.q_net.state_dict())
            synced_at = global_step
    print(f"{global_step} steps in {time.time() - start:.2f} s")


if __name__ == "__main__":
    main()
