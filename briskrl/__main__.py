"""`python -m briskrl` is the `brisk` command."""

from briskrl.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
