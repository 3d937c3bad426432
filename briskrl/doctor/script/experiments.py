"""Settings to change while a script runs, and what a gain means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from briskrl.core.cpu import usable_cores
from briskrl.doctor.experiments.base import WORTH, WORTH_A_CORE, verdict_of
from briskrl.doctor.findings import CERTAIN, TITLES
from briskrl.doctor.report.records import Finding, Outcome, Verdict
from briskrl.doctor.script.observed import Observed
from briskrl.doctor.script.phases import is_own
from briskrl.doctor.script.recording import Code
from briskrl.doctor.script.turns import Answer


@dataclass(frozen=True, slots=True)
class ScriptExperiment:
    """One change to a running script."""

    name: str
    question: str
    cause: str
    change: str
    """What to change in the script."""
    switch: str
    """Setting that the watcher knows."""
    value: Any = None
    alters: str = ""
    """Effect on learning; empty if there is none."""
    worth: float | None = WORTH
    """Gain from which it is a finding; None if it only answers a question."""
    call: str = ""
    """End of the name of the call in the script that decides it."""
    lasting: bool = False
    """Whether the change may last beyond its turns."""
    by_wall: bool = False
    """Whether waiting for a core is part of the answer."""
    context: str = ""
    fix: str = ""


WATCHING = ScriptExperiment(
    "watching", "What does watching cost?", "watching", "", "unwatched", worth=None
)


def planned_experiments(seen: Observed) -> list[ScriptExperiment]:
    """Experiments that apply to a script, the most important first."""
    planned = [*_torch(seen), WATCHING, *_python(seen), *_fewer_updates(seen)]
    return sorted(planned, key=lambda item: -_urgency(item, seen))


def _urgency(experiment: ScriptExperiment, seen: Observed) -> float:
    """What to ask first, because a short run may not answer everything."""
    threads = seen.state.get("torch_threads")
    if experiment.cause == "threads" and isinstance(threads, int) and threads > usable_cores():
        return 3
    if experiment.cause == "log":
        return seen.share("log", "save")
    return {
        "anomaly": 2.5,
        "checks": 0.4,
        "watching": 2,
        "threads": 0.3,
        "denormals": 0.2,
        "garbage": seen.collecting,
    }.get(experiment.cause, 0.1)


def _fewer_updates(seen: Observed) -> Iterator[ScriptExperiment]:
    """Half of the updates are skipped for a moment; that only shows what they cost."""
    code = update_function(seen)
    if code is not None:
        name = code.name.rsplit(".", 1)[-1]
        yield ScriptExperiment(
            name="half of the updates",
            question=f"How much faster with every other call of {name}() left out?",
            cause="updates",
            change="half as many updates",
            switch="skip",
            value={"file": code.file, "path": code.name, "every": 2},
            alters="fewer updates per transition; what is learned was not compared",
            worth=None,
        )


def update_function(seen: Observed) -> Code | None:
    """The function of the user that makes an update, if there is one that can be replaced."""
    found: Counter[Code] = Counter()
    for key, ticks in seen.ticks.items():
        item = seen.stacks[key]
        if "update" in item.tags:
            inner = next((f.code for f in item.stack.loop_frames if is_own(f)), None)
            if inner is not None:
                found[inner] += ticks
    if not found:
        return None
    code = found.most_common(1)[0][0]
    is_replaceable = "<" not in code.name and code.name not in ("main", "train", "run", "learn")
    return code if is_replaceable else None


def _torch(seen: Observed) -> Iterator[ScriptExperiment]:
    now = seen.state.get("torch_threads")
    if not isinstance(now, int):
        return
    cores = usable_cores()
    for count in sorted({1, cores} - {now}):
        yield ScriptExperiment(
            name=f"torch threads {count}",
            question=f"Would {count} torch thread{'s' * (count > 1)} be faster than {now}?",
            cause="threads",
            change=f"torch.set_num_threads({count})",
            switch="threads",
            value=count,
            worth=WORTH_A_CORE if count > now else WORTH,
            context=f"{now} threads on {cores} cores",
            fix=f"torch.set_num_threads({count})  # right after `import torch`",
        )
    yield from _debugging(seen)
    yield ScriptExperiment(
        name="denormals",
        question="Are denormal numbers slowing it down?",
        cause="denormals",
        change="torch.set_flush_denormal(True)",
        switch="denormals",
        lasting=True,
        fix="torch.set_flush_denormal(True)  # right after `import torch`",
    )


def _debugging(seen: Observed) -> Iterator[ScriptExperiment]:
    """Modes that find mistakes, and are not needed once there are none."""
    modes = seen.state.get("debugging")
    if not isinstance(modes, dict):
        return
    if modes.get("anomaly"):
        yield ScriptExperiment(
            name="anomaly detection off",
            question="Does the anomaly detection of autograd take time?",
            cause="anomaly",
            change="torch.autograd.set_detect_anomaly(False)",
            switch="anomaly",
            call="detect_anomaly",
            fix="torch.autograd.set_detect_anomaly(False)  # turn it on only to find a NaN",
        )
    if modes.get("checks") and _uses_distributions(seen):
        yield ScriptExperiment(
            name="distribution checks off",
            question="Do the checks of torch.distributions take time?",
            cause="checks",
            change="torch.distributions.Distribution.set_default_validate_args(False)",
            switch="checks",
            fix="torch.distributions.Distribution.set_default_validate_args(False)  # at the start",
        )


def _uses_distributions(seen: Observed) -> bool:
    """Whether a noticeable part of the time is spent in them."""
    found = sum(
        ticks
        for key, ticks in seen.ticks.items()
        if any("/torch/distributions/" in f.code.file for f in seen.stacks[key].stack.frames)
    )
    return found > NOTICEABLE * seen.total


NOTICEABLE = 0.05


def _python(seen: Observed) -> Iterator[ScriptExperiment]:
    if seen.share("log", "save") > 0.01:
        yield ScriptExperiment(
            name="records put off",
            question="Do prints and log calls take time?",
            cause="log",
            change="print and log less often",
            switch="records",
        )
    yield ScriptExperiment(
        name="garbage collector off",
        question="Does garbage collection take time?",
        cause="garbage",
        change="gc.freeze() after setup, or fewer new objects per step",
        switch="gc",
        fix="import gc\n\ngc.freeze()  # before the loop: what exists by then is not scanned again",
    )


def to_outcome(experiment: ScriptExperiment, answer: Answer | None, why: str = "") -> Outcome:
    """The result of an experiment, in figures and in a sentence."""
    gain = None if answer is None else answer.gain
    missing: tuple[Verdict, str] = ("missing", why or TOO_FEW)
    verdict, text = missing if gain is None else verdict_of(gain)
    context = f"; {experiment.context}" if experiment.context and gain is not None else ""
    return Outcome(
        name=experiment.name,
        question=experiment.question,
        change=experiment.change,
        verdict=verdict,
        answer=text + context,
        alters_learning=experiment.alters,
        gain=gain,
        pairs=0 if answer is None else answer.pairs,
    )


TOO_FEW = "too few turns for an answer; increase --budget"


def is_disturbed(experiment: ScriptExperiment, seen: Observed) -> bool:
    """Whether an answer about threads holds only as long as other programs need the cores."""
    now = seen.state.get("torch_threads")
    is_usual = isinstance(now, int) and now <= usable_cores()
    return experiment.cause == "threads" and is_usual and seen.is_crowded


DISTURBED = "other programs kept the cores busy; ask again on a quiet machine"


def result_of(experiment: ScriptExperiment, found: Outcome, seen: Observed) -> list[Finding]:
    """The finding that an experiment shows, if its gain is certain and worth it."""
    gain = found.gain
    if gain is None or experiment.worth is None or gain.factor < experiment.worth:
        return []
    if gain.low < 1 + CERTAIN * (gain.factor - 1) or is_disturbed(experiment, seen):
        return []
    measured = (
        f"{experiment.change}: {gain.factor:.2f} times as fast "
        f"({gain.low:.2f} to {gain.high:.2f}, {found.pairs} pairs of turns)"
    )
    return [
        Finding(
            cause=experiment.cause,
            title=TITLES.get(experiment.cause, experiment.cause),
            evidence=(*([experiment.context] if experiment.context else []), measured),
            advice=experiment.change,
            gain=gain,
            basis="measured",
            alters_learning=experiment.alters,
            fix=experiment.fix,
        )
    ]
