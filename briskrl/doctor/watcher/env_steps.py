"""Count environment steps: whatever class has a `step` that returns an observation and a reward.

Wrappers call the step of what they wrap, and vector environments that of their members; only the
outermost call counts. A class whose step turns out to return something else is left alone again, as
is one that is only ever called from within another.
"""

from __future__ import annotations

import functools
import operator
from _thread import get_ident
from contextlib import suppress
from time import perf_counter
from types import MethodType
from typing import TYPE_CHECKING, Any

from .counts import Counts

if TYPE_CHECKING:
    from collections.abc import Callable

INNER, CALLS = 500, 200
"""Inner calls after which a class is left alone, and calls to measure the cost of a hook."""
NOT_ENVS = ("zero_grad", "get_last_lr", "update_parameters")
"""Attributes of optimizers, modules, and schedules, which have a `step`, too."""
STEPS = ("step", "recv")


class Hook:
    """A method that stands for another, and is pickled as the other.

    Classes of a script are pickled with their methods for worker processes, which have no watcher.
    """

    def __init__(self, original: Callable[..., Any], replacement: Callable[..., Any]) -> None:
        self._original = original
        self._replacement = replacement
        functools.update_wrapper(self, original)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self._replacement if instance is None else MethodType(self._replacement, instance)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the replacement, for code that takes methods out of the class's dictionary."""
        return self._replacement(*args, **options)

    def __reduce__(self) -> Any:
        return operator.itemgetter(0), ((self._original,),)


class EnvSteps:
    """Hooks of all classes that may be environments.

    Args:
        counts: Where steps and episodes are counted.
    """

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._hooked: set[Any] = set()
        self._originals: list[tuple[Any, str, Any]] = []
        self._inside: set[int] = set()
        """Threads that are in a step or a reset."""
        self.env_id = ""
        """Name of a registered environment that was stepped."""
        self.before_call: Callable[[], None] | None = None
        """Called before every outermost step while it is set."""

    def watch_base(self, base: Any) -> None:
        """Hook a base class of environments with all its present and future subclasses."""
        if base in self._hooked:
            return
        self._hooked.add(base)
        self._watch_tree(base)
        watch = self.watch_class

        def init_subclass(cls: Any, /, **options: Any) -> None:
            super(base, cls).__init_subclass__(**options)
            watch(cls)

        if "__init_subclass__" not in vars(base):
            # It stays when the hooks are removed, and then finds nothing to count.
            base.__init_subclass__ = classmethod(init_subclass)

    def _watch_tree(self, cls: Any) -> None:
        self.watch_class(cls)
        for subclass in type.__subclasses__(cls):
            self._watch_tree(subclass)

    def watch_class(self, cls: Any, *names: str) -> None:
        """Hook the methods of a class that advance an environment."""
        if any(hasattr(cls, name) for name in NOT_ENVS):
            return
        for name in names or STEPS[:1]:
            method = vars(cls).get(name)
            if callable(method):
                self._hook(cls, name, self._counted(cls, name, method))
        reset = vars(cls).get("reset")
        if callable(reset):
            self._hook(cls, "reset", self._reset(reset))

    def _hook(self, cls: Any, name: str, replacement: Callable[..., Any]) -> None:
        """Replace a method; what a compiled class does not allow is left alone."""
        if (cls, name) in self._hooked:
            return
        original = vars(cls)[name]
        with suppress(TypeError):
            setattr(cls, name, Hook(original, replacement))
            self._hooked.add((cls, name))
            self._originals.append((cls, name, original))

    def cost_s(self) -> float:
        """Seconds that counting adds to a step, measured on an empty one."""

        class Empty:
            def step(self) -> tuple[int, float, bool, bool, None]:
                return 0, 0.0, False, False, None

        hooks, empty = EnvSteps(Counts()), Empty()
        plain = _time(empty.step)
        hooks.watch_class(Empty)
        return max(0.0, _time(empty.step) - plain)

    def _reset(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def reset(*args: Any, **options: Any) -> Any:
            thread = get_ident()
            if thread in self._inside:
                return original(*args, **options)
            self._inside.add(thread)
            try:
                result = original(*args, **options)
            finally:
                self._inside.discard(thread)
            self._counts.resets += 1
            return result

        return reset

    def _counted(self, cls: Any, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        inner, is_env = 0, False

        @functools.wraps(original)
        def step(*args: Any, **options: Any) -> Any:
            nonlocal inner, is_env
            thread = get_ident()
            if thread in self._inside:
                inner += 1
                if inner == 1:
                    self._note_id(args[0])
                if inner == INNER and not is_env:
                    setattr(cls, name, original)
                return original(*args, **options)
            if self.before_call is not None:
                self.before_call()
            self._inside.add(thread)
            try:
                result = original(*args, **options)
            finally:
                self._inside.discard(thread)
            if self._count(result):
                self._counts.step_thread = thread
                if not is_env:
                    self._note_id(args[0])
                is_env = True
            elif not is_env:
                setattr(cls, name, original)
            return result

        return step

    def restore(self) -> None:
        """Put all methods back."""
        for cls, name, method in reversed(self._originals):
            setattr(cls, name, method)
        self._originals.clear()

    def _note_id(self, env: Any) -> None:
        if not self.env_id:
            self.env_id = str(getattr(getattr(env, "spec", None), "id", "") or "")

    def _count(self, result: Any) -> bool:
        """Count what a step returned; false if it is not the result of an environment."""
        if type(result) is not tuple or not 3 <= len(result) <= 6:
            return False
        counts, ended = self._counts, result[2]
        cut = result[3] if len(result) >= 5 else False
        counts.calls += 1
        if counts.updates != counts.learned:
            counts.learned = counts.updates
            counts.rounds += 1
        if ended is False and cut is False:
            counts.steps += 1
            return True
        try:
            return self._count_ends(result[1], ended, cut)
        except Exception:  # Objects of any kind may come from a step.
            return False

    def _count_ends(self, reward: Any, ended: Any, cut: Any) -> bool:
        counts = self._counts
        shape = getattr(ended, "shape", None)
        num_envs = shape[0] if shape else len(ended) if isinstance(ended, (list, tuple)) else 0
        if not num_envs:
            if not isinstance(ended, (bool, int, float)) and shape != ():
                return False
            counts.steps += 1
            counts.episodes += bool(ended) or bool(cut)
            counts.truncated += bool(cut) and not bool(ended)
            return True
        counts.num_envs = num_envs
        counts.steps += num_envs
        ends = sum(ended) if isinstance(ended, (list, tuple)) else ended.sum()
        cuts = 0 if cut is False else sum(cut) if isinstance(cut, (list, tuple)) else cut.sum()
        counts.episodes += int(ends) + int(cuts)
        counts.truncated += int(cuts)
        return True


def _time(call: Callable[[], Any]) -> float:
    """Seconds per call, the best of a few short series."""
    best = 1.0
    for _ in range(5):
        begin = perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (perf_counter() - begin) / CALLS)
    return best
