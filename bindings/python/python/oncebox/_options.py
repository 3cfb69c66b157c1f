"""Options of clients and calls, and the clients that have them."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, ClassVar, TypedDict, cast

from . import _core
from ._run import before_exit, in_child, run_sync
from ._types import HttpVersion, ProxyTypes
from .exceptions import InvalidArgumentException


class ApiParams(TypedDict, total=False):
    """Options that every call takes, in place of those of its client. What is not given comes from the environment."""

    request_timeout: float | None
    """The deadline of a call over all its attempts, in seconds; 0 is none. Default 60."""
    retries: int | None
    """Retries of a control-plane call after an answer or an unknown outcome, 0 to 1000. Default 3."""
    headers: dict[str, str] | None
    """The old name of ``api_headers``."""
    api_headers: dict[str, str] | None
    """Headers for requests to the control plane."""
    api_key: str | None
    """The API key. Default: ``E2B_API_KEY``."""
    validate_api_key: bool | None
    """Has no effect, as in the official SDK."""
    domain: str | None
    """The provider's domain. Default: ``E2B_DOMAIN``, else ``e2b.app``."""
    api_url: str | None
    """Where the control plane is. Default: ``E2B_API_URL``."""
    debug: bool | None
    """Everything is on this machine. Default: ``E2B_DEBUG``."""
    proxy: ProxyTypes | None
    """The proxy to all servers. Default: ``HTTP_PROXY`` and its kin."""
    sandbox_url: str | None
    """Where all sandboxes are reached. Default: ``E2B_SANDBOX_URL``."""
    http_version: HttpVersion | None
    """``"1.1"`` or ``"2"``. Default: ``E2B_HTTP_VERSION``, else what the server chooses."""
    volume_api_url: str | None
    """Where the content of volumes is. Default: ``E2B_VOLUME_API_URL``. Ours."""
    connection_retries: int | None
    """Repeats after failed connects and refusals, 0 to 1000. Default: ``E2B_CONNECTION_RETRIES``, else 3. Ours."""
    settle: float | None
    """Seconds that look-ups must stay empty before a create counts as not carried out. Default 10. Ours."""
    lookups: int | None
    """Look-ups that a create may spend on finding out what an unknown outcome did. Default 16. Ours."""
    idempotency_keys: str | None
    """Whether the server honours idempotency keys: ``auto``, ``honoured``, ``ignored``. Default ``auto``. Ours."""
    cleanup_timeout: float | None
    """Seconds that clearing away after a create may take. Default 30. Ours."""


#: Options that change a call alone; others make it the call of another client.
_OF_CALLS = ("request_timeout", "retries", "connection_retries", "headers", "api_headers", "api_key")

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
_lock = threading.Lock()


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given: ``None`` is as if it were not there."""
    return {name: value for name, value in options.items() if value is not None and name != "validate_api_key"}


def client_for(options: Mapping[str, Any]) -> _core.Client:
    """The client of these options: one for all calls that have the same, in the same environment."""
    options = given(options)
    if "proxy" in options:
        options["proxy"] = proxy_url(options["proxy"])
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
            _clients.popitem(last=False)
    return client


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
    if any(name not in _OF_CALLS for name in options):
        return client_for({**own, **options}).by_id(core.id)
    return core.with_options(options)


def timed(core: _core.Sandbox, request_timeout: float | None) -> _core.Sandbox:
    """The sandbox with the deadline of a call."""
    return core if request_timeout is None else core.with_options({"request_timeout": request_timeout})


def proxy_url(proxy: Any) -> str:
    """A proxy as a URL."""
    if isinstance(proxy, str):
        return proxy
    if getattr(proxy, "ssl_context", None) is not None:
        raise InvalidArgumentException("proxy: one with an SSL context of its own cannot be used here")
    if type(proxy).__module__.partition(".")[0] != "httpx":
        raise InvalidArgumentException(f"proxy: {proxy!r} is no URL as a str, no httpx.URL and no httpx.Proxy")
    url = str(getattr(proxy, "url", proxy))
    auth = getattr(proxy, "raw_auth", None) or getattr(proxy, "auth", None)
    if auth:
        from urllib.parse import quote

        user, password = (part.decode() if isinstance(part, bytes) else str(part) for part in auth)
        scheme, _, rest = url.partition("://")
        url = f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{rest}"
    return url


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
    for client in list(_clients.values()):
        for left in run_sync(client.close()):
            print(f"oncebox: {left}", file=sys.stderr)


def _forget_all() -> None:
    global _lock
    _lock = threading.Lock()
    # What a client of the parent's is in the middle of is the parent's.
    _clients.clear()


before_exit(_close_all)
in_child(_forget_all)
