"""Whether the order matters at all, by the scores of a search and by how often it was tested."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from briskrl.core.types import Ints
from briskrl.workflows.distances import Doubles
from briskrl.workflows.feasibility import SearchModel
from briskrl.workflows.history import Observations

MIN_CONTESTED = 0.02
"""Smallest share of decisions at which an order must make a difference."""
MIN_EVIDENCE_GAIN = 3.0
"""Smallest advantage in log evidence of scores that depend on the order over scores that do not.

With scores that are noise alone, 0 of 100 searches with 10 evaluations reach it, 4 of 200 with 30
and 5 of 100 with 60. The spread of expected scores alone cannot tell: a model fitted to noise finds
a spread, too. With an effect of twice the noise, 38 of 40 searches with 30 evaluations reach it.
"""


@dataclass(frozen=True, slots=True)
class OrderEffect:
    """Whether the order matters, and why."""

    matters: bool | None
    """None if there is not enough data."""
    reason: str
    """One or two sentences for the user."""
    contested_share: float | None
    """Share of decisions at which the order made a difference, if known."""
    spread: float | None
    """Difference between the largest and the smallest expected score of all orders."""
    standard_error: float | None
    """Pooled standard error of the scores."""
    evidence_gain: float | None
    """Log evidence for scores that depend on the order, over scores that do not."""
    uncontested: tuple[tuple[str, str], ...]
    """Pairs of categories that were never in competition, if pairs were counted."""


def order_effect(
    categories: tuple[str, ...],
    orders: Ints,
    seen: Observations,
    model: SearchModel | None,
    *,
    contested_share: float | None,
    pair_counts: Doubles | None,
    min_contested: float = MIN_CONTESTED,
) -> OrderEffect:
    """Judge whether the order matters.

    It does not if the recommended order was hardly ever tested, if the expected scores of all
    orders differ by less than the standard error of one score, or if the scores are as likely to
    be noise around one value.

    Args:
        categories: Names of the categories.
        orders: The orders (n, m) to compare.
        seen: The observations.
        model: The model of the scores.
        contested_share: Share of the decisions of the recommended order at which two or more
            categories competed.
        pair_counts: Counts (m, m) of the decisions at which two categories competed.
        min_contested: Smallest such share.
    """
    spread = standard_error = gain = None
    if model is not None:
        spread = float(np.ptp(model.predict(orders).mean))
        standard_error = _standard_error(seen, model)
        gain = model.score.evidence_gain
    uncontested = _uncontested(categories, pair_counts)
    if contested_share is not None and contested_share < min_contested:
        matters: bool | None = False
        reason = (
            f"The order does not matter: {contested_share:.1%} of the decisions had a choice "
            f"between categories, less than {min_contested:.1%}."
        )
    else:
        matters, reason = _judged(spread, standard_error, gain)
    if uncontested and matters is not None:
        pairs = ", ".join(f"{a} and {b}" for a, b in uncontested)
        reason += f" Never in competition: {pairs}."
    return OrderEffect(matters, reason, contested_share, spread, standard_error, gain, uncontested)


def _judged(
    spread: float | None, standard_error: float | None, gain: float | None
) -> tuple[bool | None, str]:
    """The verdict by the scores, and its reason."""
    if spread is None or standard_error is None or gain is None:
        return None, "There are too few results to judge whether the order matters."
    compared = (
        f"expected scores of all orders differ by up to {spread:.4g}, the standard error of a "
        f"score is {standard_error:.4g}"
    )
    if spread == 0 or spread < standard_error:
        return False, f"The order does not matter measurably: {compared}."
    if gain < MIN_EVIDENCE_GAIN:
        return False, (
            f"The order does not matter measurably: {compared}, but similar orders do not have "
            "more similar scores than others."
        )
    return True, f"The order matters: {compared}."


def _standard_error(seen: Observations, model: SearchModel) -> float:
    """Root mean square of the known standard errors, or else the noise that the model infers."""
    known = seen.score_se[np.isfinite(seen.score_se)]
    if len(known):
        return float(np.sqrt((known**2).mean()))
    parameters = model.score.parameters
    return float(model.score.scale * (parameters.signal * parameters.noise) ** 0.5)


def _uncontested(
    categories: tuple[str, ...], pair_counts: Doubles | None
) -> tuple[tuple[str, str], ...]:
    if pair_counts is None:
        return ()
    return tuple(
        (categories[i], categories[j])
        for i, j in combinations(range(len(categories)), 2)
        if pair_counts[i, j] == 0
    )
