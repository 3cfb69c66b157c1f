"""Options of clients and calls, and the clients that have them."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar, cast

from . import _core
from ._params import OF_CALLS, given
from ._policy import RetryPolicy
from ._reach import certificate, pem, proxy_of
from ._run import before_exit, in_child, run_sync

#: Environment variables that a client is made from.
_VARIABLES = (
    *("E2B_API_KEY", "E2B_DOMAIN", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL", "E2B_DEBUG"),
    *("E2B_CONNECTION_RETRIES", "E2B_HTTP_VERSION", "E2B_MAX_CONNECTIONS", "E2B_KEEPALIVE_EXPIRY"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
)

#: So many clients are kept for the next call with the same options.
_KEPT = 64

_clients: OrderedDict[Any, _core.Client] = OrderedDict()
#: Of clients that are kept no more: what they still clear away, and what that left.
_closing: list[_core.Pending[list[str]]] = []
_left: list[str] = []
_lock = threading.Lock()


def client_for(options: Mapping[str, Any]) -> _core.Client:
    """The client of these options: one for all calls that have the same, in the same environment."""
    options = _prepared(given(options))
    if is_debug(options) and not os.environ.get("E2B_API_KEY"):
        # Who is on this machine asks nobody for a key.
        options.setdefault("api_key", "debug")
    key = (_frozen(options), tuple(map(os.environ.get, _VARIABLES)))
    with _lock:
        client = _clients.get(key)
        if client is not None:
            _clients.move_to_end(key)
            return client
    client = _core.Client(options)
    with _lock:
        client = _clients.setdefault(key, client)
        while len(_clients) > _KEPT:
            _, gone = _clients.popitem(last=False)
            _closing.append(gone.close())
            for closed in [closing for closing in _closing if closing.is_over()]:
                _closing.remove(closed)
                _left.extend(closed.take())
    return client


def _prepared(options: dict[str, Any]) -> dict[str, Any]:
    """The options as the extension module takes them: what is of Python alone is put into its words."""
    policy = options.get("policy")
    if isinstance(policy, RetryPolicy):
        del options["policy"]
        options = {**asdict(policy), **options}
    if "proxy" in options:
        proxy = proxy_of(options["proxy"])
        options["proxy"] = proxy and proxy.arguments()
    if "root_certificates" in options:
        options["root_certificates"] = pem("root_certificates", options["root_certificates"])
    if "client_certificate" in options:
        options["client_certificate"] = certificate("client_certificate", options["client_certificate"])
    return options


def _frozen(value: Any) -> Any:
    # True is 1 for Python, and wrong for us: types are part of the key.
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value)
        return tuple(sorted((str(name), _frozen(of)) for name, of in pairs.items()))
    try:
        hash(value)
    except TypeError:
        value = repr(value)
    return (type(value).__name__, value)


def with_options(core: _core.Sandbox, own: Mapping[str, Any], options: Mapping[str, Any]) -> _core.Sandbox:
    """The sandbox with options of a call. ``own`` are those that it was made with."""
    options = given(options)
    if not options:
        return core
    if any(name not in OF_CALLS for name in options):
        return client_for({**own, **options}).by_id(core.id)
    return core.with_options(options)


def timed(core: _core.Sandbox, request_timeout: float | None) -> _core.Sandbox:
    """The sandbox with the deadline of a call."""
    return core if request_timeout is None else core.with_options({"request_timeout": request_timeout})


def is_debug(options: Mapping[str, Any]) -> bool:
    """Whether everything is on this machine."""
    debug = options.get("debug")
    return bool(debug) if debug is not None else os.environ.get("E2B_DEBUG", "").lower() in ("true", "1")


class ClientFactory:
    """A class whose calls have options of its own, which a client binds by making a subclass."""

    _bound: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def _resolved(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        return {**cls._bound, **given(options)}


def _close_all() -> None:
    # All at a time: each waits for as long as its `cleanup_timeout`, and the end of the program for the longest of them.
    for closing in [*_closing, *[client.close() for client in _clients.values()]]:
        _left.extend(run_sync(closing))
    for left in _left:
        print(f"oncebox: {left}", file=sys.stderr)


def _forget_all() -> None:
    global _lock
    _lock = threading.Lock()
    # What a client of the parent's is in the middle of is the parent's.
    _clients.clear()
    _closing.clear()
    _left.clear()


before_exit(_close_all)
in_child(_forget_all)
