"""The README of a bundle: what the policy is, how well it plays, and how to use it."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from math import sqrt

import briskrl
from briskrl.core.spec import BoxSpec, DiscreteSpec, MultiDiscreteSpec
from briskrl.core.types import JSON
from briskrl.export.acting import ObservationMemory
from briskrl.export.selection import num_choices
from briskrl.training.changed_settings import changed_settings
from briskrl.training.evaluate import EvalResult, TrainedAgent

_CARD = """\
---
library_name: briskrl
pipeline_tag: reinforcement-learning
tags:
- reinforcement-learning
- {algo}
- {env}
{index}---

# {algo} on {env}

A policy trained with briskrl for {steps:,} steps.

{scores}

## Use it

With NumPy alone (no torch):

```python
from briskrl.export.runtime import load_bundle

policy = load_bundle(".")
action = policy.act({arguments})
```

{memory}or with any ONNX runtime:

```python
import onnxruntime

session = onnxruntime.InferenceSession("policy.onnx")
action = session.run(["action"], {{"obs": obs[None]{mask_input}}})[0]
```

| | |
| --- | --- |
| observation `obs` | {obs} |
| action | {action} |
{mask_row}
## Settings

Those that differ from the defaults of {algo} and {env}:

| setting | value |
| --- | --- |
{settings}

## How it was made

```sh
{command}
```

briskrl {brisk}, torch {torch}, NumPy {numpy}, Python {python}.
"""


_MEMORY = """\
The environment remembers past steps for its observations, and so does this policy: `act` takes the
raw observation {shape} of each step and returns an action of the full set. Call `policy.reset()`
when an episode begins.

"""


def card_text(
    trained: TrainedAgent,
    config: Mapping[str, JSON],
    result: EvalResult | None,
    *,
    has_mask: bool,
    memory: ObservationMemory | None,
) -> str:
    """The README.

    Args:
        trained: The policy.
        config: All settings of the run as plain data.
        result: An evaluation on fresh episodes.
        has_mask: Whether the policy takes the legal actions.
        memory: What the policy remembers.
    """
    about = trained.about
    algo, env = str(about["algo"]), str(about["env"])
    changed = changed_settings(config)
    rows = [f"| `{name}` | `{json.dumps(value)}` |" for name, value in changed.items()]
    obs = trained.obs
    return _CARD.format(
        algo=algo,
        env=env,
        index=_model_index(env, algo, result),
        steps=int(about["env_steps"]),
        scores=_scores(result),
        arguments="obs, mask" if has_mask and memory is None else "obs",
        memory="" if memory is None else _MEMORY.format(shape=memory.raw_shape),
        mask_input=', "mask": mask[None]' if has_mask else "",
        mask_row=f"| `mask` | legal actions, bool ({num_choices(trained.action)},) |\n"
        if has_mask
        else "",
        obs=f"{obs.dtype.name}, shape {obs.shape}, {obs.low:g} to {obs.high:g}",
        action=_describe_action(trained),
        settings="\n".join(rows) or "| (none) | |",
        command=train_command(env, algo, int(about["env_steps"]), changed),
        brisk=briskrl.__version__,
        torch=version("torch"),
        numpy=version("numpy"),
        python=platform.python_version(),
    )


def train_command(env: str, algo: str, steps: int, changed: dict[str, JSON]) -> str:
    """The command that trains with these settings."""
    words = ["brisk train", env, f"--algo {algo}"]
    if "steps" not in changed:
        words.append(f"--steps {steps}")
    for name, value in changed.items():
        flag = "--" + name.rpartition(".")[2].replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, list):
            words.append(f"{flag} {','.join(map(str, value))}")
        elif not isinstance(value, dict):
            words.append(f"{flag} {value}")
    return " ".join(words)


def _scores(result: EvalResult | None) -> str:
    if result is None:
        return "It was not evaluated."
    margin = 1.96 * result.std_score / sqrt(result.episodes)
    return (
        f"Score {result.mean_score:.2f} ± {margin:.2f} (mean and 95 % interval over "
        f"{result.episodes:,} fresh episodes, greedy), {result.max_score:g} at best; return "
        f"{result.mean_return:.2f}; {100 * result.win_rate:.1f} % won; {result.mean_steps:.1f} "
        "steps per episode."
    )


def _model_index(env: str, algo: str, result: EvalResult | None) -> str:
    """The score in the form that model hubs read."""
    if result is None:
        return ""
    return (
        "model-index:\n"
        f"- name: {algo}\n"
        "  results:\n"
        "  - task:\n"
        "      type: reinforcement-learning\n"
        "    dataset:\n"
        f"      name: {env}\n"
        f"      type: {env}\n"
        "    metrics:\n"
        "    - type: mean_reward\n"
        f"      value: {result.mean_return:.2f} +/- {result.std_return:.2f}\n"
        "    - type: score\n"
        f"      value: {result.mean_score:.2f} +/- {result.std_score:.2f}\n"
    )


def _describe_action(trained: TrainedAgent) -> str:
    action = trained.action
    if isinstance(action, DiscreteSpec):
        return f"one of 0 to {action.n - 1}"
    if isinstance(action, MultiDiscreteSpec):
        return f"{len(action.nvec)} at once, of {list(action.nvec)}"
    if isinstance(action, BoxSpec):
        return f"{action.shape[0]} numbers, {action.low:g} to {action.high:g}"
    return f"up to {action.k} different ones of 0 to {action.n - 1}, -1 for none"
