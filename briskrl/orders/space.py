"""The orders among which to search: all of them, or those that keep constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from briskrl.core.errors import ConfigError, nearest
from briskrl.core.types import Bools, Ints
from briskrl.orders.linear_extensions import LinearExtensions
from briskrl.orders.order_arrays import order_ranks
from briskrl.orders.workflow import (
    SEPARATOR,
    Workflow,
    check_categories,
    parse_names,
    parse_workflow,
)

MOST_ENUMERATED = 5040
"""Largest space (all orders of 7 categories) whose orders are all candidates in every round."""


class WorkflowSpace:
    """All orders of the categories that keep the constraints, in lexicographic order.

    Args:
        categories: Names of 2 to 12 categories; their order is the canonical one.
        require: Constraints such as `server>user`: the first comes before the second. A longer
            chain constrains all its members.
        named: Well-known orders by name, as text or as indices. Those that break a constraint are
            left out.

    Raises:
        ConfigError: A name cannot be used, an order is invalid, or the constraints contradict each
            other.
    """

    def __init__(
        self,
        categories: Sequence[str],
        *,
        require: Iterable[str] = (),
        named: Mapping[str, str | Sequence[int]] | None = None,
    ) -> None:
        self.categories = tuple(categories)
        check_categories(self.categories)
        self.require = tuple(require)
        self.precedences = tuple(
            pair for text in self.require for pair in _parse_constraint(text, self.categories)
        )
        self._extensions = LinearExtensions(self.m, self.precedences)
        if not self._extensions.size:
            raise ConfigError(
                f"No order keeps all constraints, because they contradict each other: "
                f"{', '.join(map(repr, self.require))}."
            )
        found = {name: self._named(name, order) for name, order in (named or {}).items()}
        self.named = {name: flow for name, flow in found.items() if flow in self}

    @property
    def m(self) -> int:
        """Number of categories."""
        return len(self.categories)

    @property
    def size(self) -> int:
        """Number of orders."""
        return self._extensions.size

    @property
    def is_enumerable(self) -> bool:
        """Whether the space is small enough to compare all its orders."""
        return self.size <= MOST_ENUMERATED

    @cached_property
    def orders(self) -> Ints:
        """All orders (size, m); for enumerable spaces only. Do not write into it."""
        if not self.is_enumerable:
            raise ValueError(f"a space of {self.size} orders is not enumerated")
        return self._extensions.orders_at(np.arange(self.size))

    def orders_at(self, positions: Ints) -> Ints:
        """The orders (n, m) at these positions (n,) of the space."""
        return self._extensions.orders_at(positions)

    def sample(self, rng: np.random.Generator, count: int) -> Ints:
        """Orders (count, m), drawn uniformly and independently."""
        return self.orders_at(rng.integers(self.size, size=count))

    def keeps_constraints(self, orders: Ints) -> Bools:
        """Which of the orders (n, m) belong to the space, (n,)."""
        ranks = order_ranks(orders)
        kept = np.ones(len(orders), np.bool_)
        for first, second in self.precedences:
            kept &= ranks[:, first] < ranks[:, second]
        return kept

    def workflow(self, order: Sequence[int]) -> Workflow:
        """The workflow of an order given as indices.

        Raises:
            ConfigError: It is not an order, or not one of this space.
        """
        return self._checked(Workflow(self.categories, tuple(int(index) for index in order)))

    def from_id(self, number: int) -> Workflow:
        """The workflow with this id.

        Raises:
            ConfigError: It does not exist or is not in this space.
        """
        return self._checked(Workflow.from_id(self.categories, number))

    def parse(self, text: str) -> Workflow:
        """The workflow written as text: names joined by `>`, a well-known name, or an id.

        Raises:
            ConfigError: It cannot be read, or is not in this space.
        """
        known = {name.casefold(): flow for name, flow in self.named.items()}
        if SEPARATOR in text:
            return self._checked(parse_workflow(text, self.categories))
        if text.strip().casefold() in known:
            return known[text.strip().casefold()]
        if text.strip().isdecimal():
            return self.from_id(int(text))
        hint = f" {nearest(text, self.named)}" if self.named else ""
        example = SEPARATOR.join(self.categories)
        raise ConfigError(f"{text!r} is not a workflow such as {example!r}, nor an id.{hint}")

    def __contains__(self, workflow: Workflow) -> bool:
        same = workflow.categories == self.categories
        return same and bool(self.keeps_constraints(np.array([workflow.order]))[0])

    def _checked(self, workflow: Workflow) -> Workflow:
        if workflow not in self:
            broken = ", ".join(map(repr, self.require))
            raise ConfigError(f"The workflow {workflow} does not keep the constraints: {broken}.")
        return workflow

    def _named(self, name: str, order: str | Sequence[int]) -> Workflow:
        if not name.strip() or SEPARATOR in name or name.strip().isdecimal():
            raise ConfigError(f"{name!r} cannot be the name of a workflow.")
        if isinstance(order, str):
            return parse_workflow(order, self.categories)
        return Workflow(self.categories, tuple(order))


def _parse_constraint(text: str, categories: tuple[str, ...]) -> list[tuple[int, int]]:
    """Pairs of indices of which the first comes before the second."""
    chain = parse_names(text, categories)
    if len(chain) < 2:
        raise ConfigError(f"The constraint {text!r} names one category; it must be like 'A>B'.")
    return list(pairwise(chain))
