"""Find what to count in modules as the script imports them, and in classes as it defines them.

There is no import hook: at every tick it is checked whether there are more modules or more names in
`__main__` than before, which costs less than a microsecond.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from types import ModuleType
from typing import Any

from .counts import Counts
from .env_steps import STEPS, EnvSteps
from .forward_passes import ForwardPasses
from .stacks import Stacks

ENV_BASES = (
    ("gymnasium.core", "Env"),
    ("gymnasium.vector.vector_env", "VectorEnv"),
    ("gym.core", "Env"),
    ("gym.vector.vector_env", "VectorEnv"),
)
ENVPOOL = ("envpool.python.envpool", "EnvPoolMixin")
FRAMEWORKS = ("torch", "jax", "tensorflow", "keras", "gymnasium", "gym", "stable_baselines3")


class Discovery:
    """Looks for new classes and libraries."""

    def __init__(
        self, counts: Counts, stacks: Stacks, env_steps: EnvSteps, forward: ForwardPasses
    ) -> None:
        self._counts = counts
        self._stacks = stacks
        self._env_steps = env_steps
        self._forward = forward
        self._modules = 0
        self._names = 0
        self._handles: list[Any] = []
        self._seen: dict[str, bool] = {}
        self.versions: dict[str, str] = {}
        """Versions of frameworks that the script has imported."""

    def look(self) -> None:
        """Check for new modules and new names."""
        if len(sys.modules) != self._modules:
            self._look_at_modules()
        main = sys.modules.get("__main__")
        if main is not None and len(vars(main)) != self._names:
            self._names = len(vars(main))
            self._look_at_classes(main)

    def restore(self) -> None:
        """Remove the hooks of libraries."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _look_at_modules(self) -> None:
        count, waiting = len(sys.modules), False
        for name, module in list(sys.modules.items()):
            if name in self._seen or name == "__main__" or not isinstance(module, ModuleType):
                continue
            spec = getattr(module, "__spec__", None)
            if getattr(spec, "_initializing", False):
                waiting = True
                continue
            self._seen[name] = True
            self._look_at(name, module)
        # Modules that are being imported are looked at again.
        self._modules = 0 if waiting else count

    def _look_at(self, name: str, module: ModuleType) -> None:
        for base_of, base in ENV_BASES:
            if name == base_of:
                self._env_steps.watch_base(getattr(module, base))
        if name == ENVPOOL[0]:
            self._env_steps.watch_class(getattr(module, ENVPOOL[1]), *STEPS)
        if name == "torch.optim.optimizer":
            self._count_updates(module)
        if name == "torch.nn.modules.module":
            self._forward.prepare(module)
        if name == "torch":
            self._stacks.grad_enabled = module.is_grad_enabled
        if name in FRAMEWORKS:
            self.versions[name] = str(getattr(module, "__version__", "?"))
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and self._stacks.is_loop_file(file):
            self._look_at_classes(module)

    def _look_at_classes(self, module: ModuleType) -> None:
        for cls in list(vars(module).values()):
            if isinstance(cls, type) and cls.__module__ == module.__name__:
                self._env_steps.watch_class(cls)

    def _count_updates(self, optimizer: Any) -> None:
        counts = self._counts

        def count(*arguments: Any) -> None:
            counts.updates += 1
            number = id(arguments[0])
            counts.optimizers[number] = counts.optimizers.get(number, 0) + 1
            counts.update_thread = get_ident()

        register = getattr(optimizer, "register_optimizer_step_post_hook", None)
        if register is not None:  # torch 2.0 or newer.
            self._handles.append(register(count))
            return
        _patch_step(optimizer.Optimizer, counts)


def _patch_step(base: Any, counts: Counts) -> None:
    """Count steps of the optimizers of an old torch, class by class."""
    waiting: list[tuple[Any, Any]] = [
        (cls, vars(cls)["step"]) for cls in type.__subclasses__(base) if "step" in vars(cls)
    ]

    def counted(original: Any) -> Any:
        def step(*args: Any, **options: Any) -> Any:
            counts.updates += 1
            counts.update_thread = get_ident()
            return original(*args, **options)

        return step

    for cls, original in waiting:
        cls.step = counted(original)
