"""Finds out in a moment why a Ray cluster cannot be used; Ray itself needs 20 seconds to give up.

A cluster answers two kinds of clients: programs on its own machines (HOST:PORT) and programs
elsewhere (ray://HOST:PORT). Both speak gRPC and answer one harmless question.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import partial
from typing import Any

from briskrl.cluster.ray.tokens import MODE, TOKEN, TOKEN_PATH, Token
from briskrl.core.errors import BriskError, ConfigError

CLIENT_PREFIX = "ray://"
_CONNECT_S = 5.0
_ANSWER_S = 10.0
# As Ray itself does.
_NO_PROXY = (("grpc.enable_http_proxy", 0),)
_HOW_TO_GIVE = f"Set {TOKEN}, or {TOKEN_PATH} to a file with it"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a cluster listens."""

    host: str
    port: int
    client: bool
    """Whether it is that of the server for programs on other machines (ray://)."""

    @property
    def target(self) -> str:
        """HOST:PORT."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether it can only be on this machine."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def __str__(self) -> str:
        return CLIENT_PREFIX * self.client + self.target


def parse_address(text: str) -> Address:
    """The parts of HOST:PORT or ray://HOST:PORT.

    Raises:
        ConfigError: It is neither of them.
    """
    client = text.startswith(CLIENT_PREFIX)
    host, _, port = text.removeprefix(CLIENT_PREFIX).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or "/" in host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(
            f"{text!r} is not the address of a Ray cluster. Use auto, HOST:PORT or ray://HOST:PORT."
        )
    return Address(host, int(port), client)


def check_port(address: Address) -> None:
    """Check that something listens at the address.

    Raises:
        BriskError: Nothing does, or it cannot be reached.
    """
    try:
        socket.create_connection((address.host, address.port), timeout=_CONNECT_S).close()
    except OSError as error:
        cause = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise BriskError(
            f"The Ray cluster at {address} cannot be reached: {cause}. Check the address, that the "
            "cluster is running, and that no firewall is between it and this machine."
        ) from error


def check_access(address: Address, token: Token | None, *, token_required: bool) -> None:
    """Check that a Ray of the same version answers, and that it accepts the token.

    Args:
        address: Where it listens.
        token: The token to use; None if there is none.
        token_required: Whether to refuse a cluster that anybody can use.

    Raises:
        BriskError: It does not.
    """
    open_to_all = _ask(address, None)
    if open_to_all and token_required:
        raise BriskError(
            f"The Ray cluster at {address} asks for no token: whoever reaches its ports can run "
            f"programs on it. Start it with {MODE}=token, or set {MODE}=disabled to use it as it "
            "is."
        )
    if open_to_all:
        return
    if token is None:
        raise BriskError(
            f"The Ray cluster at {address} asks for a token, and there is none. {_HOW_TO_GIVE}."
        )
    if not _ask(address, token):
        raise BriskError(
            f"The Ray cluster at {address} does not accept the token in {token.source}. "
            f"{_HOW_TO_GIVE}; `ray get-auth-token` on a machine of the cluster prints it."
        )


def _ask(address: Address, token: Token | None) -> bool:
    """Whether the cluster answers with this token.

    Raises:
        BriskError: What listens there is no Ray cluster of this version.
    """
    import grpc
    import ray

    metadata = [] if token is None else [("authorization", f"Bearer {token.value}")]
    try:
        with grpc.insecure_channel(address.target, _NO_PROXY) as channel:
            answer = _question(channel, address)(timeout=_ANSWER_S, metadata=metadata)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            return False
        hint = "Programs on other machines use ray://HOST:10001."
        if address.client:
            hint = (
                "ray:// needs the cluster's port for clients, 10001 by default; on a machine of "
                "the cluster leave out ray://."
            )
        cause = ": ".join(filter(None, (error.code().name, error.details())))
        raise BriskError(
            f"What listens at {address} does not answer as a Ray cluster ({cause}). {hint}"
        ) from error
    version = getattr(answer, "ray_version", "")
    if version and version != ray.__version__:
        raise BriskError(
            f"The cluster at {address} has Ray {version}, and this machine has {ray.__version__}. "
            f"They must be the same: pip install 'ray=={version}'"
        )
    return True


def _question(channel: Any, address: Address) -> Any:
    """A function that asks the one question."""
    if address.client:
        from ray.core.generated import ray_client_pb2 as client

        ask = channel.unary_unary(
            "/ray.rpc.RayletDriver/ClusterInfo",
            request_serializer=client.ClusterInfoRequest.SerializeToString,
            response_deserializer=client.ClusterInfoResponse.FromString,
        )
        return partial(ask, client.ClusterInfoRequest(type=client.ClusterInfoType.PING))
    from ray.core.generated import gcs_service_pb2 as control

    ask = channel.unary_unary(
        "/ray.rpc.NodeInfoGcsService/CheckAlive",
        request_serializer=control.CheckAliveRequest.SerializeToString,
        response_deserializer=control.CheckAliveReply.FromString,
    )
    return partial(ask, control.CheckAliveRequest())
