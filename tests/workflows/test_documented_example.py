"""What docs/how-to/order-search.md states about its example."""

from __future__ import annotations

from itertools import permutations

import pytest

from briskrl import OrderResult, Searcher, SearcherConfig
from tests.docs.test_code_blocks import DOCS, blocks_of


def test_the_example_finds_the_best_order(capsys: pytest.CaptureFixture[str]) -> None:
    page = DOCS / "how-to/order-search.md"
    code, output = list(blocks_of(page))[:2]
    names: dict = {}
    exec(code.code, names)
    assert capsys.readouterr().out == output.code
    cost, space = names["cost"], names["space"]
    allowed = [
        order
        for order in permutations(space.categories)
        if order.index("white") < order.index("black")
    ]
    assert len(allowed) == space.size == 360
    assert min(map(cost, allowed)) == -names["best"].score == 217
    assert cost(space.named["light first"].names) == 420
    found = {}
    for strategy in ("gp-ucb", "random"):
        config = SearcherConfig(strategy=strategy, max_visits=1, max_workflows=40)
        found[strategy] = sum(_best(space, config, seed, cost) == 217 for seed in range(10))
    assert found == {"gp-ucb": 10, "random": 2}


def _best(space: object, config: SearcherConfig, seed: int, cost: object) -> float:
    searcher = Searcher(space, config, seed=seed)
    while proposals := searcher.ask():
        for proposal in proposals:
            order = proposal.workflow
            searcher.tell(OrderResult(order, -cost(order.names)))
    return -searcher.recommend().score
