"""`brisk dash`: the dashboard of all runs, in the browser."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from pathlib import Path

from briskrl.cli.flags import TRUST, Parser
from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.core.exit_watch import StoppedError
from briskrl.web.security import LOOPBACK
from briskrl.web.server import Address, bind, serve

EXAMPLES = """\
examples:
  brisk dash                                runs/ and sweeps/ of this folder
  brisk dash elsewhere/runs --port 8000
  brisk dash runs/NAME                      one run
  brisk dash --host 0.0.0.0                 for other machines, with a token
  ssh -L 7450:127.0.0.1:7450 MACHINE        from elsewhere, without opening a port

The page shows runs and sweeps live, their curves, where their time goes, what the doctor found,
their files, and the agent at play. It only reads; runs of other machines and of older versions
work, too. On 127.0.0.1, the default, everybody with an account on this machine can open it, unless
--token sets a password. On any other address a token is required; without --token one is made up
and printed as part of the address. Ctrl-C ends the server, and never a run."""
DEFAULT_ROOTS = (Path("runs"), Path("sweeps"))
LONGEST_TOKEN = 200
NICENESS = 5


def run(argv: list[str]) -> int:
    """Serve the page until Ctrl-C."""
    args = _parser().parse(argv)
    roots = _roots(args.RUNS_DIR, must_exist=not args.beside_run)
    _check_token(args.token)
    address = bind(args.host, args.port, args.token)

    def ready() -> None:
        # Training comes first.
        os.nice(NICENESS)
        print(address.url if args.beside_run else _greeting(address, roots), flush=True)
        if not args.no_browser:
            open_browser(address.url)

    until = None
    if args.beside_run:
        until = sys.stdin.read
    try:
        serve(roots, address, ready=ready, trust=args.trust, until=until)
    except KeyboardInterrupt as stopped:
        # Ctrl-C is how a server is ended; SIGTERM and SIGHUP keep their exit codes.
        if isinstance(stopped, StoppedError) and stopped.exit_code != 130:
            raise
    return 0


def _parser() -> Parser:
    parser = Parser("brisk dash", "Watch runs in the browser.", EXAMPLES)
    parser.usage = (
        "brisk dash [RUNS_DIR] [--port PORT] [--host HOST] [--token TOKEN] [--no-browser] [--trust]"
    )
    parser.add_argument(
        "RUNS_DIR", nargs="?", help="folder of runs and sweeps, or one of them [runs and sweeps]"
    )
    parser.add_argument(
        "--port", type=_port, metavar="INT", help="port [7450, or the next that is free]; 0 for any"
    )
    parser.add_argument(
        "--host", default=LOOPBACK[0], help="address to listen on [127.0.0.1: only this machine]"
    )
    parser.add_argument("--token", help="password; made up if --host is another address")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    # For `brisk train --watch`: end with standard input, and let the run come first.
    parser.add_argument("--beside-run", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--trust", action="store_true", help=f"to watch agents play: {TRUST}")
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise ConfigError(f"--port {text!r} must be a number from 0 to 65535.")
    return int(text)


def _roots(given: str | None, *, must_exist: bool) -> list[Path]:
    if given is None:
        return list(DEFAULT_ROOTS)
    root = Path(given)
    if must_exist and not root.is_dir():
        raise RunFolderError(f"There is no folder {root}.")
    return [root]


def _check_token(token: str | None) -> None:
    if token is None:
        return
    if not 8 <= len(token) <= LONGEST_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigError("--token must have 8 to 200 printable ASCII characters.")


def _greeting(address: Address, roots: list[Path]) -> str:
    watched = " and ".join(f"{root}/" for root in roots)
    return f"Dashboard of {watched}: {address.url}  (Ctrl-C ends it)"


def open_browser(url: str) -> None:
    """Open the page if this machine has a screen, without waiting for the browser."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    # Without a screen, a browser for terminals could take over this one.
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in screens):
        return
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
