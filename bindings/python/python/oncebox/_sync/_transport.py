# Written by tools/twin.py from _async/_transport.py: change it there.
"""An httpx transport over ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import httpx

from .. import _core, _http
from .._operations import OperationTable
from .._policy import RetryPolicy
from .._run import run_sync
from ._body import Source


class Transport(httpx.BaseTransport):
    """Takes the place of httpx's own transport: ``httpx.Client(transport=Transport())``.

    Each request is one call with one ledger. What was provably not processed is sent again, streamed bodies too as far as they
    are mirrored; what may have been processed only with a permit (:class:`RetryPolicy`, :class:`OperationTable`). A status is
    never turned into an error. All transports of a process share their connections where their options agree, in whatever
    thread or event loop they are used.

    The timeouts are httpx's: the smallest phase is the deadline of the call until the response's head, over all attempts;
    ``read`` then bounds each piece of the response, and ``write`` how long the server may take none of a streamed body.
    Exceptions are httpx's own and carry ``outcome``, ``attempts`` and ``may_have_been_processed``; a response has its history
    in ``response.extensions["oncebox"]``.

    :param policy: what decides about repeats. Default: :class:`RetryPolicy`'s defaults.
    :param operations: which operations may be repeated: an :class:`OperationTable`, or the path of an OpenAPI document.
    :param http_version: ``"1.1"`` or ``"2"`` (without TLS: with prior knowledge). Default: what the server chooses in the TLS
        handshake, and HTTP/1.1 without TLS.
    :param proxy: a URL (http, https, socks5, socks5h) or an ``httpx.Proxy``. Default: what the environment says.
    :param trust_env: whether ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` count. Default on.
    :param verify: off accepts any certificate: for tests only. Default on.
    :param ca_certificates: PEM, or its path: trusted besides the platform's.
    :param cert: the paths of a client certificate and of its key, in PEM.
    :param uds: the path of a Unix socket over which all is reached.
    :param max_connections: connections to one origin, at most. Default 200.
    :param keepalive_expiry: how long an idle connection is kept, in seconds. Default 300, for HTTP/1.1 4.
    :param replay_buffer_limit: how much of a streamed body is kept to be sent again, in bytes. Default 65,536.
    :param connect_timeout: how long one connect may take, in seconds. Default 30; the deadline bounds it, too.
    :raises InvalidArgumentException: for an option that breaks its rule, before anything is sent.
    """

    def __init__(
        self,
        *,
        policy: RetryPolicy | None = None,
        operations: OperationTable | str | os.PathLike[str] | None = None,
        http_version: str | None = None,
        proxy: str | httpx.URL | httpx.Proxy | None = None,
        trust_env: bool = True,
        verify: bool = True,
        ca_certificates: str | os.PathLike[str] | bytes | None = None,
        cert: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
        uds: str | os.PathLike[str] | None = None,
        max_connections: int | None = None,
        keepalive_expiry: float | None = None,
        replay_buffer_limit: int | None = None,
        connect_timeout: float | None = None,
    ) -> None:
        self._core = _http.core_transport(
            policy=policy,
            operations=operations,
            http_version=http_version,
            proxy=proxy,
            trust_env=trust_env,
            verify=verify,
            ca_certificates=ca_certificates,
            cert=cert,
            uds=uds,
            max_connections=max_connections,
            keepalive_expiry=keepalive_expiry,
            replay_buffer_limit=replay_buffer_limit,
            connect_timeout=connect_timeout,
        )
        self._phases: tuple[str, ...] = _http.PHASES
        self._read_idle: float | None = None

    @classmethod
    def _over(cls, core: _core.HttpTransport, *, phases: tuple[str, ...], read_idle: float | None = None) -> Transport:
        """Over a transport that is there, with another meaning of the timeouts."""
        made = cls.__new__(cls)
        made._core, made._phases, made._read_idle = core, phases, read_idle
        return made

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Makes the call. See the class.

        :raises httpx.TransportError: when no answer came, or the request cannot be made.
        """
        stream = request.stream
        if isinstance(stream, httpx.ByteStream):
            answer = run_sync(self._begin(request, b"".join(stream)))
            if isinstance(answer, _core.HttpFailure):
                raise _http.exception(answer, request)
            return _response(answer, request, None)
        source = Source(stream, _http.length_of(request.headers))
        try:
            pending = self._begin(request, source.upload)
            try:
                source.drive()
                answer = run_sync(pending)
            except BaseException:
                pending.cancel()
                raise
            if isinstance(answer, _core.HttpFailure):
                raise _http.exception(answer, request)
        except BaseException:
            source.close()
            raise
        if source.is_over:
            source.close()
        return _response(answer, request, source)

    def _begin(self, request: httpx.Request, body: Any) -> Any:
        limits = _http.limits(request.extensions, self._phases)
        read_idle = limits.read_idle if self._read_idle is None else self._read_idle
        try:
            return self._core.send(
                request.method,
                _http.target(request.url),
                request.headers.raw,
                body,
                limits.deadline,
                read_idle,
                limits.write_idle,
            )
        except ValueError as error:
            raise _http.untried(httpx.LocalProtocolError(str(error), request=request)) from None

    def close(self) -> None:
        """Nothing: the connections are the process's, and others use them. They are closed when they were idle for long."""


def _response(core: _core.HttpResponse, request: httpx.Request, source: Source | None) -> httpx.Response:
    whole = core.whole() if source is None or source.is_closed else None
    stream = httpx.ByteStream(whole) if whole is not None else _AsyncBody(core, request, source)
    return httpx.Response(
        core.status,
        headers=core.headers,
        stream=stream,
        extensions={"http_version": core.http_version.encode("ascii"), "oncebox": _http.History(core)},
    )


class _AsyncBody(httpx.SyncByteStream):
    """A response's body, and the rest of the request's where the server answered before it had all of it."""

    def __init__(self, core: _core.HttpResponse, request: httpx.Request, source: Source | None) -> None:
        self._core = core
        self._request = request
        self._source = source

    def __iter__(self) -> Iterator[bytes]:
        whole = self._core.whole()
        if whole:
            yield whole
        while True:
            sending = None if self._source is None or self._source.is_closed else self._source
            item = run_sync(self._core.next(None if sending is None else sending.upload))
            if item is None:
                break
            if item is ...:
                assert sending is not None
                sending.feed()
            elif isinstance(item, _core.HttpFailure):
                error = _http.exception(item, self._request)
                _http.attach(error, "responded", self._core.attempts, True)
                raise error
            else:
                yield item

    def close(self) -> None:
        self._core.close()
        if self._source is not None:
            self._source.close()
