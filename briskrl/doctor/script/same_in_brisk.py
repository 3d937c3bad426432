"""The work of a script as a config of ours: to write it down, and to compare the speeds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from statistics import median, quantiles
from time import perf_counter
from typing import TYPE_CHECKING

from briskrl.core.errors import ConfigError
from briskrl.doctor.report.records import Gain, Outcome, Verdict
from briskrl.doctor.script.experiments import DISTURBED
from briskrl.doctor.script.observed import Observed

if TYPE_CHECKING:
    from briskrl.training.config import TrainConfig

LEAST_TURNS = 6
ROLLOUT = 8.0
"""Steps between two series of updates from which a script learns from rollouts, as PPO does."""


def flags_of(seen: Observed) -> list[str]:
    """Arguments of `brisk train` for the same environment, ratio, batches and network.

    Raises:
        ConfigError: The script does something else; the message names it.
    """
    env_id = seen.state.get("env_id")
    if not env_id or not isinstance(env_id, str):
        raise ConfigError("its environment is not registered with Gymnasium")
    if not seen.updates:
        raise ConfigError("no updates of torch were counted")
    if seen.batch_size is None:
        raise ConfigError("the size of its batches is unknown")
    common = ["--num-envs", str(seen.num_envs), *_net(seen)]
    if seen.calls_per_round < ROLLOUT:
        ratio = ["--train-steps-ratio", f"{seen.updates_per_step:.6g}"]
        return [
            f"gym:{env_id}",
            *("--algo", "dqn"),
            *common,
            *ratio,
            *("--batch-size", str(seen.batch_size)),
        ]
    rollout = round(seen.calls_per_round)
    used = seen.updates_per_round * seen.batch_size
    epochs = max(1, round(used / (rollout * seen.num_envs)))
    ppo = ["--algo", "ppo", "--update-steps", str(rollout), "--epochs", str(epochs)]
    return [f"gym:{env_id}", *ppo, *common, "--minibatch-size", str(seen.batch_size)]


def _net(seen: Observed) -> list[str]:
    """Widths of the hidden layers: the chain of linear layers that begins at the observation."""
    layers = seen.state.get("layers")
    sizes = (
        [] if not isinstance(layers, Mapping) else [tuple(map(int, n.split("x"))) for n in layers]
    )
    outputs = {after for _, after in sizes}
    at = next((before for before, _ in sizes if before not in outputs), None)
    widths: list[int] = []
    while at is not None:
        # A layer whose output no other takes is the last one.
        links = [pair for pair in sizes if pair[0] == at and any(o[0] == pair[1] for o in sizes)]
        if not links:
            break
        sizes.remove(links[0])
        at = links[0][1]
        widths.append(at)
    return ["--net", ",".join(map(str, widths))] if widths else []


def compare(seen: Observed, config: TrainConfig, seconds: float) -> Outcome:
    """The speed of the same training in briskrl over that of the script, both without waiting.

    Args:
        seen: The script.
        config: The same work, see `flags_of`.
        seconds: Time for the training in briskrl.
    """
    from briskrl.doctor.examination import run_until_learning
    from briskrl.doctor.paired_turns import take_turn
    from briskrl.doctor.train_target import TrainTarget

    with closing(TrainTarget(config).open()) as loop:
        run_until_learning(loop)
        end = perf_counter() + seconds
        rates: list[float] = []
        while perf_counter() < end or len(rates) < LEAST_TURNS:
            turn = take_turn(loop)
            rates.append(turn.steps / turn.own_s)
    theirs = seen.steps / seen.own_s
    ours = quantiles(rates, n=20)
    gain = Gain(median(rates) / theirs, ours[0] / theirs, ours[-1] / theirs)
    verdict: Verdict = "helps" if gain.low > 1 else "hurts" if gain.high < 1 else "unclear"
    doubt = ""
    if seen.is_crowded and seen.state.get("torch_threads") != 1:
        # Threads of the script wait for each other while other programs have a core.
        verdict, doubt = "unclear", f"; {DISTURBED}"
    return Outcome(
        name="the same in briskrl",
        question="How fast is the same work in briskrl?",
        change="",
        verdict=verdict,
        answer=f"{median(rates):,.0f} steps/s in briskrl, {theirs:,.0f} in the script: "
        f"{gain.factor:.2f} times as fast{doubt}",
        alters_learning="the same ratio of updates, batches and network, but another "
        "implementation; what is learned was not compared",
        gain=gain,
        pairs=len(rates),
    )
