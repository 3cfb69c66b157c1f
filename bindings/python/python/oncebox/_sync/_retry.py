# Written by tools/twin.py from _async/_retry.py: change it there.
"""The policy alone, over an httpx transport that is not ours."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from .. import _core, _http
from .._checks import whole_number
from .._operations import OperationTable
from .._operations import table as operations_of
from .._policy import RetryPolicy
from ..exceptions import InvalidArgumentException
from ._transport import Transport


class RetryTransport(httpx.BaseTransport):
    """Repeats requests over ``inner``, any httpx transport, as :class:`RetryPolicy` says.

    ``inner`` tells less than :class:`Transport` knows: a connection that was lost is an unknown outcome here, whatever was
    sent. ``connection_retries=0`` in the policy leaves failed connects to ``inner``, so that nothing is retried twice. The
    deadline is the smallest phase of httpx's timeouts, over all attempts; what is left of it bounds each.

    :param inner: makes the attempts.
    :param policy: what decides about repeats. Default: :class:`RetryPolicy`'s defaults.
    :param operations: which operations may be repeated: an :class:`OperationTable`, or the path of an OpenAPI document.
    :param replay_buffer_limit: how much of a streamed body is kept to be sent again, in bytes. Default 65,536.
    :param random_: draws the jitter of waits, from 0 to 1. Default ``random.random``.
    :param sleep: waits so many seconds. Default: the event loop's.
    :param monotonic: the clock, in seconds. Default ``time.monotonic``.
    :raises InvalidArgumentException: for an option that breaks its rule, and for one of our own transports: it has a policy.
    """

    def __init__(
        self,
        inner: httpx.BaseTransport,
        *,
        policy: RetryPolicy | None = None,
        operations: OperationTable | str | os.PathLike[str] | None = None,
        replay_buffer_limit: int = 65_536,
        random_: Callable[[], float] = random.random,
        sleep: _http.Sleep = _http.sleep_sync,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(inner, (Transport, RetryTransport)):
            name = type(inner).__name__
            raise InvalidArgumentException(f"inner: {name} repeats by a policy of its own, and so would retry twice")
        if not hasattr(inner, "handle_request"):
            raise InvalidArgumentException(f"inner: a transport is wanted, not {type(inner).__name__}")
        table = operations_of(operations)
        self._inner = inner
        self._policy = _http.policy_of(policy)
        self._decider = _core.Decider(policy=self._policy._json(), operations=None if table is None else table._core)
        self._limit = whole_number("replay_buffer_limit", replay_buffer_limit, most=2**63 - 1)
        self._random, self._sleep, self._monotonic = random_, sleep, monotonic

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Makes the call. See the class.

        :raises httpx.TransportError: ``inner``'s own, of the last attempt, with ``outcome`` and ``attempts``.
        """
        deadline = _http.limits(request.extensions).deadline
        began = self._monotonic()
        url = request.url
        call = self._decider.call(
            request.method,
            f"{url.scheme}://{url.netloc.decode('ascii')}",
            url.raw_path.decode("ascii").partition("?")[0],
            request.headers.raw,
            began,
            deadline,
        )
        body = _AsyncMirror(request.stream, self._limit)
        number = 0
        try:
            while True:
                number += 1
                started = self._monotonic()
                left = None if deadline is None else deadline - (started - began)
                attempt = _attempt(request, body.view(), number, left)
                call.begin()
                try:
                    response = self._inner.handle_request(attempt)
                except httpx.TransportError as error:
                    kind = _http.kind_of(error)
                    if kind is None:
                        # Of this attempt nothing was sent. Earlier ones may have been processed.
                        _http.attach(error, call.outcome, call.attempts, call.may_have_been_processed)
                        raise
                    now = self._monotonic()
                    if isinstance(error, httpx.TimeoutException) and deadline is not None and now - began >= deadline:
                        is_unsent = isinstance(error, (httpx.ConnectTimeout, httpx.PoolTimeout))
                        kind = "timed_out_unsent" if is_unsent else "timed_out"
                    wait = call.failed(kind, str(error), *body.state(), started, now, self._random())
                    if wait is None:
                        _http.attach(error, call.outcome, call.attempts, call.may_have_been_processed)
                        raise
                else:
                    wait = call.answered(
                        response.status_code,
                        response.headers.raw,
                        *body.state(),
                        started,
                        self._monotonic(),
                        int(time.time()),
                        self._random(),
                    )
                    if wait is None:
                        _restore(attempt, request)
                        response.extensions["oncebox"] = _http.History(call)
                        response.request = request
                        if response.is_closed:
                            body.close()
                        elif not body.is_over:
                            # The inner transport may still be sending it.
                            response.stream = _AsyncClosing(response.stream, body)
                        return response
                    _discard(response)
                if wait > 0:
                    self._sleep(wait)
        except BaseException:
            body.close()
            raise

    def close(self) -> None:
        """Closes ``inner``."""
        self._inner.close()


#: What is read of a response that is asked for again, so that its connection can be used once more.
_SMALL = 16_384


def _discard(response: httpx.Response) -> None:
    length = _http.length_of(response.headers)
    try:
        if length is not None and length <= _SMALL:
            response.read()
    except httpx.RequestError:
        # It was not wanted, whether it came or could be decoded.
        pass
    finally:
        response.close()


def _attempt(request: httpx.Request, stream: Any, number: int, left: float | None) -> httpx.Request:
    extensions = dict(request.extensions)
    timeout: dict[str, float | None] | None = extensions.get("timeout")
    if left is not None and number > 1 and timeout is not None:
        rest = max(left, 0.001)
        extensions["timeout"] = {phase: rest if value is None else min(value, rest) for phase, value in timeout.items()}
    made = httpx.Request(request.method, request.url, headers=request.headers.raw, stream=stream, extensions=extensions)
    if number > 1:
        made.headers["oncebox-attempt"] = str(number)
    return made


def _restore(attempt: httpx.Request, request: httpx.Request) -> None:
    """The deadline ends with the head: the inner transport reads later from this dictionary how long the body may be silent."""
    timeout: dict[str, float | None] | None = attempt.extensions.get("timeout")
    given: dict[str, float | None] | None = request.extensions.get("timeout")
    if timeout is not None and given is not None and timeout is not given:
        timeout.update(given)


class _AsyncMirror:
    """A request's body that can be sent again as far as it is mirrored."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._pieces: Any = None
        self._mirror: list[bytes] | None = []
        self._read = 0
        self._ended = False
        self._closed = False
        #: Of the attempt that reads it. An earlier one that is still about gets no more.
        self.turn = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is needed any more."""
        return isinstance(self._stream, httpx.ByteStream) or self._closed

    def view(self) -> Any:
        """The body for one more attempt."""
        if isinstance(self._stream, httpx.ByteStream):
            return self._stream
        self.turn += 1
        return _AsyncView(self, self.turn)

    def state(self) -> tuple[str, int, int]:
        """What can be sent again, for the policy."""
        if isinstance(self._stream, httpx.ByteStream):
            return "bytes", 0, self._limit
        if self._read == 0:
            return "unread", 0, self._limit
        return ("consumed" if self._mirror is None else "mirrored"), self._read, self._limit

    def piece(self, index: int) -> bytes | None:
        """The piece with this number; ``None`` after the last."""
        if self._mirror is not None and index < len(self._mirror):
            return self._mirror[index]
        if self._ended:
            return None
        if self._pieces is None:
            self._pieces = self._stream.__iter__()
        try:
            # A copy: who yields a buffer may fill it again.
            piece = _http.piece_of(self._pieces.__next__())
        except StopIteration:
            self._ended = True
            self.close()
            return None
        self._read += len(piece)
        if self._mirror is not None:
            if self._read <= self._limit:
                self._mirror.append(piece)
            else:
                self._mirror = None
        return piece

    def close(self) -> None:
        """Closes what the caller gave, but for a file, which is theirs."""
        if self._closed or isinstance(self._stream, httpx.ByteStream):
            return
        self._closed = True
        _http.close_sync(self._pieces, _http.owned(self._stream), self._stream)


class _AsyncView(httpx.SyncByteStream):
    """One attempt's view of a body. Closing it closes nothing: the next attempt may need what it shows."""

    def __init__(self, mirror: _AsyncMirror, turn: int) -> None:
        self._mirror = mirror
        self._turn = turn

    def __iter__(self) -> Iterator[bytes]:
        index = 0
        while True:
            if self._mirror.turn != self._turn:
                raise httpx.StreamError("a later attempt has taken over this body")
            piece = self._mirror.piece(index)
            if piece is None:
                return
            index += 1
            yield piece

    def close(self) -> None:
        """Nothing."""


class _AsyncClosing(httpx.SyncByteStream):
    """A response's body, at whose end the request's is closed."""

    def __init__(self, inner: Any, body: _AsyncMirror) -> None:
        self._inner = inner
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        pieces: Iterator[bytes] = self._inner.__iter__()
        return pieces

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            self._body.close()
