"""Oncebox beneath the installed, unmodified ``e2b`` package.

::

    import oncebox.compat.e2b

    oncebox.compat.e2b.enable()

    from e2b import Sandbox  # as before

Every request of the SDK, and of ``e2b-code-interpreter`` and ``e2b-desktop`` on top of it, then goes through Oncebox's
transport and is one call with one ledger. The SDK's own loops are off: the server sees at most
``1 + retries + connection_retries`` attempts of a call, where ``retries`` is the SDK's own option and ``connection_retries``
its ``E2B_CONNECTION_RETRIES``. The statuses that are retried are those of the installed version (2.52 to 2.59:
``RetryPolicy.e2b_2_52``, from 2.60 on: ``RetryPolicy.e2b_2_63``); what may have been processed is repeated only with a permit
of our operation table. Requests to a sandbox itself and to volumes are only replayed where they were provably not processed.

Clients and sandboxes that were made before keep what they were made with; those that are made while it is enabled keep it after
:func:`disable`.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import httpx

from .. import _core, _http
from .._async._transport import AsyncTransport
from .._operations import OperationTable
from .._policy import RetryPolicy
from .._reach import ProxyConfig
from .._sync._transport import Transport
from ..exceptions import UnsupportedException
from ..pyqwest import SyncTransport as PyqwestSyncTransport
from ..pyqwest import Transport as PyqwestTransport

__all__ = ["NEWEST", "OLDEST", "disable", "enable", "is_enabled"]

#: The versions of ``e2b`` that are supported and tested: from the first to the last, and later patches of that.
OLDEST = (2, 52)
NEWEST = (2, 63)

#: From this version on the SDK has the statuses of 2.63.
_NEWER_STATUSES = (2, 60)

#: The phases of httpx's timeouts that make the deadline. The SDKs above give `connect` a smaller value of its own and mean the
#: others by their timeout.
_PHASES = ("read", "write", "pool")

_lock = threading.Lock()
_undo: list[Callable[[], None]] | None = None


def enable() -> None:
    """Puts Oncebox beneath ``e2b``. Once is enough; twice does no harm.

    :raises UnsupportedException: when ``e2b`` is not installed, is of a version that is not supported, or is not what
        that version is. Nothing is changed then.
    """
    global _undo
    with _lock:
        if _undo is None:
            _undo = _patched(_version())


def disable() -> None:
    """Undoes :func:`enable`."""
    global _undo
    with _lock:
        undo, _undo = _undo, None
        for step in reversed(undo or []):
            step()


def is_enabled() -> bool:
    """Whether :func:`enable` is in effect."""
    return _undo is not None


def _version() -> tuple[int, int]:
    supported = f"supported are {_dotted(OLDEST)}.0 to {_dotted(NEWEST)}"
    try:
        told = metadata.version("e2b")
    except metadata.PackageNotFoundError:
        raise UnsupportedException(f"the package e2b is not installed; {supported}") from None
    try:
        major, minor = (int(part) for part in told.split(".")[:2])
    except ValueError:
        raise UnsupportedException(f"e2b {told} is no version that is known; {supported}") from None
    if not OLDEST <= (major, minor) <= NEWEST:
        raise UnsupportedException(f"e2b {told} is not supported; {supported}")
    return major, minor


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _patched(version: tuple[int, int]) -> list[Callable[[], None]]:
    """Puts our transports in the place of those that the SDK makes, and says how to undo it."""
    preset = RetryPolicy.e2b_2_63 if version >= _NEWER_STATUSES else RetryPolicy.e2b_2_52
    undo: list[Callable[[], None]] = []
    try:
        for suffix, kind in (("sync", _Sync(preset)), ("async", _Async(preset))):
            client = importlib.import_module(f"e2b.api.client_{suffix}")
            for name, ours in kind.names().items():
                _replace(client, name, ours, undo)
            # Until 2.55 the SDK spreads streams over connections itself.
            if hasattr(client, "BalancingTransport"):
                _replace(client, "BalancingTransport", _unbalanced, undo)
            for cache in ("_transports", "_pools", "_httpx_transports"):
                if hasattr(client, cache):
                    _replace(client, cache, {}, undo)
            upload = importlib.import_module(f"e2b.template_{suffix}.build_api")
            for name in (kind.pool_name, kind.adapter_name):
                _replace(upload, name, kind.names()[name], undo)
        api: Any = importlib.import_module("e2b.api")
        handle: Callable[..., Any] = api.handle_api_exception
        telling = _with_evidence(handle)
        # By its own name wherever it was imported.
        for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "e2b"]:
            if vars(module).get("handle_api_exception") is handle:
                _replace(module, "handle_api_exception", telling, undo)
        proxy = api.ProxyConfig
        _replace(proxy, "to_pyqwest", _to_ours, undo)
    except BaseException:
        for step in reversed(undo):
            step()
        raise
    return undo


def _with_evidence(handle: Callable[..., Any]) -> Callable[..., Any]:
    """The SDK's exceptions of an answer say nothing of the answer but its status: they are given what else is known."""

    def handled(answer: Any, *rest: Any, **named: Any) -> Any:
        error = handle(answer, *rest, **named)
        history = getattr(answer.headers, "oncebox", None)
        if isinstance(history, _http.History):
            attempts = history.attempts
            error.attempts, error.outcome = attempts, attempts[-1].outcome if attempts else None
        told = answer.headers.get("retry-after")
        date, now = answer.headers.get("date"), int(time.time())
        error.retry_after = None if told is None else _core.retry_after(told, date, now)
        return error

    return handled


def _unbalanced(build: Callable[[], Any]) -> Any:
    return build()


def _to_ours(proxy: Any) -> ProxyConfig:
    return ProxyConfig(proxy.url, proxy.auth, tuple(proxy.headers))


def _replace(owner: Any, name: str, ours: Any, undo: list[Callable[[], None]]) -> None:
    if not hasattr(owner, name):
        where = getattr(owner, "__name__", repr(owner))
        raise UnsupportedException(f"{where}.{name} is missing: this e2b is not what its version says")
    before = getattr(owner, name)
    setattr(owner, name, ours)
    undo.append(lambda: setattr(owner, name, before))


class _Beneath:
    """What the SDK's names stand for while ours are in their place, on one side of it."""

    #: What the SDK calls a pool of connections, and the adapter that makes an httpx transport of it.
    pool_name: str
    adapter_name: str
    retrying_name: str
    pool: Any
    transport: Any
    #: The same, whose responses' headers know the history: all else of a response is lost in the SDK.
    telling: Any

    def __init__(self, preset: Callable[..., RetryPolicy]) -> None:
        self._preset = preset

    def names(self) -> dict[str, Any]:
        """Our replacements by their names."""
        return {
            self.pool_name: self._pool,
            "ConnectionRetryTransport": self._with_connection_retries,
            self.adapter_name: self._adapted,
            self.retrying_name: self._with_retries,
        }

    def _pool(self, **given: Any) -> Any:
        options = _Options(self._preset, given)
        # By itself a pool connects once: what repeats that is put above it.
        return self.pool(options, options.core(0, 0))

    def _with_connection_retries(self, pool: Any, max_retries: int = 3) -> Any:
        return self.pool(pool.options, pool.options.core(0, max_retries), connection_retries=max_retries)

    def _adapted(self, pool: Any) -> Any:
        made = self.transport._over(pool._core, phases=_PHASES, read_idle=pool._read_timeout)
        made.pool = pool
        return made

    def _with_retries(self, transport: Any, retries: int) -> Any:
        pool = transport.pool
        core = pool.options.core(retries, pool.connection_retries, control_plane=True)
        return self.telling._over(core, phases=_PHASES, read_idle=pool._read_timeout)


class _Options:
    """What the SDK gave a pool, and the transports that were made of it."""

    def __init__(self, preset: Callable[..., RetryPolicy], given: dict[str, Any]) -> None:
        self.read_timeout = given.get("read_timeout")
        self._preset = preset
        self._given = given
        self._cores: dict[tuple[int, int, bool], _core.HttpTransport] = {}

    def core(self, retries: int, connection_retries: int, *, control_plane: bool = False) -> _core.HttpTransport:
        """A transport of these connections."""
        key = (retries, connection_retries, control_plane)
        found = self._cores.get(key)
        if found is None:
            given = self._given
            found = self._cores[key] = _http.core_transport(
                policy=self._preset(retries=retries, connection_retries=connection_retries),
                operations=_control_plane() if control_plane else None,
                http_version="1.1" if given.get("http_version") is not None else None,
                proxy=given.get("proxy"),
                max_connections=given.get("max_connections_per_address") or _max_connections(),
                keepalive_expiry=given.get("pool_idle_timeout"),
            )
        return found


def _control_plane() -> OperationTable:
    return OperationTable(_core.OperationTable.control_plane(""))


def _max_connections() -> int:
    return max(1, int(os.environ.get("E2B_MAX_CONNECTIONS") or "200"))


class _SyncPool(PyqwestSyncTransport):
    def __init__(self, options: _Options, core: _core.HttpTransport, connection_retries: int = 0) -> None:
        self.options, self.connection_retries = options, connection_retries
        self._core, self._timeout, self._read_timeout = core, None, options.read_timeout


class _AsyncPool(PyqwestTransport):
    def __init__(self, options: _Options, core: _core.HttpTransport, connection_retries: int = 0) -> None:
        self.options, self.connection_retries = options, connection_retries
        self._core, self._timeout, self._read_timeout = core, None, options.read_timeout


class _Telling(Transport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return _told(super().handle_request(request))


class _AsyncTelling(AsyncTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return _told(await super().handle_async_request(request))


def _told(response: httpx.Response) -> httpx.Response:
    response.headers.oncebox = response.extensions["oncebox"]  # type: ignore[attr-defined]
    return response


class _Sync(_Beneath):
    pool_name, adapter_name, retrying_name = "SyncHTTPTransport", "PyqwestTransport", "RetryableTransport"
    pool, transport, telling = _SyncPool, Transport, _Telling


class _Async(_Beneath):
    pool_name, adapter_name, retrying_name = "HTTPTransport", "AsyncPyqwestTransport", "AsyncRetryableTransport"
    pool, transport, telling = _AsyncPool, AsyncTransport, _AsyncTelling
