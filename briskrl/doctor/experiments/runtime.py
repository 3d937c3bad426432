"""Experiments about what learning runs on and in: backends, threads, counts, records, devices."""

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
from briskrl.doctor.variants import Lab
from briskrl.envs.gym.backend_selection import Costs, measure
from briskrl.envs.gym.compiled.registry import find_compiled
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory

UNEVEN = 0.3
"""Spread of step times above which waiting for the slowest may be what costs."""
SELDOM_S = 2.0
"""Seconds between rows of metrics that nobody would call often."""

ENVS = "more or fewer environments: what is collected between two updates changes"
LAG = "updates lag one iteration behind"


def about_surroundings(lab: Lab, seen: Observation) -> Iterator[Experiment | Skipped]:
    """All of them."""
    yield from backends(lab)
    yield from threads(lab)
    yield from env_counts(lab)
    yield from pushes(lab)
    yield from records(lab, seen)
    yield from observations(lab)
    yield from devices(lab)
    yield young(lab)


def backends(lab: Lab) -> Iterator[Experiment | Skipped]:
    """Gymnasium environments stepped by others."""
    settings, question = lab.config.env_config, "Would another backend step faster?"
    if not isinstance(settings, GymConfig):
        why = "native environments are stepped in compiled code, in this process"
        yield Skipped("backend", question, why)
        return
    now = _backend(lab, settings)
    if now == "compiled":
        yield Skipped("backend", question, "they are stepped in compiled code, in this process")
        return
    recipe = EnvFactory(lab.config.env.removeprefix("gym:"), settings)
    costs = measure(recipe)
    told = f"a step takes {1e6 * costs.mean:.0f} us and varies by {100 * costs.spread:.0f} %"
    compiled = ("compiled",) if find_compiled(recipe).version is not None else ()
    for backend in (*compiled, "sync", "process", "async"):
        if backend != now:
            yield lab.change(
                f"backend {backend}",
                f"Would --backend {backend} help?",
                _backend_cause(backend, costs),
                {"env_config.backend": backend},
                context=told,
            )


def _backend(lab: Lab, settings: GymConfig) -> str:
    """The backend in use; where it was left to us, the environments' note tells."""
    if settings.backend != "auto":
        return settings.backend
    told = " ".join(lab.env_notes)
    others = ("async", "process", "compiled")
    return next((name for name in others if told.endswith(f"{name}.")), "sync")


def threads(lab: Lab) -> Iterator[Experiment | Skipped]:
    """One thread, all cores, and collecting beside learning."""
    now, cores = lab.config.num_threads, usable_cores()
    for count in sorted({1, cores} - {now}):
        yield lab.change(
            f"{count} threads" if count > 1 else "one thread",
            f"Would {count} thread{'s' * (count > 1)} be faster than {now}?",
            "threads",
            {"threads": count},
            worth=WORTH_A_CORE if count > now else WORTH,
        )
    if isinstance(lab.config.algo_config, DQNConfig):
        yield from _overlaps(lab, cores)


def _overlaps(lab: Lab, cores: int) -> Iterator[Experiment | Skipped]:
    name, question = "overlap", "Would collecting and learning at the same time help?"
    if lab.config.overlap:
        off = {"overlap": False}
        yield lab.change("no overlap", "Would one thread do?", "overlap", off, alters=LAG)
    elif lab.engine != "fused" or cores < 2:
        why = "needs the fused engine" if cores > 1 else "there is one core only"
        yield Skipped(name, question, why)
    else:
        on = {"overlap": True}
        yield lab.change(name, question, "overlap", on, alters=LAG, worth=WORTH_A_CORE)


def env_counts(lab: Lab) -> Iterator[Experiment]:
    """More and fewer environments."""
    for name, times in (("1/8", 0.125), ("1/4", 0.25), ("x4", 4)):
        count = round(lab.num_envs * times)
        changes = _other_count(lab, count)
        if changes is None:
            continue
        yield lab.change(
            f"envs {name}",
            f"Would {count:,} environments be faster than {lab.num_envs:,}?",
            "num-envs",
            changes,
            alters=ENVS,
            worth=1.15,
        )


def _other_count(lab: Lab, count: int) -> dict[str, Any] | None:
    """Settings for so many environments with rollouts as large; None if that cannot be."""
    algo = lab.config.algo_config
    if not 1 <= count <= 65_536:
        return None
    changes: dict[str, Any] = {"num_envs": count}
    if isinstance(algo, PPOConfig):
        steps, rest = divmod(lab.num_envs * algo.update_steps, count)
        if rest or steps < 1:
            return None
        changes["algo_config.update_steps"] = steps
    return changes


def pushes(lab: Lab) -> Iterator[Experiment | Skipped]:
    """What storing by the transition would cost, which many loops do."""
    question = "What would pushing transitions one by one cost?"
    if not isinstance(lab.config.algo_config, DQNConfig):
        yield Skipped("push", question, "rollouts are written in place, nothing is pushed")
    elif isinstance(lab.config.env_config, GymConfig):
        yield Skipped("push", question, "asked of native environments only")
    else:
        yield Experiment(
            name="push one by one",
            question=question,
            cause="store",
            change="one transition at a time instead of one write per vector step",
            open=lambda: lab.open(pushing_one_by_one),
            worth=None,
        )


def records(lab: Lab, seen: Observation) -> Iterator[Experiment | Skipped]:
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
            open=lambda: lab.open(without_logs),
            worth=None,
        )
    if lab.config.log_seconds < SELDOM_S:
        often = f"Is every {lab.config.log_seconds:g} s too often for a row of metrics?"
        yield lab.change("log seldom", often, record_cause(seen)[0], {"log_seconds": SELDOM_S})
    seconds, steps = lab.config.checkpoint_seconds, lab.config.checkpoint_steps
    question = "What do checkpoints cost?"
    if steps or 0 < seconds < 10:
        yield lab.change(
            "checkpoints off",
            question,
            "save",
            {"checkpoint_steps": 0, "checkpoint_seconds": 600.0},
        )
    else:
        yield Skipped("checkpoints off", question, "they are at least ten seconds apart")


def observations(lab: Lab) -> Iterator[Experiment]:
    """Cheaper eyes."""
    if getattr(lab.config.env_config, "obs", None) in ("flood", "extended"):
        yield lab.change(
            "plain features",
            "What does the flood fill cost?",
            "observation",
            {"env_config.obs": "features"},
            alters="the agent sees less",
            worth=None,
        )


def devices(lab: Lab) -> Iterator[Experiment | Skipped]:
    """Accelerators and torch.compile."""
    found = [("cuda", torch.cuda.is_available()), ("mps", torch.backends.mps.is_available())]
    names = [name for name, there in found if there]
    if not names:
        yield Skipped("device", "Would an accelerator help?", "this machine has none")
    for name in names:
        other = "cpu" if lab.config.device != "cpu" else name
        yield lab.change("device", f"Would {other} be faster?", "device", {"device": other})
    question = "Would torch.compile help?"
    if lab.engine == "fused":
        yield Skipped("compile", question, "the fused engine is compiled already")
    elif not lab.config.compile:
        yield lab.change("compile", question, "compile", {"compile": True})


def young(lab: Lab) -> Experiment:
    """The same loop without its age."""
    return Experiment(
        name="just begun",
        question="Is it slower than when it began?",
        cause="growth",
        change="a fresh start; look for what grows with the run",
        open=lab.open,
        worth=1.2,
    )


def _backend_cause(backend: str, costs: Costs) -> str:
    """What it would mean if this backend helped: steps are slow, or uneven."""
    return "uneven-env" if backend == "async" and costs.spread > UNEVEN else "env"
