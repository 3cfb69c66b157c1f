"""What the HTTP layer's transports share: options, limits, bodies and exceptions."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from . import _core
from ._checks import flag, path, seconds, text, whole_number
from ._errors import attempts as read_attempts
from ._operations import OperationTable
from ._operations import table as operations_of
from ._policy import RetryPolicy
from ._reach import certificate, pem, proxy_of
from ._run import sleep_async as sleep_async
from ._run import sleep_sync as sleep_sync
from .exceptions import Attempt, InvalidArgumentException, Outcome

logger = logging.getLogger("oncebox")

E = TypeVar("E", bound=BaseException)

#: Less than this is no limit that could be kept, and 0 would mean that there is none.
_SHORTEST = 0.001

#: More connections, or bytes, no machine has.
_MOST = 2**63 - 1

#: The phases of httpx's timeouts.
PHASES = ("connect", "read", "write", "pool")


def core_transport(
    *,
    policy: RetryPolicy | None = None,
    operations: OperationTable | str | os.PathLike[str] | None = None,
    http_version: str | None = None,
    proxy: Any = None,
    trust_env: bool = True,
    verify: bool = True,
    ca_certificates: str | os.PathLike[str] | bytes | None = None,
    cert: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
    uds: str | os.PathLike[str] | None = None,
    max_connections: int | None = None,
    keepalive_expiry: float | None = None,
    replay_buffer_limit: int | None = None,
    connect_timeout: float | None = None,
) -> _core.HttpTransport:
    """The transport for these options; each is checked, and named when it is refused."""
    policy = policy_of(policy)
    table = operations_of(operations)
    proxy = proxy_of(proxy)
    try:
        return _core.HttpTransport(
            policy=policy._json(),
            operations=None if table is None else table._core,
            http_version=None if http_version is None else text("http_version", http_version),
            proxy=None if proxy is None else proxy.arguments(),
            trust_env=flag("trust_env", trust_env),
            verify=flag("verify", verify),
            ca_certificates=None if ca_certificates is None else pem("ca_certificates", ca_certificates),
            client_certificate=None if cert is None else certificate("cert", cert),
            unix_socket=None if uds is None else path("uds", uds),
            max_connections=None
            if max_connections is None
            else whole_number("max_connections", max_connections, least=1, most=2**32 - 1),
            keepalive_expiry=None if keepalive_expiry is None else seconds("keepalive_expiry", keepalive_expiry),
            replay_buffer_limit=(
                None
                if replay_buffer_limit is None
                else whole_number("replay_buffer_limit", replay_buffer_limit, most=_MOST)
            ),
            connect_timeout=None if connect_timeout is None else seconds("connect_timeout", connect_timeout),
        )
    except ValueError as error:
        raise InvalidArgumentException(str(error)) from None


def policy_of(policy: Any) -> RetryPolicy:
    """What an option `policy` means."""
    if policy is None:
        return RetryPolicy()
    if not isinstance(policy, RetryPolicy):
        raise InvalidArgumentException(f"policy: a RetryPolicy is wanted, not {type(policy).__name__}")
    return policy


def target(url: httpx.URL) -> str:
    """The URL as it is asked for: without user and fragment.

    :raises httpx.UnsupportedProtocol: when it is of no scheme that is spoken.
    """
    if url.scheme not in ("http", "https"):
        raise untried(httpx.UnsupportedProtocol(f"the URL's scheme is {url.scheme!r}, neither 'http' nor 'https'"))
    return f"{url.scheme}://{url.netloc.decode('ascii')}{url.raw_path.decode('ascii')}"


@dataclass(frozen=True)
class Limits:
    """Of one request, in seconds. ``None``: there is none."""

    deadline: float | None
    read_idle: float | None
    write_idle: float | None


def limits(extensions: Mapping[str, Any], phases: tuple[str, ...] = PHASES) -> Limits:
    """What httpx's timeouts mean: the smallest phase is the deadline until the response's head; `read` and `write` then bound
    each step."""
    timeout: dict[str, float | None] = extensions.get("timeout") or {}

    def limit(phase: str) -> float | None:
        value = timeout.get(phase)
        return None if value is None else max(float(value), _SHORTEST)

    given = [value for value in map(limit, phases) if value is not None]
    return Limits(min(given, default=None), limit("read"), limit("write"))


def length_of(headers: httpx.Headers) -> int | None:
    """The body's length, where it is told."""
    told = headers.get("content-length", "")
    return int(told) if told.isascii() and told.isdigit() else None


def piece_of(given: Any) -> bytes:
    """A piece of a request's body, as bytes. A number is none: ``bytes(5)`` would be five zeros."""
    if isinstance(given, bytes):
        return given
    try:
        return bytes(memoryview(given))
    except TypeError:
        raise TypeError(f"the request's body: pieces are bytes, not {type(given).__name__}") from None


def owned(stream: Any) -> Any:
    """What the caller gave as a request's content, where it is to be closed once nothing needs it any more: a generator, or an
    iterator that can be closed. A file is not: who opened it closes it."""
    given = getattr(stream, "_stream", None)
    return None if given is None or hasattr(given, "read") else given


async def close_async(*parts: Any) -> None:
    """Closes what is not needed any more."""
    for part in parts:
        with _left_behind():
            if hasattr(part, "aclose"):
                await part.aclose()
            elif hasattr(part, "close"):
                part.close()


def close_sync(*parts: Any) -> None:
    """Closes what is not needed any more."""
    for part in parts:
        with _left_behind():
            if hasattr(part, "close"):
                part.close()


@contextmanager
def _left_behind() -> Generator[None]:
    """The caller's own iterator may fail when it is closed. That is no failure of the call."""
    try:
        yield
    except Exception as error:
        logger.warning("the request's body could not be closed: %r", error)


_EXCEPTIONS: dict[str, type[httpx.TransportError]] = {
    "invalid": httpx.LocalProtocolError,
    "connect": httpx.ConnectError,
    "connect_timeout": httpx.ConnectTimeout,
    "pool_timeout": httpx.PoolTimeout,
    "write_timeout": httpx.WriteTimeout,
    "read_timeout": httpx.ReadTimeout,
    "write": httpx.WriteError,
    "read": httpx.ReadError,
    "protocol": httpx.RemoteProtocolError,
    "refused": httpx.RemoteProtocolError,
    "reset": httpx.RemoteProtocolError,
}


def exception(failure: _core.HttpFailure, request: httpx.Request) -> httpx.TransportError:
    """httpx's exception of a call that failed, with the evidence."""
    error = _EXCEPTIONS[failure.kind](failure.message, request=request)
    attach(error, failure.outcome, failure.attempts, failure.may_have_been_processed)
    return error


def attach(error: BaseException, outcome: str | None, told: Any, may_have_been_processed: bool) -> None:
    """Gives an exception what is known of its call."""
    error.outcome = None if outcome is None else Outcome(outcome)  # type: ignore[attr-defined]
    error.attempts = read_attempts(told or ())  # type: ignore[attr-defined]
    error.may_have_been_processed = may_have_been_processed  # type: ignore[attr-defined]


def untried(error: E) -> E:
    """The exception of a request that was refused before anything was tried."""
    attach(error, None, (), False)
    return error


class History:
    """Every attempt of a call that was answered: ``response.extensions["oncebox"]``."""

    __slots__ = ("_core",)

    def __init__(self, core: _core.HttpResponse | _core.Judged) -> None:
        self._core = core

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts, oldest first."""
        return read_attempts(self._core.attempts)

    def __repr__(self) -> str:
        return f"<History of {len(self.attempts)} attempts>"


def attempts_of(told: httpx.Response | BaseException) -> tuple[Attempt, ...]:
    """Every attempt of the call that a response answers, or that an exception ended; empty where it was none of ours."""
    if isinstance(told, httpx.Response):
        history = told.extensions.get("oncebox")
        return history.attempts if isinstance(history, History) else ()
    found: tuple[Attempt, ...] = getattr(told, "attempts", ())
    return found


#: HTTP/2's REFUSED_STREAM (RFC 9113 §7).
_REFUSED_STREAM = 7


def kind_of(error: httpx.TransportError) -> str | None:
    """What a transport's exception says of its attempt; ``None``: the request itself was wrong."""
    for classes, kind in _KINDS:
        if isinstance(error, classes):
            return kind
    if isinstance(error, httpx.RemoteProtocolError):
        return "refused" if _is_refusal(error) else "protocol"
    return "read" if isinstance(error, httpx.NetworkError) else None


_KINDS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    (httpx.ConnectTimeout, "connect_timeout"),
    ((httpx.ConnectError, httpx.ProxyError), "connect"),
    (httpx.PoolTimeout, "pool_timeout"),
    (httpx.WriteTimeout, "write_timeout"),
    (httpx.ReadTimeout, "read_timeout"),
    (httpx.WriteError, "write"),
    (httpx.ReadError, "read"),
)


def _is_refusal(error: BaseException) -> bool:
    """Whether the server reset the stream with REFUSED_STREAM. httpcore and pyqwest keep what they saw as the cause."""
    seen: BaseException | None = error
    while seen is not None:
        for evidence in (seen, *seen.args):
            code = getattr(evidence, "error_code", getattr(evidence, "code", None))
            if isinstance(code, int) and not isinstance(evidence, httpx.Response):
                return int(code) == _REFUSED_STREAM and "last_stream_id" not in dir(evidence)
        seen = seen.__cause__
    return "error_code:ErrorCodes.REFUSED_STREAM" in str(error) or "error_code:7" in str(error)


AsyncSleep = Callable[[float], Awaitable[None]]
Sleep = Callable[[float], None]
