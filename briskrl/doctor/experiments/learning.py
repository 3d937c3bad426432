"""Experiments about learning: who computes it, how often, and in what portions."""

from __future__ import annotations

from collections.abc import Iterator

from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.ppo.config import PPOConfig
from briskrl.doctor.experiments.base import Experiment, Skipped
from briskrl.doctor.observation import Observation
from briskrl.doctor.train_loop import without_updates
from briskrl.doctor.variants import Lab

MUCH_LEARNING = 0.125
"""Updates per transition above which fewer are worth a thought."""
USUAL_RATIO = 0.03125
SMALL_SHARE = 0.05
"""Of the time, below which learning is not worth an experiment."""
SMALL_BATCH = 64
"""Rows below which an update of a large network is mostly overhead."""

RATIO = "fewer updates per transition: steps are cheaper, and each teaches less"
BATCH = "larger and fewer updates on as many samples"


def about_learning(
    lab: Lab, seen: Observation, fraction: float | None
) -> Iterator[Experiment | Skipped]:
    """All of them, or why none is worth making.

    Args:
        lab: Where loops are made.
        seen: What was seen of the loop.
        fraction: Share of the machine's arithmetic that it uses, if known.
    """
    share = seen.own_share("update") + seen.own_share("act")
    if share < SMALL_SHARE:
        why = f"computing the networks takes {100 * share:.1f} % of the time"
        yield Skipped("engine", "Would the other engine be faster?", why)
        yield Skipped("ratio", "How much faster with fewer updates?", why)
        yield Skipped("batch size", "Would larger batches on as many samples help?", why)
        return
    yield from engines(lab)
    yield from ratios(lab)
    yield from batches(lab, fraction)


def engines(lab: Lab) -> Iterator[Experiment | Skipped]:
    """Torch against the fused engine."""
    question = "Would the other engine be faster?"
    if lab.refusal:
        yield Skipped("engine", question, f"only torch can compute this: {lab.refusal}")
        return
    if lab.config.overlap:
        yield Skipped("engine", question, "--overlap needs the fused engine")
        return
    other = "torch" if lab.engine == "fused" else "fused"
    # Where the choice is left to the warm-up, the better one was chosen: see its note.
    if lab.config.engine == "auto" and other == "torch":
        yield Skipped("engine", question, "the warm-up has timed both and taken fused")
        return
    yield lab.change("engine", question, "engine", {"engine": other})


def ratios(lab: Lab) -> Iterator[Experiment | Skipped]:
    """No updates, and fewer of them."""
    algo = lab.config.algo_config
    if lab.config.overlap:
        yield Skipped("no updates", "How much is learning?", "learning overlaps collecting")
    else:
        yield Experiment(
            name="no updates",
            question="How fast would it be without learning?",
            cause="updates",
            change="no updates at all",
            open=lambda: lab.open(without_updates),
            alters="nothing is learnt",
            worth=None,
        )
    if isinstance(algo, DQNConfig):
        yield from _smaller_ratios(lab, algo)
    elif isinstance(algo, PPOConfig) and algo.epochs > 1:
        fewer = {"algo_config.epochs": algo.epochs // 2}
        yield lab.change(
            "half the epochs",
            "Would fewer passes over a rollout help?",
            "updates",
            fewer,
            alters=RATIO,
            worth=1.1 if algo.epochs > 10 else None,
        )


def _smaller_ratios(lab: Lab, algo: DQNConfig) -> Iterator[Experiment]:
    worth = 1.1 if algo.ratio > MUCH_LEARNING else None
    asked = {"half the ratio": algo.ratio / 2, "quarter of the ratio": algo.ratio / 4}
    if worth is not None:
        asked["the usual ratio"] = USUAL_RATIO
    for name, ratio in asked.items():
        yield lab.change(
            name,
            f"How much faster with {name}?",
            "updates",
            {"algo_config.train_steps_ratio": ratio},
            alters=RATIO,
            worth=worth,
        )


def batches(lab: Lab, fraction: float | None) -> Iterator[Experiment | Skipped]:
    """Larger updates on as many samples; `fraction` is the machine's share in use."""
    algo = lab.config.algo_config
    question = "Would larger batches on as many samples help?"
    context = "" if fraction is None else f"{100 * fraction:.0f} % of this machine is used"
    if isinstance(algo, DQNConfig):
        times = max(4, 128 // algo.batch_size)
        changes = {
            "algo_config.batch_size": algo.batch_size * times,
            "algo_config.train_steps_ratio": algo.ratio / times,
        }
        small = algo.batch_size < SMALL_BATCH
    else:
        size = min(algo.minibatch_size, lab.num_envs * algo.update_steps)
        changes = {"algo_config.minibatch_size": size * 4}
        small = size < 4 * SMALL_BATCH
        if size * 4 > lab.num_envs * algo.update_steps:
            yield Skipped("batch size", question, "a rollout is no more than a few minibatches")
            return
    yield lab.change(
        "batch size",
        question,
        "small-batch",
        changes,
        alters=BATCH,
        worth=1.2 if small else None,
        context=context,
    )
