"""PPO-like policy gradient on 16 CartPoles with a log line per environment and step.

`--fixed`: a line per rollout.
"""

import logging
import os
import tempfile
import time

import torch
from arguments import parse_args
from cartpoles import make_cartpoles
from networks import mlp

log = logging.getLogger("train")


def setup_logging(folder):
    handler = logging.FileHandler(os.path.join(folder, "train.log"))
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    return handler


def rollout(envs, policy, obs, verbose, length=32):
    rows = []
    for t in range(length):
        with torch.no_grad():
            probs = policy(obs).softmax(1)
        actions = torch.multinomial(probs, 1).squeeze(1)
        next_obs, rewards, terminated, truncated, _ = envs.step(actions.numpy())
        if verbose:
            for i in range(len(actions)):
                log.info("step %d env %d action %d reward %.1f", t, i, actions[i], rewards[i])
        rows.append(
            (obs, actions, torch.from_numpy(rewards.copy()), torch.from_numpy(terminated.copy()))
        )
        obs = torch.from_numpy(next_obs.copy())
    return obs, [torch.stack(column) for column in zip(*rows, strict=True)]


def main():
    args = parse_args(__doc__, steps=150_000)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = make_cartpoles(16)
    policy = mlp(4, 64, 64, 2, activation=torch.nn.Tanh)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    obs = torch.from_numpy(envs.reset(seed=args.seed)[0])
    with tempfile.TemporaryDirectory() as folder:
        handler = setup_logging(folder)
        start = time.time()
        for iteration in range(args.steps // 512):
            obs, (states, actions, rewards, ends) = rollout(envs, policy, obs, not args.fixed)
            returns, carried = torch.zeros(32, 16), torch.zeros(16)
            for t in reversed(range(32)):
                carried = rewards[t].float() + 0.98 * carried * ~ends[t]
                returns[t] = carried
            weights = (returns - returns.mean()) / (returns.std() + 1e-6)
            for _ in range(2):
                log_probs = policy(states).log_softmax(2).gather(2, actions.unsqueeze(2)).squeeze(2)
                optimizer.zero_grad()
                (-(log_probs * weights).mean()).backward()
                optimizer.step()
            log.info("iteration %d, mean return %.2f", iteration, returns.mean())
        seconds = time.time() - start
        handler.close()
    print(f"{args.steps // 512 * 512} steps in {seconds:.2f} s")


if __name__ == "__main__":
    main()
