"""The one loop that steps a batch of environments, specialized for each environment family.

A family compiles the functions of `EnvFunctions`; `build_step_kernels` binds them to the loop. It
handles automatic resets, rewards, end flags, final observations and the episode log.

The memory of a batch is one flat array of 64-bit words, `state`. Env i owns the row of `row_words`
words that begins at word i * row_words; arrays of other dtypes are views of the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from briskrl.compiler.jit import inline_helper, kernel
from briskrl.envs.kernels.episode_log import tick
from briskrl.envs.kernels.parallel_step import parallel_step


class StepMode(IntEnum):
    """What one pass over the environments does. The first three are Gymnasium's autoreset modes."""

    SAME_STEP = 0
    """Step; an episode that ends is followed by a new one in the same step."""
    NEXT_STEP = 1
    """Step, or begin a new episode where the last step ended one."""
    DISABLED = 2
    """Step; ended episodes stay as they are."""
    RESET = 3
    """Begin new episodes where the ended flag is set; leave the others alone."""
    OBSERVE = 4
    """Recompute what is derived from the state and write observations."""


# Plain numbers: Numba would compile another version for members of an enum.
SAME_STEP, NEXT_STEP, DISABLED, RESET, OBSERVE = (mode.value for mode in StepMode)


@inline_helper
def numbers_per_env(obs, reward):
    """Size of one observation in a batch (N, ...) of them, beside the rewards (N,)."""
    return obs.size // reward.size


REFUSED = -1
"""In place of a cause: the action was refused, and nothing is written for this env."""


class EnvFunctions(NamedTuple):
    """The compiled functions of an environment family.

    `memory` is what `open_memory` returns, `base` the first word of the row of env `i`, and `lane`
    the index of the chunk of envs, for scratch space. Functions that get `memory` should be inlined
    and pass on only the arrays that are needed: a call passes every array as seven arguments, and
    keeping all of them at hand slows down the whole loop (4 % for Snake).
    """

    ended: int
    """Place of the ended flag in a row seen as int16; only the loop writes it."""
    open_memory: Callable[..., Any]
    """(params, state) -> memory: a NamedTuple of the arrays that the other functions work on."""
    row_words: Callable[..., Any]
    """(memory) -> words per row."""
    begin_episode: Callable[..., Any]
    """(memory, base, i, lane): start a new episode on the running random stream."""
    advance: Callable[..., Any]
    """(memory, base, i, lane, actions) -> reward, cause of the end or 0, whether that is terminal.

    `actions` is flat. An end that is not terminal is a truncation. The cause may be REFUSED.
    """
    record_episode: Callable[..., Any]
    """(memory, base, i, lane, log, cause): write the record of an ended episode."""
    observe: Callable[..., Any]
    """(memory, base, lane, obs, at): write the observation to the flat array obs[at:]."""
    observe_final: Callable[..., Any]
    """The same for final observations; not inlined if `observe` is long."""
    rebuild: Callable[..., Any]
    """(memory, base, i, lane): recompute what is derived from the state."""
    obs_size: Callable[..., Any] = numbers_per_env
    """(obs, reward) -> numbers of an observation; a constant is faster where a step is cheap."""


class StepKernels(NamedTuple):
    """The compiled passes of an environment family."""

    step: Callable[..., None]
    """One pass over the envs low..high-1; see `step`."""
    parallel_step: Callable[..., None]
    """One pass over all envs, shared by threads; see `parallel_step`."""
    ended: int
    """Place of the ended flag in a row seen as int16."""


def build_step_kernels(functions: EnvFunctions) -> StepKernels:
    """Compile the step loop of an environment family."""
    module = functions.advance.__module__
    bound = specialize(step, module, "step", functions._asdict())
    parallel = specialize(parallel_step, module, "parallel_step", {"step": bound})
    return StepKernels(bound, parallel, functions.ended)


def specialize(
    function: Any, module: str, name: str, values: Mapping[str, Any]
) -> Callable[..., None]:
    """A kernel from `function` with values for the global names that it leaves open.

    Args:
        function: Plain Python code.
        module: The module that the kernel belongs to.
        name: Its name there; compiled code is cached under both names.
        values: The values by name.
    """
    # Not a closure: Numba cannot find a closure over a compiled function in its cache again.
    own = FunctionType(function.__code__, {**function.__globals__, **values})
    own.__module__ = module
    own.__qualname__ = f"{module}.{name}"
    return kernel(own)


def step(
    params,
    state,
    log,
    actions,
    obs,
    reward,
    terminated,
    truncated,
    final_obs,
    low,
    high,
    lane,
    mode,
):
    """Advance the envs low..high-1 as `mode` says and write their transitions."""
    memory = open_memory(params, state)  # noqa: F821
    i16, stride = state.view(np.int16), row_words(memory)  # noqa: F821
    flat_actions, flat_obs = actions.reshape(actions.size), obs.reshape(obs.size)
    flat_final, size = final_obs.reshape(final_obs.size), obs_size(obs, reward)  # noqa: F821
    if mode < RESET:
        tick(log, lane)
    for i in range(low, high):
        base = i * stride
        flag = base * 4 + ended  # noqa: F821
        if mode == OBSERVE:
            rebuild(memory, base, i, lane)  # noqa: F821
        elif i16[flag] != 0:
            if mode == DISABLED:
                continue
            begin_episode(memory, base, i, lane)  # noqa: F821
            i16[flag] = 0
            reward[i], terminated[i], truncated[i] = 0.0, False, False
        elif mode == RESET:
            continue
        else:
            value, cause, terminal = advance(memory, base, i, lane, flat_actions)  # noqa: F821
            if cause == REFUSED:
                continue
            reward[i] = value
            terminated[i] = terminal
            truncated[i] = cause != 0 and not terminal
            if cause != 0:
                record_episode(memory, base, i, lane, log, cause)  # noqa: F821
                if mode == SAME_STEP:
                    observe_final(memory, base, lane, flat_final, i * size)  # noqa: F821
                    begin_episode(memory, base, i, lane)  # noqa: F821
                else:
                    i16[flag] = 1
        observe(memory, base, lane, flat_obs, i * size)  # noqa: F821
