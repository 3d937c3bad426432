"""`python -m briskrl` is the `brisk` command."""

from __future__ import annotations

import sys


def _main() -> int:
    if not sys.flags.safe_path:
        # Python has put the current folder first, from which nothing may be imported by accident.
        del sys.path[0]
    from briskrl.cli.main import main

    return main()


if __name__ == "__main__":
    raise SystemExit(_main())
