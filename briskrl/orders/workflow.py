"""One workflow: a strict order of all categories, as indices, as an id and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial

from briskrl.core.errors import ConfigError, nearest

SEPARATOR = ">"
FEWEST = 2
MOST = 12
"""Bounds of the number of categories; with 12 there are 479,001,600 orders."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A strict order of all categories, the most urgent first.

    Raises:
        ConfigError: The categories cannot be used, or the order does not hold each of them once.
    """

    categories: tuple[str, ...]
    """Names of the categories in their canonical order."""
    order: tuple[int, ...]
    """Indices of the categories, the most urgent first."""

    def __post_init__(self) -> None:
        check_categories(self.categories)
        if sorted(self.order) != list(range(len(self.categories))):
            raise ConfigError(
                f"The order {list(self.order)} does not hold each index from 0 to "
                f"{len(self.categories) - 1} once."
            )

    @classmethod
    def from_id(cls, categories: Sequence[str], number: int) -> Workflow:
        """The workflow with this id.

        Raises:
            ConfigError: There is no workflow with this id.
        """
        categories = tuple(categories)
        check_categories(categories)
        if not 0 <= number < factorial(len(categories)):
            last = factorial(len(categories)) - 1
            raise ConfigError(f"There is no workflow {number}; ids are from 0 to {last}.")
        remaining = list(range(len(categories)))
        order = []
        while remaining:
            index, number = divmod(number, factorial(len(remaining) - 1))
            order.append(remaining.pop(index))
        return cls(categories, tuple(order))

    @property
    def id(self) -> int:
        """Lexicographic rank among all orders; 0 for the canonical order."""
        found = 0
        for place, category in enumerate(self.order):
            later = self.order[place + 1 :]
            found += sum(other < category for other in later) * factorial(len(later))
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the categories, the most urgent first."""
        return tuple(self.categories[index] for index in self.order)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Place of each category in the order; 0 is the most urgent."""
        return tuple(self.order.index(category) for category in range(len(self.order)))

    def __str__(self) -> str:
        return SEPARATOR.join(self.names)


def parse_workflow(text: str, categories: Sequence[str]) -> Workflow:
    """The workflow written as category names joined by `>`.

    Blanks around names and upper or lower case do not matter.

    Raises:
        ConfigError: A category is unknown, repeated or missing.
    """
    categories = tuple(categories)
    check_categories(categories)
    order = parse_names(text, categories)
    missing = [name for index, name in enumerate(categories) if index not in order]
    if missing:
        raise ConfigError(f"The workflow {text!r} lacks {_listed(missing)}.")
    return Workflow(categories, order)


def parse_names(text: str, categories: tuple[str, ...]) -> tuple[int, ...]:
    """Indices of different categories written as names joined by `>`.

    Raises:
        ConfigError: A category is unknown or repeated.
    """
    indices = {name.casefold(): index for index, name in enumerate(categories)}
    names = [part.strip() for part in text.split(SEPARATOR)]
    unknown = [name for name in names if name.casefold() not in indices]
    if unknown:
        hint = nearest(unknown[0].casefold(), categories)
        raise ConfigError(f"{text!r} names the unknown {_listed(unknown)}. {hint}")
    order = tuple(indices[name.casefold()] for name in names)
    repeated = [categories[index] for index, count in Counter(order).items() if count > 1]
    if repeated:
        raise ConfigError(f"{text!r} repeats {_listed(repeated)}.")
    return order


def check_categories(categories: tuple[str, ...]) -> None:
    """Check that there is something to order and that orders can be written as text.

    Raises:
        ConfigError: There are too few or too many, or a name cannot be used.
    """
    if not FEWEST <= len(categories) <= MOST:
        raise ConfigError(
            f"There are {len(categories)} categories; an order needs {FEWEST} to {MOST} of them."
        )
    for name in categories:
        if not name or name != name.strip() or SEPARATOR in name or not name.isprintable():
            raise ConfigError(
                f"The category {name!r} cannot be used: a name is not empty, has no blanks at its "
                f"ends, no control characters and no {SEPARATOR!r}."
            )
    counted = Counter(name.casefold() for name in categories)
    repeated = [name for name in categories if counted[name.casefold()] > 1]
    if repeated:
        raise ConfigError(f"Categories must differ in more than case: {_listed(repeated)}.")


def _listed(names: Sequence[str]) -> str:
    noun = "category" if len(names) == 1 else "categories"
    return f"{noun} {', '.join(map(repr, names))}"
