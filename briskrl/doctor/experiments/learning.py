"""Experiments about learning: the engine, the number of updates, and the batch size."""

from __future__ import annotations

from collections.abc import Iterator

from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.ppo.config import PPOConfig
from briskrl.doctor.experiments.base import Experiment, Skipped
from briskrl.doctor.observation import Observation
from briskrl.doctor.train_loop import without_updates
from briskrl.doctor.variants import VariantFactory

MUCH_LEARNING = 0.125
"""Updates per transition above which fewer are worth recommending."""
USUAL_RATIO = 0.03125
SMALL_SHARE = 0.05
"""Share of the time below which learning is not worth an experiment."""
SMALL_BATCH = 64
"""Batch size below which an update is mostly overhead."""

RATIO = "fewer updates per transition: cheaper steps, less learned from each"
LARGER_BATCHES = "Would larger batches with the same number of samples help?"
BATCH = "fewer and larger batches, with the same number of samples"


def learning_experiments(
    factory: VariantFactory, seen: Observation, fraction: float | None
) -> Iterator[Experiment | Skipped]:
    """All experiments about learning, or why there are none.

    Args:
        factory: Builds the loops.
        seen: Observation of the unchanged loop.
        fraction: Share of the machine's peak arithmetic rate in use, if known.
    """
    share = seen.own_share("update") + seen.own_share("act")
    if share < SMALL_SHARE:
        why = f"computing the networks takes {100 * share:.1f} % of the time"
        yield Skipped("engine", "Would the other engine be faster?", why)
        yield Skipped("ratio", "How much faster with fewer updates?", why)
        yield Skipped(
            "batch size", "Would larger batches with the same number of samples help?", why
        )
        return
    yield from engines(factory)
    yield from ratios(factory)
    yield from batches(factory, fraction)


def engines(factory: VariantFactory) -> Iterator[Experiment | Skipped]:
    """Torch against the fused engine."""
    question = "Would the other engine be faster?"
    if factory.refusal:
        yield Skipped("engine", question, f"only torch can compute this network: {factory.refusal}")
        return
    if factory.config.overlap:
        yield Skipped("engine", question, "--overlap needs the fused engine")
        return
    other = "torch" if factory.engine == "fused" else "fused"
    # With --engine auto the warm-up has measured both.
    if factory.config.engine == "auto" and other == "torch":
        yield Skipped("engine", question, "the warm-up measured both and selected fused")
        return
    yield factory.change("engine", question, "engine", {"engine": other})


def ratios(factory: VariantFactory) -> Iterator[Experiment | Skipped]:
    """No updates, and fewer updates."""
    algo = factory.config.algo_config
    if factory.config.overlap:
        yield Skipped(
            "no updates", "How much time does learning take?", "learning overlaps collecting"
        )
    else:
        yield Experiment(
            name="no updates",
            question="How fast would it be without learning?",
            cause="updates",
            change="no updates at all",
            open=lambda: factory.open(without_updates),
            alters="nothing is learned",
            worth=None,
        )
    if isinstance(algo, DQNConfig):
        yield from _smaller_ratios(factory, algo)
    elif isinstance(algo, PPOConfig) and algo.epochs > 1:
        fewer = {"algo_config.epochs": algo.epochs // 2}
        yield factory.change(
            "half the epochs",
            "Would fewer passes over a rollout help?",
            "updates",
            fewer,
            alters=RATIO,
            worth=1.1 if algo.epochs > 10 else None,
        )


def _smaller_ratios(factory: VariantFactory, algo: DQNConfig) -> Iterator[Experiment]:
    worth = 1.1 if algo.ratio > MUCH_LEARNING else None
    asked = {"half the ratio": algo.ratio / 2, "quarter of the ratio": algo.ratio / 4}
    if worth is not None:
        asked["the usual ratio"] = USUAL_RATIO
    for name, ratio in asked.items():
        yield factory.change(
            name,
            f"How much faster with {name}?",
            "updates",
            {"algo_config.train_steps_ratio": ratio},
            alters=RATIO,
            worth=worth,
        )


def batches(factory: VariantFactory, fraction: float | None) -> Iterator[Experiment | Skipped]:
    """Larger batches with the same number of samples; `fraction` as in `learning_experiments`."""
    algo = factory.config.algo_config
    context = "" if fraction is None else f"{100 * fraction:.0f} % of the machine's peak is used"
    if isinstance(algo, DQNConfig):
        times = max(4, 128 // algo.batch_size)
        changes = {
            "algo_config.batch_size": algo.batch_size * times,
            "algo_config.train_steps_ratio": algo.ratio / times,
        }
        small = algo.batch_size < SMALL_BATCH
    else:
        size = min(algo.minibatch_size, factory.num_envs * algo.update_steps)
        changes = {"algo_config.minibatch_size": size * 4}
        small = size < 4 * SMALL_BATCH
        if size * 4 > factory.num_envs * algo.update_steps:
            yield Skipped("batch size", LARGER_BATCHES, "a rollout has only a few minibatches")
            return
    yield factory.change(
        "batch size",
        LARGER_BATCHES,
        "small-batch",
        changes,
        alters=BATCH,
        worth=1.2 if small else None,
        context=context,
    )
