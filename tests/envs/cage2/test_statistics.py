"""Free play follows the distributions of the original simulator and of the reference model.

The recorded statistics have 1000 (simulator) or 2000 (reference) episodes per cell; a mean must lie
within four combined standard errors, and the fraction of our episodes below each recorded quantile
must match the quantile within four standard errors of such a fraction.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.players import Heuristic, sleep_actions

CELLS = json.loads((Path(__file__).parent / "golden" / "stats.json").read_text())["cells"]
EPISODES = 3000
LENGTHS = (30, 50, 100)
CLEAN = np.r_[2:28, 132:145]

Policy = Callable[[np.ndarray], np.ndarray]


def drawn_from(actions: np.ndarray) -> Policy:
    rng = np.random.default_rng(11)
    return lambda obs: rng.choice(actions, len(obs))


POLICIES: dict[str, Callable[[], Policy]] = {
    "sleep": lambda: sleep_actions,
    "random": lambda: drawn_from(np.arange(145)),
    "clean": lambda: drawn_from(CLEAN),
    "decoys": lambda: drawn_from(np.arange(28, 132)),
    "heuristic": Heuristic,
}


def play(red: str, policy: Policy, edition: str) -> tuple[np.ndarray, np.ndarray]:
    """Rewards (100, N) and observations (101, N, 52) of whole episodes."""
    env = Cage2VecEnv(EPISODES, red=red, edition=edition, autoreset_mode="Disabled")
    out = StepBuffers.allocate(env.env_spec, EPISODES)
    env.start(77, out)
    rewards, seen = [], [out.obs.copy()]
    for _ in range(100):
        env.step_into(policy(out.obs), out)
        rewards.append(out.reward.astype(np.float64))
        seen.append(out.obs.copy())
    return np.stack(rewards), np.stack(seen)


def blocks() -> list[Any]:
    found = []
    for cell in CELLS:
        for edition, names in (
            ("current", ("simulator", "reference")),
            ("competition", ("reference_competition",)),
        ):
            held = [cell[name] for name in names if name in cell]
            if held:
                name = f"{cell['red']}-{cell['policy']}-{edition}"
                found.append(pytest.param(cell["red"], cell["policy"], edition, held, id=name))
    return found


@pytest.mark.parametrize(("red", "policy", "edition", "recorded"), blocks())
def test_episode_rewards_are_distributed_as_recorded(
    red: str, policy: str, edition: str, recorded: list[dict[str, Any]]
) -> None:
    rewards, seen = play(red, POLICIES[policy](), edition)
    for length in LENGTHS:
        returns = rewards[:length].sum(axis=0).round(1)
        for block in recorded:
            check_mean(returns, block[str(length)])
            check_quantiles(returns, block[str(length)])
    for block in recorded:
        check_curve(rewards, block["mean_reward_by_step"], block["100"]["episodes"])
        for step, bits in block.get("mean_obs_at_step", {}).items():
            check_bits(seen[int(step)], np.array(bits), block["100"]["episodes"])


def check_mean(returns: np.ndarray, block: dict[str, Any]) -> None:
    own = returns.std(ddof=1) / sqrt(len(returns))
    allowed = 4 * sqrt(own**2 + block["sem"] ** 2)
    assert abs(returns.mean() - block["mean"]) <= allowed + 1e-6


def check_quantiles(returns: np.ndarray, block: dict[str, Any]) -> None:
    """Ties count on both sides, and a recorded quantile may be interpolated between two values."""
    for share, value in block["quantiles"].items():
        wanted = float(share)
        allowed = 4 * sqrt(wanted * (1 - wanted) * (1 / block["episodes"] + 1 / len(returns)))
        assert (returns < value - 0.1001).mean() <= wanted + allowed
        assert (returns <= value + 0.1001).mean() >= wanted - allowed


def check_curve(rewards: np.ndarray, recorded: list[float], episodes: int) -> None:
    """Means of single steps, with room for the most extreme of a hundred."""
    spread = rewards.std(axis=1)
    # Where all of ours agree, one recorded episode in a thousand may still have lost about 10.
    error = np.maximum(spread, 0.4) * sqrt(1 / len(rewards.T) + 1 / episodes)
    assert (np.abs(rewards.mean(axis=1) - recorded) <= 5 * error + 1e-3).all()


def check_bits(seen: np.ndarray, recorded: np.ndarray, episodes: int) -> None:
    share = (seen.mean(axis=0) * len(seen) + recorded * episodes) / (len(seen) + episodes)
    error = np.sqrt(share * (1 - share) * (1 / len(seen) + 1 / episodes))
    assert (np.abs(seen.mean(axis=0) - recorded) <= 5 * error + 2e-3).all()
