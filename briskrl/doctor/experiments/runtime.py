"""Experiments about the runtime: env backend, threads, number of envs, logging, device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.ppo.config import PPOConfig
from briskrl.core.cpu import usable_cores
from briskrl.doctor.experiments.base import WORTH, WORTH_A_CORE, Experiment, Skipped
from briskrl.doctor.observation import Observation
from briskrl.doctor.symptoms import record_cause
from briskrl.doctor.train_loop import pushing_one_by_one, without_logs
from briskrl.doctor.variants import VariantFactory
from briskrl.envs.gym.backend_selection import Costs, measure
from briskrl.envs.gym.compiled.registry import find_compiled
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.snake.config import SnakeConfig

UNEVEN = 0.3
"""Relative spread of step times above which waiting for the slowest environment matters."""
RARE_LOG_S = 2.0
"""Seconds between rows of metrics that cost nothing noticeable."""

ENVS = "another number of environments changes what is collected between two updates"
LAG = "the policy that collects is one iteration behind"


def runtime_experiments(
    factory: VariantFactory, seen: Observation
) -> Iterator[Experiment | Skipped]:
    """All experiments about the runtime."""
    yield from backends(factory)
    yield from threads(factory)
    yield from env_counts(factory)
    yield from pushes(factory)
    yield from records(factory, seen)
    yield from observations(factory)
    yield from devices(factory)
    yield fresh_start(factory)


def backends(factory: VariantFactory) -> Iterator[Experiment | Skipped]:
    """Other backends for Gymnasium environments."""
    settings, question = factory.config.env_config, "Would another backend be faster?"
    if not isinstance(settings, GymConfig):
        why = "native environments run as compiled code in this process"
        yield Skipped("backend", question, why)
        return
    now = _backend(factory, settings)
    if now == "compiled":
        yield Skipped("backend", question, "the environments run as compiled code in this process")
        return
    env_factory = EnvFactory(factory.config.env.removeprefix("gym:"), settings)
    costs = measure(env_factory)
    context = f"a step takes {1e6 * costs.mean:.0f} us and varies by {100 * costs.spread:.0f} %"
    compiled = ("compiled",) if find_compiled(env_factory).version is not None else ()
    for backend in (*compiled, "sync", "process", "async"):
        if backend != now:
            yield factory.change(
                f"backend {backend}",
                f"Would --backend {backend} help?",
                _backend_cause(backend, costs),
                {"env_config.backend": backend},
                context=context,
            )


def _backend(factory: VariantFactory, settings: GymConfig) -> str:
    """The backend in use; with `auto` it is read from the environments' note."""
    if settings.backend != "auto":
        return settings.backend
    note = " ".join(factory.env_notes)
    others = ("async", "process", "compiled")
    return next((name for name in others if note.endswith(f"{name}.")), "sync")


def threads(factory: VariantFactory) -> Iterator[Experiment | Skipped]:
    """One thread, all cores, and learning while collecting."""
    now, cores = factory.config.num_threads, usable_cores()
    for count in sorted({1, cores} - {now}):
        yield factory.change(
            f"{count} threads" if count > 1 else "one thread",
            f"Would {count} thread{'s' * (count > 1)} be faster than {now}?",
            "threads",
            {"threads": count},
            worth=WORTH_A_CORE if count > now else WORTH,
        )
    if isinstance(factory.config.algo_config, DQNConfig):
        yield from _overlaps(factory, cores)


def _overlaps(factory: VariantFactory, cores: int) -> Iterator[Experiment | Skipped]:
    name, question = "overlap", "Would collecting and learning at the same time help?"
    if factory.config.overlap:
        off = {"overlap": False}
        yield factory.change(
            "no overlap", "Would it be faster without overlap?", "overlap", off, alters=LAG
        )
    elif factory.engine != "fused" or cores < 2:
        why = "needs the fused engine" if cores > 1 else "there is only one core"
        yield Skipped(name, question, why)
    else:
        on = {"overlap": True}
        yield factory.change(name, question, "overlap", on, alters=LAG, worth=WORTH_A_CORE)


def env_counts(factory: VariantFactory) -> Iterator[Experiment]:
    """More and fewer environments."""
    for name, times in (("1/8", 0.125), ("1/4", 0.25), ("x4", 4)):
        count = round(factory.num_envs * times)
        changes = _other_count(factory, count)
        if changes is None:
            continue
        yield factory.change(
            f"envs {name}",
            f"Would {count:,} environments be faster than {factory.num_envs:,}?",
            "num-envs",
            changes,
            alters=ENVS,
            worth=1.15,
        )


def _other_count(factory: VariantFactory, count: int) -> dict[str, Any] | None:
    """Settings for `count` environments with the same rollout size; None if impossible."""
    algo = factory.config.algo_config
    if not 1 <= count <= 65_536:
        return None
    changes: dict[str, Any] = {"num_envs": count}
    if isinstance(algo, PPOConfig):
        steps, rest = divmod(factory.num_envs * algo.update_steps, count)
        if rest or steps < 1:
            return None
        changes["algo_config.update_steps"] = steps
    return changes


def pushes(factory: VariantFactory) -> Iterator[Experiment | Skipped]:
    """The cost of storing one transition at a time, as many loops do."""
    question = "What would storing transitions one at a time cost?"
    if not isinstance(factory.config.algo_config, DQNConfig):
        yield Skipped("push", question, "rollouts are written in place")
    elif isinstance(factory.config.env_config, GymConfig):
        yield Skipped("push", question, "tested with native environments only")
    else:
        yield Experiment(
            name="push one by one",
            question=question,
            cause="store",
            change="one transition at a time instead of one write per vector step",
            open=lambda: factory.open(pushing_one_by_one),
            worth=None,
        )


def records(factory: VariantFactory, seen: Observation) -> Iterator[Experiment | Skipped]:
    """Logs and checkpoints."""
    share = seen.own_share("log")
    question = "What does logging cost?"
    if share < 0.01:
        yield Skipped("logging off", question, f"it takes {100 * share:.1f} % of the time")
    else:
        yield Experiment(
            name="logging off",
            question=question,
            cause=record_cause(seen)[0],
            change="no metrics, no episodes",
            open=lambda: factory.open(without_logs),
            worth=None,
        )
    if factory.config.log_seconds < RARE_LOG_S:
        often = f"Is a row of metrics every {factory.config.log_seconds:g} s too often?"
        yield factory.change(
            "log rarely", often, record_cause(seen)[0], {"log_seconds": RARE_LOG_S}
        )
    seconds, steps = factory.config.checkpoint_seconds, factory.config.checkpoint_steps
    question = "What do checkpoints cost?"
    if steps or 0 < seconds < 10:
        yield factory.change(
            "checkpoints off",
            question,
            "save",
            {"checkpoint_steps": 0, "checkpoint_seconds": 600.0},
        )
    else:
        yield Skipped("checkpoints off", question, "they are at least ten seconds apart")


def observations(factory: VariantFactory) -> Iterator[Experiment]:
    """Cheaper observations."""
    env = factory.config.env_config
    if isinstance(env, SnakeConfig) and env.obs in ("flood", "extended"):
        yield factory.change(
            "plain features",
            "What does the flood fill cost?",
            "observation",
            {"env_config.obs": "features"},
            alters="the agent sees less",
            worth=None,
        )


def devices(factory: VariantFactory) -> Iterator[Experiment | Skipped]:
    """Accelerators and torch.compile."""
    found = [("cuda", torch.cuda.is_available()), ("mps", torch.backends.mps.is_available())]
    names = [name for name, there in found if there]
    if not names:
        yield Skipped("device", "Would an accelerator help?", "this machine has none")
    for name in names:
        other = "cpu" if factory.config.device != "cpu" else name
        yield factory.change("device", f"Would {other} be faster?", "device", {"device": other})
    question = "Would torch.compile help?"
    if factory.engine == "fused":
        yield Skipped("compile", question, "the fused engine is compiled already")
    elif not factory.config.compile:
        yield factory.change("compile", question, "compile", {"compile": True})


def fresh_start(factory: VariantFactory) -> Experiment:
    """The same loop, newly started."""
    return Experiment(
        name="just begun",
        question="Is it slower than at its start?",
        cause="growth",
        change="a fresh start; look for data that grows with the run",
        open=factory.open,
        worth=1.2,
    )


def _backend_cause(backend: str, costs: Costs) -> str:
    """Cause that a gain would show: slow steps, or uneven ones."""
    return "uneven-env" if backend == "async" and costs.spread > UNEVEN else "env"
