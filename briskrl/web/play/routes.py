"""Routes of the play view, all under /api/play/.

`policies` lists what a run has saved, `start` begins a session, `SESSION/events` streams its games,
`SESSION/leave` ends it, and `SESSION/REQUEST` asks the player for something; see `requests`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from briskrl.core.errors import RunFolderError
from briskrl.web.context import WebContext
from briskrl.web.numpy_import import import_numpy
from briskrl.web.play.requests import REQUESTS, BadRequestError, read_numbers, read_policy
from briskrl.web.play.session import PlayerError, Session
from briskrl.web.responses import EVENT_STREAM, json_response

if TYPE_CHECKING:
    from briskrl.core.types import JSON

MOST_SESSIONS = 4
"""Players at once; each takes about 360 MB."""
NEWEST = "newest"
"""Name of the policy that plays unless another one is chosen; see `stored_policies`."""
_CONFLICTS = ("no-policy", "untrusted", "run", "environment", "ended")
_FAULTS = ("broken", "died", "silent", "game")

Endpoint = Callable[[Request], Awaitable[Response]]


def routes(context: WebContext) -> list[Route]:
    """Everything under /api/play/."""
    sessions = Sessions(context)
    context.on_close(sessions.close)
    return [
        Route("/api/play/policies", _guarded(sessions.policies)),
        Route("/api/play/start", _guarded(sessions.start)),
        Route("/api/play/{session}/events", _guarded(sessions.events)),
        Route("/api/play/{session}/leave", _guarded(sessions.leave)),
        Route("/api/play/{session}/{request}", _guarded(sessions.ask)),
    ]


class Sessions:
    """The running sessions.

    Args:
        context: The known runs.
    """

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._running: dict[str, Session] = {}

    async def policies(self, request: Request) -> Response:
        """The policies of a run, the newest first."""
        return json_response({"policies": await to_thread.run_sync(_saved, self._folder(request))})

    async def start(self, request: Request) -> Response:
        """Start a player; its failures come as events."""
        folder, policy = self._folder(request), read_policy(request.query_params, NEWEST)
        game = read_numbers(request.query_params, REQUESTS["begin"])
        if not await to_thread.run_sync(_saved, folder):
            raise PlayerError("no-policy", "This run has not saved a policy yet.")
        self._make_room()
        session = Session(self._forget)
        self._running[session.id] = session
        await session.open(folder, trust=self._context.trust, policy=policy, **game)
        return json_response({"session": session.id})

    async def events(self, request: Request) -> Response:
        """The stream of a session."""
        return StreamingResponse(self._session(request).stream(), media_type=EVENT_STREAM)

    async def leave(self, request: Request) -> Response:
        """End a session."""
        self._session(request).end("left", "The page has left.")
        return json_response({})

    async def ask(self, request: Request) -> Response:
        """Pass a request to the player."""
        session, name = self._session(request), request.path_params["request"]
        if name not in REQUESTS:
            return _error(404, "no-request", "There is no such request.")
        values: dict[str, int | str] = {**read_numbers(request.query_params, REQUESTS[name])}
        if name == "begin" and "policy" in request.query_params:
            values["policy"] = read_policy(request.query_params, NEWEST)
        return json_response(await session.ask(name, values))

    def close(self) -> None:
        """End all players."""
        for session in list(self._running.values()):
            session.kill()
        self._running.clear()

    def _forget(self, ended: Session) -> None:
        self._running.pop(ended.id, None)

    def _folder(self, request: Request) -> Path:
        folder = self._context.index.folder(request.query_params.get("run", ""))
        if folder is None:
            raise _UnknownError("There is no such run.")
        return folder

    def _session(self, request: Request) -> Session:
        session = self._running.get(request.path_params["session"])
        if session is None:
            raise _UnknownError("This game has ended.")
        return session

    def _make_room(self) -> None:
        """End a session that nobody watches if there are too many.

        Raises:
            PlayerError: All are watched.
        """
        if len(self._running) < MOST_SESSIONS:
            return
        for session in self._running.values():
            if not session.watched:
                session.end("left", "Nobody watched.")
                return
        raise PlayerError(
            "busy", f"{MOST_SESSIONS} games are being played already. Close one of their pages."
        )


def _saved(folder: Path) -> list[JSON]:
    """The policies of a run as the page lists them."""
    import_numpy()
    from briskrl.training.storage.stored_policies import list_policies

    return [{"name": policy.name, "step": policy.step} for policy in list_policies(folder)]


class _UnknownError(Exception):
    """An id that stands for nothing."""


def _guarded(endpoint: Endpoint) -> Endpoint:
    """An endpoint that answers HEAD without doing anything, and turns errors into responses."""

    async def guarded(request: Request) -> Response:
        if request.method == "HEAD":
            return Response()
        try:
            return await endpoint(request)
        except BadRequestError as error:
            return _error(400, "bad-request", str(error))
        except _UnknownError as error:
            return _error(404, "unknown", str(error))
        except PlayerError as error:
            return _error(_status(error.code), error.code, error.text)
        except RunFolderError as error:
            return _error(409, "run", str(error))

    return guarded


def _status(code: str) -> int:
    if code == "busy":
        return 503
    return 409 if code in _CONFLICTS else 500 if code in _FAULTS else 400


def _error(status: int, code: str, text: str) -> Response:
    return json_response({"error": text, "code": code}, status)
