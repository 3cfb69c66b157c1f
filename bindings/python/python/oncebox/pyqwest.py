"""Transports for ``pyqwest``, and so for Connect clients.

::

    import pyqwest, oncebox.pyqwest

    client = pyqwest.SyncClient(oncebox.pyqwest.SyncTransport())

They raise what pyqwest's own raise: the builtin ``ConnectionError`` and ``TimeoutError``, ``pyqwest.ReadError``,
``WriteError``, ``RemoteProtocolError``, and ``StreamError`` with its code: ``REFUSED_STREAM`` for what the server refused and
no repeat could save. Each carries ``outcome``, ``attempts`` and ``may_have_been_processed``. Needs ``pyqwest``.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from time import monotonic
from typing import Any

import pyqwest

from . import _core, _http
from ._checks import seconds
from ._decoding import decoder_for
from ._feeding import TaskFeeder, ThreadFeeder
from ._operations import OperationTable
from ._policy import RetryPolicy
from ._run import run_async, run_sync

__all__ = ["OperationTable", "RetryPolicy", "SyncTransport", "Transport"]


class _Options:
    """What both transports are made of."""

    def __init__(
        self,
        *,
        policy: RetryPolicy | None = None,
        operations: OperationTable | str | os.PathLike[str] | None = None,
        http_version: str | None = None,
        proxy: Any = None,
        trust_env: bool = True,
        verify: bool = True,
        ca_certificates: str | os.PathLike[str] | bytes | None = None,
        max_connections: int | None = None,
        keepalive_expiry: float | None = None,
        replay_buffer_limit: int | None = None,
        connect_timeout: float | None = None,
        timeout: float | None = None,
        read_timeout: float | None = None,
    ) -> None:
        self._core = _http.core_transport(
            policy=policy,
            operations=operations,
            http_version=http_version,
            proxy=proxy,
            trust_env=trust_env,
            verify=verify,
            ca_certificates=ca_certificates,
            max_connections=max_connections,
            keepalive_expiry=keepalive_expiry,
            replay_buffer_limit=replay_buffer_limit,
            connect_timeout=connect_timeout,
        )
        self._timeout = None if timeout is None else seconds("timeout", timeout)
        self._read_timeout = None if read_timeout is None else seconds("read_timeout", read_timeout)

    def _begin(self, request: Any, body: Any, deadline: float | None) -> Any:
        headers = request.headers
        if request._json and "content-type" not in headers:
            headers = [*headers.items(), ("content-type", "application/json")]
        else:
            headers = headers.items()
        try:
            return self._core.send(request.method, request.url, headers, body, deadline, self._read_timeout, None)
        except ValueError as error:
            _http.untried(error)
            raise


class SyncTransport(_Options):
    """Takes the place of ``pyqwest.SyncHTTPTransport``. It is no context manager: its connections are the process's.

    Options as those of :class:`oncebox.httpx.Transport`, and:

    :param timeout: of a request until the end of its response, in seconds. Default none; one that a client gives counts, too.
    :param read_timeout: how long a response may be silent, in seconds. Default none.
    """

    def execute_sync(self, request: pyqwest.SyncRequest) -> pyqwest.SyncResponse:
        """Makes the call.

        :raises Exception: as the module says.
        """
        limit = _smaller(_timeout_here(), self._timeout)
        ends = None if limit is None else monotonic() + limit
        content = request.content
        if isinstance(content, bytes):
            return self._answered(run_sync(self._begin(request, content, limit)), ends, None)
        feeder = ThreadFeeder(content, _length_of(request))
        try:
            pending = self._begin(request, feeder.upload, limit)
            feeder.start()
            try:
                answer = run_sync(pending)
            except BaseException:
                pending.cancel()
                raise
            return self._answered(answer, ends, feeder)
        except BaseException:
            feeder.close()
            raise

    def _answered(self, answer: Any, ends: float | None, feeder: ThreadFeeder | None) -> pyqwest.SyncResponse:
        if isinstance(answer, _core.HttpFailure):
            raise _exception(answer, None if feeder is None else feeder.error)
        whole = answer.whole() if feeder is None or feeder.is_over else None
        headers, decoder = _decoded(answer.text_headers)
        if whole is not None:
            if decoder is not None:
                whole = decoder.feed(whole) + decoder.end()
            trailers = pyqwest.Headers(answer.text_trailers)
            content: Any = whole
        else:
            trailers = pyqwest.Headers()
            content = _Content(answer, trailers, decoder, ends, feeder)
        return pyqwest.SyncResponse(
            status=answer.status,
            http_version=_VERSIONS[answer.http_version],
            headers=headers,
            content=content,
            trailers=trailers,
        )


class Transport(_Options):
    """Takes the place of ``pyqwest.HTTPTransport``, in any event loop of asyncio or trio. It is no context manager: its
    connections are the process's.

    Options as those of :class:`SyncTransport`.
    """

    async def execute(self, request: pyqwest.Request) -> pyqwest.Response:
        """Makes the call.

        :raises Exception: as the module says.
        """
        ends = None if self._timeout is None else monotonic() + self._timeout
        content = request.content
        if isinstance(content, bytes):
            return self._answered(await run_async(self._begin(request, content, self._timeout)), ends, None)
        feeder = TaskFeeder(content, _length_of(request))
        try:
            pending = self._begin(request, feeder.upload, self._timeout)
            feeder.start()
            answer = await run_async(pending)
            return self._answered(answer, ends, feeder)
        except BaseException:
            feeder.close()
            raise

    def _answered(self, answer: Any, ends: float | None, feeder: TaskFeeder | None) -> pyqwest.Response:
        if isinstance(answer, _core.HttpFailure):
            raise _exception(answer, None if feeder is None else feeder.error)
        whole = answer.whole() if feeder is None or feeder.is_over else None
        headers, decoder = _decoded(answer.text_headers)
        if whole is not None:
            if decoder is not None:
                whole = decoder.feed(whole) + decoder.end()
            trailers = pyqwest.Headers(answer.text_trailers)
            content: Any = whole
        else:
            trailers = pyqwest.Headers()
            content = _AsyncContent(answer, trailers, decoder, ends, feeder)
        return pyqwest.Response(
            status=answer.status,
            http_version=_VERSIONS[answer.http_version],
            headers=headers,
            content=content,
            trailers=trailers,
        )


_VERSIONS = {
    "HTTP/1.0": pyqwest.HTTPVersion.HTTP1,
    "HTTP/1.1": pyqwest.HTTPVersion.HTTP1,
    "HTTP/2": pyqwest.HTTPVersion.HTTP2,
}


class _Content:
    """A response's content, read as it is asked for."""

    def __init__(self, core: Any, trailers: Any, decoder: Any, ends: float | None, feeder: Any) -> None:
        self._core, self._trailers, self._decoder = core, trailers, decoder
        self._ends, self._feeder = ends, feeder
        self._over = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while not self._over:
            whole = self._core.whole()
            item = whole if whole is not None else run_sync(self._core.next(None, _left(self._ends)))
            piece = self._read(item)
            if piece:
                return piece
        raise StopIteration

    def _read(self, item: Any) -> bytes:
        """A piece of the content; empty where nothing comes of this one."""
        if item is None:
            self._over = True
            self._trailers.update(self._core.text_trailers)
            if self._feeder is not None:
                self._feeder.close()
            rest: bytes = b"" if self._decoder is None else self._decoder.end()
            return rest
        if isinstance(item, _core.HttpFailure):
            source = None if self._feeder is None else self._feeder.error
            self.close()
            error = _exception(item, source)
            if error is not source:
                _http.attach(error, "responded", self._core.attempts, True)
            raise error
        if self._decoder is None:
            plain: bytes = item
            return plain
        try:
            piece: bytes = self._decoder.feed(item)
        except ValueError:
            self.close()
            raise
        return piece

    def close(self) -> None:
        """Gives up what was not read."""
        self._over = True
        self._core.close()
        if self._feeder is not None:
            self._feeder.close()


class _AsyncContent(_Content):
    """The same in an event loop."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._over:
            whole = self._core.whole()
            item = whole if whole is not None else await run_async(self._core.next(None, _left(self._ends)))
            piece = self._read(item)
            if piece:
                return piece
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Gives up what was not read."""
        self.close()


def _decoded(headers: list[tuple[str, str]]) -> tuple[pyqwest.Headers, Any]:
    """The headers, and what decodes the content: as pyqwest does it, both fields that describe the encoded one go."""
    for name, value in headers:
        if name == "content-encoding":
            decoder = decoder_for(value)
            if decoder is not None:
                gone = ("content-encoding", "content-length")
                return pyqwest.Headers([pair for pair in headers if pair[0] not in gone]), decoder
    return pyqwest.Headers(headers), None


def _length_of(request: Any) -> int | None:
    told = request.headers.get("content-length", "")
    return int(told) if told.isascii() and told.isdigit() else None


def _smaller(one: float | None, other: float | None) -> float | None:
    given = [value for value in (one, other) if value is not None]
    return min(given, default=None)


def _left(ends: float | None) -> float | None:
    return None if ends is None else max(ends - monotonic(), 0.001)


def _timeout_here() -> float | None:
    """The timeout that a `SyncClient` was given for the request under way."""
    from pyqwest._pyqwest import get_sync_timeout

    timeout = get_sync_timeout()
    return None if timeout is None else max(timeout.total_seconds(), 0.001)


#: pyqwest raises a class of its own for it since 0.12.
_ConnectTimeout: type[Exception] = getattr(pyqwest, "ConnectTimeout", TimeoutError)

_RemoteProtocolError: type[Exception] = getattr(pyqwest, "RemoteProtocolError", pyqwest.ReadError)

_EXCEPTIONS: dict[str, type[Exception]] = {
    "invalid": ValueError,
    "connect": ConnectionError,
    "connect_timeout": _ConnectTimeout,
    "pool_timeout": TimeoutError,
    "write_timeout": TimeoutError,
    "read_timeout": TimeoutError,
    "write": pyqwest.WriteError,
    "read": pyqwest.ReadError,
    "protocol": _RemoteProtocolError,
}


def _exception(failure: Any, source: BaseException | None) -> BaseException:
    """pyqwest's exception of a call that failed; the one of the caller's own iterator, where that failed."""
    if source is not None:
        return source
    if failure.kind in ("refused", "reset"):
        error: Exception = pyqwest.StreamError(failure.message, pyqwest.StreamErrorCode(failure.code))
    else:
        error = _EXCEPTIONS[failure.kind](failure.message)
    _http.attach(error, failure.outcome, failure.attempts, failure.may_have_been_processed)
    return error
