"""Replace functions for a while, and put the original back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


class Patches:
    """Attributes that were replaced, restored in reverse order."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def wrap(self, owner: Any, name: str, wrapper: Wrapper) -> None:
        """Replace a function by one made from it; does nothing if there is none."""
        original = vars(owner).get(name)
        if callable(original):
            self.put(owner, name, wrapper(original))

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute."""
        self._before.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def restore(self) -> None:
        """Put all originals back."""
        while self._before:
            owner, name, value = self._before.pop()
            setattr(owner, name, value)
