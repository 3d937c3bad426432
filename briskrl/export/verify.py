"""Check exported files against the policy of the run, on observations of its environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from briskrl.core.errors import BriskError
from briskrl.core.rng import Streams, derive_seed
from briskrl.core.spec import ArraySpec, MultiDiscreteSpec
from briskrl.core.types import Array, Bools, Floats, StepBuffers
from briskrl.envs.make import make_env
from briskrl.export.runtime import load_bundle
from briskrl.export.selection import NO_ACTION, ActionSelector, Outputs
from briskrl.export.torchscript import read_torchscript
from briskrl.export.trained_network import TrainedNetwork
from briskrl.training.evaluate import Agent, TrainedAgent
from briskrl.training.random_policy import RandomPolicy

OBSERVATIONS = 10_000
"""Observations of a verification."""
TOLERANCE = 1e-4
"""Largest difference of an output, relative to the largest of its row if that is above 1."""
_NUM_ENVS = 64
_BATCH = 500
_TURN = 8
"""Steps that an environment is played in one way, greedily or at random."""

Runner = Callable[[Array, Bools | None], Outputs]
"""Observations in the environment's number type, and masks -> outputs."""


class ExportError(BriskError):
    """An exported file does not act like the policy."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Observations:
    """What an agent sees: observations (N, *obs), and legal actions (N, A) or None."""

    obs: Array
    mask: Bools | None
    origin: str
    """Where they come from, for the user."""


def collect_observations(agent: Agent, obs: ArraySpec, *, count: int, seed: int) -> Observations:
    """Observations of the environment, played in turns by the agent and at random.

    An environment that cannot be made again (one that was passed to `train` as an object) gives
    random observations within its bounds.
    """
    if agent.env != "given":
        return _play(agent, count=count, seed=seed)
    rng = Streams(seed)["export observations"]
    # Most numbers of an unbounded space are a few units large.
    low, high = max(obs.low, -3.0), min(obs.high, 3.0 if obs.dtype.kind == "f" else 255.0)
    numbers = rng.uniform(low, high, (count, *obs.shape)).astype(obs.dtype)
    return Observations(numbers, None, "random observations, as the environment is not at hand")


def _play(agent: Agent, *, count: int, seed: int) -> Observations:
    num_envs = min(_NUM_ENVS, count)
    env = make_env(agent.env, num_envs, config=agent.env_config)
    seen: list[Array] = []
    masks: list[Bools] = []
    try:
        explorer = RandomPolicy(env.env_spec.action, seed)
        buffers = StepBuffers.allocate(env.env_spec, num_envs)
        env.start(derive_seed(seed, "export"), buffers)
        for step in range(-(-count // num_envs)):
            seen.append(buffers.obs.copy())
            if buffers.mask is not None:
                masks.append(buffers.mask.copy())
            actions = agent.policy.act(buffers.obs, buffers.mask).copy()
            at_random = (np.arange(num_envs) + step // _TURN) % 2 == 0
            actions[at_random] = explorer.act(buffers.obs, buffers.mask)[at_random]
            env.step_into(actions, buffers)
            env.drain_stats()
    finally:
        env.close()
    mask = np.concatenate(masks)[:count] if masks else None
    return Observations(np.concatenate(seen)[:count], mask, f"observations of {agent.env}")


def max_difference(
    run: Runner, trained: TrainedAgent, network: TrainedNetwork, observations: Observations
) -> float:
    """The largest difference of an exported file's outputs from the policy of the run.

    Differences are relative to the largest output of the row if that is above 1. The actions must
    be those of the policy itself, except where two are equally good within the tolerance.

    Raises:
        ExportError: A difference is above the tolerance.
    """
    selector = ActionSelector(trained.action, network.kind)
    worst = 0.0
    for begin in range(0, len(observations.obs), _BATCH):
        rows = slice(begin, begin + _BATCH)
        obs = observations.obs[rows]
        mask = None if observations.mask is None else observations.mask[rows]
        scores = network.score(obs.astype(np.float32))
        expected = selector.outputs(scores, mask)
        found = run(obs, mask)
        names = [name for name in expected if name not in ("action", _decided(network))]
        worst = max(worst, *(_relative(found[name], expected[name]) for name in names))
        if network.kind == "gaussian":
            worst = max(worst, _relative(found["action"], expected["action"]))
        else:
            chosen = trained.agent.policy.act(obs, mask)
            worst = max(worst, _regret(scores, chosen, found["action"], trained))
    if not worst <= TOLERANCE:
        raise ExportError(
            f"The exported policy differs from that of the run by {worst:.3g}, more than "
            f"{TOLERANCE:g}. Do not use it, and please report this with the run's config.toml."
        )
    return worst


def _decided(network: TrainedNetwork) -> str:
    """An output that only repeats the actions."""
    return "probabilities" if network.kind == "values" else ""


def _relative(found: Array, expected: Array) -> float:
    if found.shape != expected.shape:
        return np.inf
    size = np.abs(expected).max(axis=-1, keepdims=True, initial=1.0)
    return float((np.abs(found - expected) / size).max(initial=0.0))


def _regret(scores: Floats, chosen: Array, found: Array, trained: TrainedAgent) -> float:
    """How much the scores of the found actions differ from those of the chosen ones."""
    if found.shape != chosen.shape or ((found == NO_ACTION) != (chosen == NO_ACTION)).any():
        return np.inf
    action = trained.action
    nvec = action.nvec if isinstance(action, MultiDiscreteSpec) else ()
    starts = np.cumsum([0, *nvec[:-1]])
    pair = []
    for actions in (chosen, found):
        columns = actions.reshape(len(actions), -1)
        if isinstance(action, MultiDiscreteSpec):
            columns = columns + starts
        pair.append(np.take_along_axis(scores, np.maximum(columns, 0), axis=1))
    size = np.abs(scores).max(axis=1, keepdims=True, initial=1.0)
    return float((np.abs(pair[1] - pair[0]) / size).max(initial=0.0))


def onnx_runner(path: Path) -> Runner:
    """Runs an ONNX file in onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(obs: Array, mask: Bools | None) -> Outputs:
        inputs = {"obs": obs} | ({} if mask is None else {"mask": mask})
        return dict(zip(names, session.run(names, inputs), strict=True))

    return run


def torchscript_runner(path: Path) -> Runner:
    """Runs a TorchScript file."""
    module = read_torchscript(path)

    def run(obs: Array, mask: Bools | None) -> Outputs:
        inputs = [torch.from_numpy(array) for array in (obs, mask) if array is not None]
        with torch.inference_mode():
            outputs = module(*inputs)
        return {name: output.numpy() for name, output in outputs.items()}

    return run


def bundle_runner(folder: Path) -> Runner:
    """Runs a bundle with NumPy."""
    return load_bundle(folder, memory=False).outputs
