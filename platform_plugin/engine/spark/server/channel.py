"""Channels to Spark Connect endpoints: how a client sends its token, and how soon it gives up.

A `;token=` in a Connect URL makes PySpark speak TLS to any host but `localhost`, so a token for a plain loopback port is sent as a header
of each call. PySpark also retries an unreachable port for ten minutes; here a dead server is an error at once.
"""

# ruff: noqa: SLF001 - PySpark's client has no public door for deadlines, for the exit hook or for one cheap question

from __future__ import annotations

import atexit
import getpass
import os
from typing import TYPE_CHECKING, Any

from pyspark.sql.connect.client.core import ChannelBuilder, DefaultChannelBuilder, RpcDeadlines, SparkConnectClient
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterable

    import grpc

_KEEPALIVE_SECONDS = 10
"""Connect servers accept a ping every 10 seconds and no sooner; a stopped one is noticed after twice that."""

_DEADLINES = RpcDeadlines(
    analyze_plan=600,
    config=30,
    interrupt=10,
    release_session=10,
    artifact_status=60,
    clone_session=30,
    get_status=10,
    fetch_error_details=10,
)


class LoopbackChannel(ChannelBuilder):
    """A plain channel to a platform server on this machine, with its token as a header of each call."""

    def __init__(self, *, port: int, token: str, host: str = "127.0.0.1") -> None:
        super().__init__(params={ChannelBuilder.PARAM_USER_ID: user_name(), ChannelBuilder.PARAM_USER_AGENT: "platform"})
        self._target = f"{host}:{port}"
        self._bearer = f"Bearer {token}"
        _set_keepalive(self)

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name
        return self._insecure_channel(self._target)

    def metadata(self) -> Iterable[tuple[str, str]]:
        return [*super().metadata(), ("authorization", self._bearer)]

    @property
    def token(self) -> str | None:
        """None, so that a token in the environment, meant for another server, does not turn TLS on."""
        return None

    @property
    def host(self) -> str:
        return self._target.rpartition(":")[0]

    @property
    def target(self) -> str:
        return self._target

    def __repr__(self) -> str:
        return f"LoopbackChannel({self._target!r})"


class EndpointChannel(DefaultChannelBuilder):
    """A channel to an endpoint that is not the platform's, by its `sc://` URL.

    A token goes over TLS, as in PySpark, unless the URL says `use_ssl=false`, for a network that is protected by other means.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        if self.userId is None:
            self.set(ChannelBuilder.PARAM_USER_ID, user_name())
        _set_keepalive(self)

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name
        return self._insecure_channel(self.endpoint) if self._plain else super().toChannel()

    def metadata(self) -> Iterable[tuple[str, str]]:
        bearer = [("authorization", f"Bearer {self.token}")] if self._plain and self.token else []
        return [*super().metadata(), *bearer]

    @property
    def _plain(self) -> bool:
        return str(self.getDefault(ChannelBuilder.PARAM_USE_SSL, "")).lower() == "false"

    @property
    def target(self) -> str:
        return str(self.endpoint)

    def __repr__(self) -> str:
        return f"EndpointChannel({self.endpoint!r})"


class ConnectSession(SparkSession):
    """PySpark's Connect session, changed to fail within seconds and to leave nothing behind in this process."""

    def __init__(self, channel: LoopbackChannel | EndpointChannel, hooks: list[Any]) -> None:
        local = isinstance(channel, LoopbackChannel)
        self._client = SparkConnectClient(
            connection=channel,
            # Reattaching is for networks that drop streams; on this machine a broken stream is a dead server.
            use_reattachable_execute=not local,
            session_hooks=hooks,
            rpc_deadlines=_DEADLINES,
            max_retry_exception_elapsed_time=20.0,
        )
        self._client.set_retry_policies([] if local else [DefaultPolicy(max_retries=4, initial_backoff=100, max_backoff=2000)])
        self._session_id = self._client._session_id
        self.release_session_on_close = True
        # The hook keeps every client that was ever made, and at exit talks to servers that may be gone.
        atexit.unregister(self._client._on_exit)

    def probe(self, seconds: float) -> str:
        """Ask a question that needs no task: a busy server answers it, a wedged one does not. The answer is the server's version."""
        request = self._client._analyze_plan_request_with_metadata()
        request.spark_version.SetInParent()
        answer = self._client._stub.AnalyzePlan(request, metadata=self._client._builder.metadata(), timeout=seconds)
        return str(answer.spark_version.version)

    @property
    def identity(self) -> tuple[str, str]:
        """The user and the id by which the server knows this session."""
        return str(self._client._user_id), str(self._session_id)


def user_name() -> str:
    """Return the name of the process's user, or its number where it has none (containers)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _set_keepalive(channel: ChannelBuilder) -> None:
    channel.setChannelOption("grpc.keepalive_time_ms", _KEEPALIVE_SECONDS * 1000)
    channel.setChannelOption("grpc.keepalive_timeout_ms", _KEEPALIVE_SECONDS * 1000)
    channel.setChannelOption("grpc.keepalive_permit_without_calls", 0)
    channel.setChannelOption("grpc.enable_retries", 0)
