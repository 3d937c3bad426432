"""How close each strategy comes to the best of 120 orders, and what a proposal costs.

The score of an order is a sum over pairs of categories, with mean 0 and standard deviation 1 over
all orders, and is measured with noise. The regret is the score of the best order minus that of the
recommended one, both without noise.

    python benchmarks/order_search.py --seeds 200
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import process_time

import numpy as np
from numpy.typing import NDArray

from briskrl.orders.encoding import precedence_signs
from briskrl.orders.space import WorkflowSpace
from briskrl.orders.workflow import Workflow
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.history import OrderResult
from briskrl.workflows.searcher import Searcher

SPACE = WorkflowSpace(("a", "b", "c", "d", "e"))
NOISE = 0.3
EVALUATIONS = 30
FEASIBLE_SHARE = 1 / 6
THRESHOLD = 0.95

VARIANTS: dict[str, tuple[SearcherConfig, int]] = {
    "gp-ucb": (SearcherConfig(), 1),
    "gp-ucb, 4 at a time": (SearcherConfig(), 4),
    "gp-ucb, no revisits": (SearcherConfig(max_visits=1), 1),
    "gp-ucb, beta theory": (SearcherConfig(beta="theory"), 1),
    "thompson": (SearcherConfig(strategy="thompson"), 1),
    "random": (SearcherConfig(strategy="random"), 1),
    "optuna": (SearcherConfig(strategy="optuna"), 1),
}
"""Settings, and the number of orders that are evaluated at a time."""


@dataclass(frozen=True, slots=True)
class Landscape:
    """Scores and compliance of all 120 orders, by id."""

    scores: NDArray[np.float64]
    compliance: NDArray[np.float64]

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Which orders reach the threshold."""
        return self.compliance >= THRESHOLD

    def regret(self, workflow: Workflow) -> float:
        """Score of the best feasible order minus that of a workflow."""
        return float(self.scores[self.feasible].max() - self.scores[workflow.id])


def landscape(seed: int, *, constrained: bool = False) -> Landscape:
    """Additive pairwise scores; if constrained, a sixth of the orders is feasible."""
    rng = np.random.default_rng([seed, 0])
    scores = _additive(rng)
    if not constrained:
        return Landscape(scores, np.ones(SPACE.size))
    obeyed = _additive(rng)
    margin = obeyed - np.quantile(obeyed, 1 - FEASIBLE_SHARE)
    return Landscape(scores, np.clip(THRESHOLD + 0.1 * margin, 0, 1))


def search(
    world: Landscape,
    config: SearcherConfig,
    *,
    seed: int,
    together: int = 1,
    evaluations: int = EVALUATIONS,
    measured: Callable[[float], float] = float,
    replace_earlier: bool = False,
) -> Searcher:
    """A finished search of a landscape.

    Args:
        world: The landscape.
        config: How to search.
        seed: Of the search and of the noise.
        together: Orders that are evaluated at a time.
        evaluations: Number of evaluations.
        measured: Converts a noisy score, for example to other units.
        replace_earlier: Whether a repeated score replaces the earlier one instead of being
            averaged with it.
    """
    rng = np.random.default_rng([seed, 1])
    searcher = Searcher(SPACE, replace(config, max_workflows=evaluations), seed=seed)
    while choices := searcher.ask(together):
        for choice in choices:
            number = choice.workflow.id
            score = float(world.scores[number]) + NOISE * float(rng.standard_normal())
            compliance = float(world.compliance[number])
            result = OrderResult(
                choice.workflow,
                measured(score),
                compliance=compliance,
                replaces_earlier=replace_earlier,
            )
            searcher.tell(result)
    return searcher


def regrets(
    config: SearcherConfig,
    *,
    seeds: int,
    together: int = 1,
    constrained: bool = False,
    replace_earlier: bool = False,
) -> NDArray[np.float64]:
    """Regret of the recommended order of each search (seeds,); NaN if it is not feasible."""
    found = []
    for seed in range(seeds):
        world = landscape(seed, constrained=constrained)
        searcher = search(
            world, config, seed=seed, together=together, replace_earlier=replace_earlier
        )
        best = searcher.recommend()
        assert best is not None
        feasible = world.feasible[best.workflow.id]
        found.append(world.regret(best.workflow) if feasible else np.nan)
    return np.array(found)


def cpu_ms_of_a_proposal(observations: int, *, repetitions: int = 5) -> float:
    """CPU milliseconds of one `ask` after this many different orders have scores."""
    spent = 0.0
    for seed in range(-1, repetitions):
        rng = np.random.default_rng([seed + 1, 2])
        searcher = Searcher(SPACE, seed=seed + 1)
        scores = landscape(seed + 1).scores
        for number in rng.permutation(SPACE.size)[:observations].tolist():
            score = float(scores[number]) + NOISE * float(rng.standard_normal())
            searcher.tell(OrderResult(SPACE.from_id(number), score))
        begin = process_time()
        searcher.ask()
        # The first turn is a warm-up.
        spent += process_time() - begin if seed >= 0 else 0.0
    return 1000 * spent / repetitions


def _additive(rng: np.random.Generator) -> NDArray[np.float64]:
    signs = precedence_signs(SPACE.orders)
    raw = signs @ rng.standard_normal(signs.shape[1])
    scores: NDArray[np.float64] = (raw - raw.mean()) / raw.std()
    return scores


def _row(name: str, found: NDArray[np.float64]) -> str:
    error = np.nanstd(found) / np.sqrt(len(found))
    return f"{name:28}{np.nanmean(found):8.3f} +- {error:.3f}{np.nanmax(found):10.3f}"


def main() -> None:
    """Print the regrets of all variants and the cost of a proposal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40, help="landscapes per strategy")
    seeds = parser.parse_args().seeds
    print(f"{EVALUATIONS} evaluations of {SPACE.size} orders, noise {NOISE}, {seeds} landscapes")
    print(f"{'':28}mean regret +- s.e.   largest")
    for name, (config, together) in VARIANTS.items():
        print(_row(name, regrets(config, seeds=seeds, together=together)), flush=True)
    found = regrets(SearcherConfig(), seeds=seeds, replace_earlier=True)
    print(_row("gp-ucb, revisits replace", found), flush=True)
    for rule in ("model", "penalise", "skip", "ignore"):
        found = regrets(SearcherConfig(infeasible=rule), seeds=seeds, constrained=True)
        missed = int(np.isnan(found).sum())
        print(_row(f"1/6 feasible, {rule}", found), f"  {missed} infeasible", flush=True)
    for observations in (10, 50, 100):
        print(
            f"{observations} scores: {cpu_ms_of_a_proposal(observations):.1f} CPU ms per proposal"
        )


if __name__ == "__main__":
    main()
