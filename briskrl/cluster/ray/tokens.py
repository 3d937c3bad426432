"""Tokens of Ray clusters: where the one of this user is, and how Ray gets it."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from briskrl.core.errors import ConfigError

MODE = "RAY_AUTH_MODE"
TOKEN = "RAY_AUTH_TOKEN"
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and where it was found, for messages."""

    value: str
    source: str


def new_token() -> str:
    """A new random token of 256 bits."""
    return secrets.token_hex(32)


def token_variables(value: str) -> dict[str, str]:
    """Environment variables of processes that use the token."""
    return {MODE: "token", TOKEN: value}


def find_token() -> Token | None:
    """The token that Ray would use: of the environment, or of its file in the home folder.

    Raises:
        ConfigError: `RAY_AUTH_TOKEN_PATH` names a file that cannot be used.
    """
    value = os.environ.get(TOKEN, "").strip()
    if value:
        return Token(value, TOKEN)
    path = os.environ.get(TOKEN_PATH)
    if path:
        return read_token(Path(path), f"{TOKEN_PATH} ({path})")
    default = Path.home() / ".ray" / "auth_token"
    return read_token(default, str(default)) if default.exists() else None


def read_token(path: Path, source: str) -> Token:
    """The token in a file.

    Raises:
        ConfigError: There is none.
    """
    try:
        value = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The token of Ray in {source} cannot be read: {error}.") from error
    if not value:
        raise ConfigError(f"The token of Ray in {source} is empty.")
    return Token(value, source)
