"""The main loop of a player process; see `wire` for its messages.

It computes states only as far ahead as the page has asked for, so a paused or hidden page costs
nothing.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briskrl.core.errors import BriskError, ConfigError, RunFolderError
from briskrl.web.play.player.wire import RequestError, Wire

if TYPE_CHECKING:
    from briskrl.core.types import JSON
    from briskrl.web.play.player.game import Game
    from briskrl.web.play.player.policy_source import LoadedPolicy, PolicySource

NICENESS = 10
"""Training that runs on the same machine comes first."""
BATCH_STATES, BATCH_S = 64, 0.1
"""A batch of states is sent when it has so many, or has taken so long."""


def main(descriptor: int) -> None:
    """Serve requests until the server closes the connection."""
    os.nice(NICENESS)
    player = Player(Wire(socket.socket(fileno=descriptor)))
    with suppress(EOFError, ConnectionError):
        player.serve()


class Player:
    """Answers requests, and plays on in between.

    Args:
        wire: The connection to the server.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._source: PolicySource | None = None
        self._policy: LoadedPolicy | None = None
        self._game: Game | None = None
        self._epoch = 0
        self._wanted = 0
        self._verbs: dict[str, Callable[[dict[str, Any]], JSON]] = {
            "open": self._open,
            "begin": self._begin,
            "want": self._want,
            "act": self._act,
        }

    def serve(self) -> None:
        """Serve until the connection closes."""
        while True:
            request = self._wire.receive(wait=not self._has_work())
            if request is None:
                self._play_on()
            else:
                self._answer(request)

    def _has_work(self) -> bool:
        game = self._game
        return game is not None and not game.ended and game.index < self._wanted

    def _answer(self, request: dict[str, Any]) -> None:
        try:
            content = self._verb(request["do"])(request)
            reply = {"ok": content}
        except Exception as error:
            reply = {"error": request_error(error).as_json()}
        self._wire.reply(int(request["id"]), reply)

    def _verb(self, name: str) -> Callable[[dict[str, Any]], JSON]:
        if name in self._verbs:
            return self._verbs[name]
        command = None if self._game is None else self._game.view.commands.get(name)
        if command is None:
            raise RequestError("unsupported", f"This game has no request {name!r}.")
        return command

    def _open(self, request: dict[str, Any]) -> JSON:
        """Load a policy and make its environment; the first game begins."""
        from briskrl.web.play.player.policy_source import PolicySource

        self._wire.event("opening", {"text": "Loading the policy"})
        self._source = PolicySource(Path(request["folder"]), trust=bool(request["trust"]))
        self._seat(self._source.load(str(request["policy"])))
        return self._begin(request)

    def _seat(self, policy: LoadedPolicy) -> None:
        """Let a policy play, in a new environment if its settings differ."""
        from briskrl.web.play.player.table import make_game

        agent = policy.trained.agent
        before = self._policy and self._policy.trained.agent
        same = before and (before.env, before.env_config) == (agent.env, agent.env_config)
        if self._game is not None and same:
            self._game.brain.replace(agent.policy)
        else:
            self._wire.event("opening", {"text": f"Preparing {agent.env}"})
            made = make_game(agent)
            if self._game is not None:
                self._game.close()
            self._game = made
        self._policy = policy

    def _begin(self, request: dict[str, Any]) -> JSON:
        """Begin a game, with a newer policy if there is one or another if one is named."""
        source, policy = self._source, self._policy
        if source is None or policy is None or self._game is None:
            raise RequestError("not-open", "No policy is loaded.")
        name = str(request.get("policy", policy.name))
        found = source.load(name) if name != policy.name else source.newer(policy)
        if found is not policy:
            self._seat(found)
        game = self._game
        facts, state = game.begin(int(request["seed"]), int(request["episode"]))
        self._epoch += 1
        self._wanted = 0
        self._wire.event("game", {**self._about(request), "facts": facts})
        self._send_states(0, [state])
        return {"epoch": self._epoch}

    def _about(self, request: dict[str, Any]) -> dict[str, JSON]:
        assert self._policy is not None
        assert self._game is not None
        view = self._game.view
        return {
            "epoch": self._epoch,
            "kind": view.kind,
            "env": self._policy.trained.agent.env,
            "policy": self._policy.as_json(),
            "seed": int(request["seed"]),
            "episode": int(request["episode"]),
            "ahead": view.ahead,
            "scene": view.scene(),
        }

    def _want(self, request: dict[str, Any]) -> JSON:
        """Compute states up to this number."""
        if self._game is not None and int(request["epoch"]) == self._epoch:
            most = int(request["shown"]) + self._game.view.ahead
            self._wanted = min(int(request["upto"]), most)
        return {}

    def _act(self, request: dict[str, Any]) -> JSON:
        """Go back to a state that the page shows, and on with the user's action."""
        game = self._game
        if game is None:
            raise RequestError("not-open", "No policy is loaded.")
        index, action = int(request["index"]), int(request["action"])
        if int(request["epoch"]) != self._epoch:
            raise RequestError("stale", "Another game has begun.")
        game.check_action(action)
        game.rewind(index)
        self._epoch += 1
        self._wanted = index + 1
        state = game.advance(action)
        self._wire.event("branch", {"epoch": self._epoch, "from": index + 1})
        self._send_states(index + 1, [state])
        return {"epoch": self._epoch}

    def _play_on(self) -> None:
        game = self._game
        assert game is not None
        first = game.index + 1
        states: list[dict[str, JSON]] = []
        deadline = time.monotonic() + BATCH_S
        try:
            while self._has_work() and len(states) < BATCH_STATES and time.monotonic() < deadline:
                states.append(game.advance())
        except Exception as error:
            game.ended = True
            self._wire.event("failed", request_error(error).as_json())
        if states:
            self._send_states(first, states)

    def _send_states(self, first: int, states: list[dict[str, JSON]]) -> None:
        self._wire.event("states", {"epoch": self._epoch, "from": first, "states": states})


def request_error(error: Exception) -> RequestError:
    """What the page is told about an error."""
    from briskrl.training.storage.stored_policies import NoPolicyYetError
    from briskrl.training.trust import UntrustedError

    match error:
        case RequestError():
            return error
        case NoPolicyYetError():
            code = "no-policy"
        case UntrustedError():
            code = "untrusted"
        case RunFolderError():
            code = "run"
        case ConfigError():
            code = "environment"
        case BriskError():
            code = "game"
        case _:
            return RequestError("broken", f"{type(error).__name__}: {error}")
    return RequestError(code, str(error))
