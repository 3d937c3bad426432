"""The user's own code: import the modules and files that register environments, show its errors."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType

import gymnasium

from briskrl.core.errors import ConfigError

_LIBRARIES = tuple(
    str(Path(file).parent) for file in (gymnasium.__file__, __file__.partition("/envs/")[0] + "/x")
)
"""Folders of code that is neither the user's nor an environment's."""


def import_user_module(name: str) -> ModuleType:
    """Import a module that registers environments.

    Raises:
        ConfigError: It cannot be imported; the message says what to do, or where its code failed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _import_error(repr(name), error) from error
        raise ConfigError(f"Cannot import {name!r}: {_where_it_may_be(name)}") from error
    except Exception as error:
        raise _import_error(repr(name), error) from error


def import_env_file(file: str) -> ModuleType:
    """Import a Python file, or a package folder, as a module of its name.

    Files beside it can be imported too, unless an installed package has the same name.

    Raises:
        ConfigError: There is no such file, its name is that of another module, or its code failed.
    """
    path = Path(file).expanduser().absolute()
    source = path / "__init__.py" if path.is_dir() else path
    if not source.is_file():
        raise ConfigError(f"There is no Python file {path} (--env-file).")
    name = path.stem
    if not name.isidentifier():
        raise ConfigError(f"{path} cannot be imported: {name!r} is no name of a Python module.")
    loaded = sys.modules.get(name)
    if loaded is not None:
        if getattr(loaded, "__file__", None) != str(source):
            raise ConfigError(
                f"{path} cannot be imported: another module is called {name!r} too. Rename it."
            )
        return loaded
    return _execute(name, source, path.parent)


def describe_error(error: BaseException) -> str:
    """Type and message in one line, then the traceback if the error comes from the user's code."""
    line = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return "\n\n".join(filter(None, [line, user_traceback(error)]))


def user_traceback(error: BaseException) -> str:
    """The traceback from the first line of the user's code on; empty if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((k for k, frame in enumerate(frames) if _is_user_code(frame.filename)), None)
    if first is None:
        return ""
    lines = traceback.format_list(frames[first:]) + traceback.format_exception_only(error)
    return "Traceback (most recent call last):\n" + "".join(lines).rstrip()


def _execute(name: str, source: Path, folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        name,
        source,
        submodule_search_locations=[str(source.parent)] if source.stem != name else None,
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Entry points such as "myenvs:MyEnv" find it there.
    sys.modules[name] = module
    if str(folder) not in sys.path:
        # Last, so that it replaces nothing that is installed.
        sys.path.append(str(folder))
        invalidate_caches()
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _import_error(str(source), error) from error
    return module


def _import_error(what: str, error: Exception) -> ConfigError:
    return ConfigError(f"Cannot import {what}: {describe_error(error)}")


def _where_it_may_be(name: str) -> str:
    top = name.partition(".")[0]
    missing = f"there is no installed package {top!r}"
    for candidate in (Path.cwd() / f"{top}.py", Path.cwd() / top / "__init__.py"):
        if candidate.is_file():
            return (
                f"{missing}. The current folder has {top}, but modules are imported from there "
                f"only if a flag names them: add --import {top} or --env-file {candidate}."
            )
    return (
        f"{missing}, and nothing of this name in the current folder. Install it with pip, or name "
        f"the file that has the environment: --env-file PATH/{top}.py."
    )


def _is_user_code(file: str) -> bool:
    return not file.startswith((*_LIBRARIES, "<frozen"))
