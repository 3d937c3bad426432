"""What a run will do within its budget, and warnings if that is next to nothing."""

from __future__ import annotations

from collections.abc import Iterator

from briskrl.algos.components import Components, OffPolicyComponents, OnPolicyComponents

FEW_UPDATES = 100
"""Fewer updates on replayed transitions teach next to nothing."""
FEW_ROLLOUTS = 3


def warnings(components: Components, steps: int | None) -> list[str]:
    """Reasons why a run of `steps` transitions cannot learn, each with the flag to change.

    None if the budget is a number of episodes, whose transitions are not known.
    """
    if steps is None:
        return []
    if isinstance(components, OffPolicyComponents):
        return list(_of_replay(components, steps))
    return list(_of_rollouts(components, steps))


def _of_replay(components: OffPolicyComponents, steps: int) -> Iterator[str]:
    starts, ratio = components.learning_starts, components.updates_per_step
    updates = int(max(0, steps - starts) * ratio)
    if updates < FEW_UPDATES:
        count = f"only {updates:,} updates" if updates else "no update"
        yield (
            f"{count} in {steps:,} steps: learning starts after {starts:,} "
            f"(--learning-starts), then there are {ratio:g} updates per step "
            "(--train-steps-ratio). Train longer (--steps), or change one of these."
        )
    decay = components.exploration_steps
    if decay > steps:
        yield (
            f"exploration decays over {decay:,} steps (--epsilon-steps), but the run has "
            f"{steps:,}: it will act at random for most of the time."
        )


def _of_rollouts(components: OnPolicyComponents, steps: int) -> Iterator[str]:
    rollout = components.rollout_steps
    if steps < rollout:
        yield (
            f"no update: a rollout takes {rollout:,} steps (--update-steps times --num-envs), but "
            f"the run has {steps:,}. Train longer (--steps), or change one of these."
        )
    elif steps < FEW_ROLLOUTS * rollout:
        yield (
            f"only {steps // rollout} rounds of updates: a rollout takes {rollout:,} steps "
            f"(--update-steps times --num-envs), and the run has {steps:,}."
        )
