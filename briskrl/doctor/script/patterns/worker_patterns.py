"""Worker processes for environments whose steps cost less than sending them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from briskrl.doctor.report.records import Finding
from briskrl.doctor.script.costs import Costs, Lines, without
from briskrl.doctor.script.patterns import fixes
from briskrl.doctor.script.source import called_name

SHARE = 1 / 3
"""Share of the time in environments below which they are not reported."""
CHEAP = 0.5
"""Cost of stepping all environments in this process, over that with workers, which is reported."""
IN_WORKERS = ("/gymnasium/vector/async_vector_env.py", "/gym/vector/async_vector_env.py")
MEASURED_S, STEPS = 0.3, 20_000
"""Longest time, and most steps, for measuring an environment."""


def worker_findings(costs: Costs) -> Iterator[Finding]:
    """Workers that take more time than they save."""
    seen = costs.seen
    share = seen.share("env")
    if share < SHARE or not _uses_workers(costs):
        return
    env_id = seen.state.get("env_id") or _named_env(costs)
    if not isinstance(env_id, str) or not env_id:
        return
    alone = step_s(env_id)
    taken = costs.seconds_per_call(share) * seen.wall_s / seen.own_s
    if alone is None or seen.num_envs * alone > CHEAP * taken:
        return
    lines = _made(costs) or costs.hottest(lambda item: item.phase == "env")
    yield Finding(
        cause="workers",
        title=f"worker processes cost more than they save: {100 * share:.0f} % of the time",
        evidence=(
            f"a step of {seen.num_envs} environments takes {1e6 * taken:,.0f} us; stepping "
            f"{env_id} as often in one process takes {1e6 * seen.num_envs * alone:,.0f} us here",
        ),
        advice="step the environments in this process; workers pay off for steps that take longer "
        "than 0.1 ms or so",
        gain=without(share * (1 - seen.num_envs * alone / taken), seen.total),
        basis="predicted",
        location="" if lines is None else lines.location,
        source="" if lines is None else costs.text(lines),
        fix=fixes.IN_PROCESS,
    )


def _named_env(costs: Costs) -> str:
    """The environment that the user's files make, if all make the same; workers do not tell."""
    files = {item.site.code.file for item in costs.seen.stacks.values() if item.site is not None}
    names = {
        str(node.args[0].value)
        for file in files
        for node in ast.walk(costs.sources.of(file).tree)
        if isinstance(node, ast.Call)
        and called_name(node).rsplit(".", 1)[-1] in ("make", "make_vec")
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    return names.pop() if len(names) == 1 else ""


def _uses_workers(costs: Costs) -> bool:
    """Whether stacks are inside a vector environment of worker processes."""
    return any(
        any(frame.code.file.endswith(IN_WORKERS) for frame in item.stack.frames)
        for item in costs.seen.stacks.values()
    )


def step_s(env_id: str) -> float | None:
    """Seconds of a step in this process, with resets and the loop over members; None if unknown."""
    import gymnasium

    try:
        env: Any = gymnasium.make_vec(env_id, 4, vectorization_mode="sync")
    except Exception:  # It is registered by the script, or needs what is not installed here.
        return None
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(64)]
    calls, begin = 0, perf_counter()
    while perf_counter() - begin < MEASURED_S and calls < STEPS:
        env.step(actions[calls % 64])
        calls += 1
    taken = perf_counter() - begin
    env.close()
    return taken / calls / 4


def _made(costs: Costs) -> Lines | None:
    """The line that builds the workers."""
    codes = {item.site.code for item in costs.seen.stacks.values() if item.site is not None}
    for code in sorted(codes, key=lambda code: code.file):
        for node in ast.walk(costs.sources.of(code.file).tree):
            if not isinstance(node, ast.Call):
                continue
            name = called_name(node)
            is_async = name.endswith("AsyncVectorEnv") or '"async"' in ast.unparse(node).replace(
                "'", '"'
            )
            if is_async:
                return Lines(code, node.lineno, node.lineno)
    return None
