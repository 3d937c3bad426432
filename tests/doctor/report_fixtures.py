"""Reports with every kind of content, for the tests of their presentation."""

from __future__ import annotations

from dataclasses import replace

from briskrl.doctor.report.records import Finding, Gain, Moment, Outcome, PhaseRow, Report, Speed

SPEED = Speed(
    steps_per_s=108_848.0,
    steps_per_cpu_s=220_424.0,
    cores_busy=0.51,
    updates_per_step=0.03125,
    num_envs=256,
    steps=1_358_080,
    updates=42_430,
    episodes=15_132,
    machine_fraction=0.6116,
)
PHASES = (
    PhaseRow("update", 0.75, 7.5, 3.5, 3905, 917.0, 8995.0),
    PhaseRow("act", 0.24, 2.4, 1.2, 3906, 123.0, 4157.0),
    PhaseRow("other", 0.01, 0.1, 0.05, 0, 0.0, 0.0),
)
STORE = Finding(
    cause="store",
    title="storing transitions takes 83 % of the time",
    evidence=("256 transitions take 4,700 us to store", "one batched write takes 17 us here"),
    advice="write a vector step as one batch",
    gain=Gain(5.6, 5.6, 5.6),
    basis="predicted",
)
RATIO = Finding(
    cause="updates",
    title="learning takes most of the time",
    evidence=("--train-steps-ratio 0.03: 2.58 times as fast (2.51 to 2.65, 6 pairs of turns)",),
    advice="--train-steps-ratio 0.03",
    gain=Gain(2.58, 2.51, 2.65),
    basis="measured",
    alters_learning="less is learned from each step",
)
ENV = Finding(
    cause="env",
    title="the environment takes 60 % of the time",
    evidence=(),
    advice="make the environment itself faster",
    gain=Gain(2.5, 2.5, 2.5),
    basis="ceiling",
)
HALF = Outcome(
    name="half the ratio",
    question="How much faster with half the ratio?",
    change="--train-steps-ratio 0.5",
    verdict="helps",
    answer="yes: 1.68 times as fast",
    alters_learning="less is learned from each step",
    gain=Gain(1.684, 1.607, 1.766),
    cpu_gain=Gain(1.683, 1.606, 1.764),
    pairs=18,
)
USUAL = replace(
    HALF,
    name="the usual ratio",
    question="How much faster with the usual ratio?",
    change="--train-steps-ratio 0.03",
    answer="yes: 2.58 times as fast",
    gain=Gain(2.58, 2.51, 2.65),
)
THREADS = Outcome(
    name="2 threads",
    question="Would 2 threads be faster than 1?",
    change="--threads 2",
    verdict="unclear",
    answer="unclear: the difference is within measurement noise",
    gain=Gain(0.95, 0.84, 1.087),
    cpu_gain=Gain(0.92, 0.84, 1.01),
    pairs=9,
)
FAILED = Outcome(
    name="compile",
    question="Would torch.compile help?",
    change="--compile",
    verdict="missing",
    answer="it failed (RuntimeError: no compiler)",
)
DEVICE = Outcome(
    name="device",
    question="Would an accelerator help?",
    change="",
    verdict="missing",
    answer="this machine has none",
)
HISTORY = tuple(
    Moment(
        at_s=0.5 * index,
        steps=1000 * index,
        steps_per_s=1e5 - 1000 * index,
        cpu_us_per_step=4.0 + 0.1 * index,
        rss_mb=500.0 + 2 * index,
    )
    for index in range(1, 21)
)
PROOF = Outcome(
    name="proof",
    question="Is it faster with all advice applied?",
    change="--engine fused",
    verdict="helps",
    answer="yes: 3.10 times as fast",
    gain=Gain(3.1, 3.0, 3.2),
    pairs=12,
)
PROFILE = {
    "kind": "cprofile",
    "seconds": 2.0,
    "files": ["profile.pstats"],
    "top": [{"name": "train.py:10(step)", "calls": 1234, "own_s": 1.5, "share": 0.75}],
    "why": "",
}
HEALTHY = Report(
    target="snake --algo dqn",
    version="0.1.0",
    budget_s=60.0,
    took_s=60.3,
    load=0.4,
    speed=SPEED,
    coverage=0.99,
    phases=PHASES,
    findings=(),
    outcomes=(HALF, THREADS, DEVICE),
    notes=("engine fused",),
    history=HISTORY,
    cores=2,
)
ILL = replace(
    HEALTHY,
    findings=(STORE, RATIO, ENV),
    outcomes=(HALF, USUAL, THREADS, FAILED, DEVICE),
    proof=PROOF,
    profile=PROFILE,
)
EMPTY = replace(
    HEALTHY,
    speed=None,
    coverage=0.0,
    phases=(),
    outcomes=(),
    notes=(),
    history=(),
    interrupted=True,
)

HOSTILE = "</svg><script>alert('\"&')</script>\x1b[2J\x00]]>"


def hostile() -> Report:
    """A report in which every text comes from an attacker."""
    gain = Gain(2.0, 0.0, float("inf"))
    outcome = replace(THREADS, name=HOSTILE, question=HOSTILE, change=HOSTILE, answer=HOSTILE)
    finding = Finding(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE, gain, "measured", HOSTILE)
    return replace(
        ILL,
        target=HOSTILE,
        version=HOSTILE,
        phases=(replace(PHASES[0], name=HOSTILE), *PHASES[1:]),
        findings=(finding,),
        outcomes=(
            replace(outcome, gain=gain, alters_learning=HOSTILE),
            replace(outcome, verdict="missing", gain=None),
            replace(outcome, verdict="helps", answer=HOSTILE + "!", change=HOSTILE + "!"),
        ),
        notes=(HOSTILE,),
        proof=outcome,
        profile={
            "kind": HOSTILE,
            "files": [HOSTILE],
            "top": [{"name": HOSTILE, "calls": None, "own_s": 1.0, "share": 0.5}],
            "why": HOSTILE,
        },
    )
