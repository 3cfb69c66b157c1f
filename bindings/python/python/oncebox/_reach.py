"""How servers are reached, from what a user gives to what the extension module takes."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from .exceptions import InvalidArgumentException

#: What PEM text has, and no path.
_PEM = "-----BEGIN "

#: The shortest private key in PEM, Ed25519's, has this many letters. A text as long as that is not repeated in a message.
_SHORTEST_KEY = 64

#: What may be base64, of either alphabet, and so a bare key.
_BASE64 = re.compile(r"[\w+/=\s-]*", re.ASCII)


@dataclass(frozen=True)
class ProxyConfig:
    """A proxy, and what it is told. What may be a secret is not shown.

    :param url: a URL (http, https, socks5, socks5h), which may hold user and password
    :param auth: user and password
    :param headers: sent to the proxy, in this order; a SOCKS proxy has none
    :param exceptions: hosts that are reached without it, as in ``NO_PROXY``: ``"localhost, .internal, 10.0.0.0/8"``
    """

    url: str = field(repr=False)
    auth: tuple[str, str] | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    exceptions: str | None = None

    def arguments(self) -> tuple[str, tuple[str, str] | None, list[tuple[str, str]], str | None]:
        """What the extension module takes.

        :raises InvalidArgumentException: when something in it is of another type
        """
        auth, headers = self.auth, [tuple(pair) for pair in self.headers]
        texts = [self.url, *(auth or ()), *(part for pair in headers for part in pair)]
        is_pair = auth is None or (isinstance(auth, tuple) and len(auth) == 2)
        if not is_pair or any(len(pair) != 2 for pair in headers) or not all(isinstance(text, str) for text in texts):
            raise InvalidArgumentException("proxy: url, auth and headers are a str, a pair of str, and pairs of str")
        if self.exceptions is not None and not isinstance(self.exceptions, str):
            raise InvalidArgumentException("proxy: exceptions are a str")
        return self.url, auth, [(name, value) for name, value in headers], self.exceptions


def proxy_of(proxy: Any) -> ProxyConfig | None:
    """What an option `proxy` means: a URL, ours, or httpx's own."""
    if proxy is None or isinstance(proxy, ProxyConfig):
        return proxy
    if isinstance(proxy, str):
        return ProxyConfig(proxy)
    # Not imported: who has one of its has imported it.
    httpx: Any = sys.modules.get("httpx")
    if httpx is not None and isinstance(proxy, httpx.URL):
        return ProxyConfig(str(proxy))
    if httpx is not None and isinstance(proxy, httpx.Proxy):
        if proxy.ssl_context is not None:
            raise InvalidArgumentException(
                "proxy: an ssl_context of its own is not supported; give the certificates that the transport trusts"
            )
        auth = None if proxy.auth is None else (str(proxy.auth[0]), str(proxy.auth[1]))
        return ProxyConfig(str(proxy.url), auth, tuple(proxy.headers.items()))
    raise InvalidArgumentException(
        f"proxy: a URL, a ProxyConfig or an httpx.Proxy is wanted, not {type(proxy).__name__}"
    )


def pem(name: str, given: Any, *, is_key: bool = False) -> bytes:
    """Certificates or a key in PEM form: as they are given, or from the file that is named."""
    if isinstance(given, bytes):
        return given
    if isinstance(given, str) and _PEM in given:
        return given.encode()
    if not isinstance(given, (str, os.PathLike)):
        raise InvalidArgumentException(f"{name}: PEM or a path is wanted, not {type(given).__name__}")
    path = os.fspath(cast("str | os.PathLike[str]", given))
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        # What is no path may be a key without its first line.
        may_be_key = len(path) >= _SHORTEST_KEY or (is_key and _BASE64.fullmatch(path) is not None)
        shown = f" {path!r}" if isinstance(given, os.PathLike) or not may_be_key else ""
        why = getattr(error, "strerror", None) or error
        raise InvalidArgumentException(f"{name}: the file{shown} cannot be read: {why}") from None


def certificate(name: str, given: Any) -> tuple[bytes, bytes]:
    """A certificate and its key."""
    parts: list[Any] = list(cast("tuple[Any, ...]", given)) if isinstance(given, (tuple, list)) else []
    if len(parts) != 2:
        raise InvalidArgumentException(f"{name}: two are wanted, the certificate and its key, each PEM or a path")
    return pem(name, parts[0]), pem(name, parts[1], is_key=True)
