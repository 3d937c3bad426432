"""Where a program imports modules from that are not installed, for workers that lack them."""

from __future__ import annotations

import sys
from pathlib import Path


def own_paths() -> tuple[str, ...]:
    """Folders of this program's own modules."""
    installed = (sys.prefix, sys.base_prefix)
    paths = (str(Path(path).absolute()) for path in sys.path)
    return tuple(path for path in paths if not path.startswith(installed))
