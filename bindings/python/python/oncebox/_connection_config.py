"""The options of a sandbox, for who wants to look at them."""

from __future__ import annotations

import logging
import os
from typing import Any, ClassVar, cast

from ._options import client_for, is_debug
from ._params import given
from ._types import HttpVersion, ProxyTypes


class ConnectionConfig:
    """Options as they hold: those that were given, else the environment's, else the defaults.

    It is for looking: what is sent, and how often, is decided by the client from the same options. Those that
    the official SDK has not (in :class:`ApiParams` that are ours) are attributes where they were given.

    :raises InvalidArgumentException: for an option that breaks its rule, or that there is not
    """

    envd_port = 49983
    _integration: ClassVar[str | None] = None

    def __init__(
        self,
        domain: str | None = None,
        debug: bool | None = None,
        api_key: str | None = None,
        validate_api_key: bool | None = None,
        api_url: str | None = None,
        sandbox_url: str | None = None,
        request_timeout: float | None = None,
        headers: dict[str, str] | None = None,
        api_headers: dict[str, str] | None = None,
        extra_sandbox_headers: dict[str, str] | None = None,
        proxy: ProxyTypes | None = None,
        logger: logging.Logger | None = None,
        *,
        retries: int | None = None,
        http_version: HttpVersion | None = None,
        **more: Any,
    ) -> None:
        own: dict[str, Any] = {"domain": domain, "debug": debug, "api_key": api_key, "api_url": api_url}
        own |= {"sandbox_url": sandbox_url, "request_timeout": request_timeout, "headers": headers}
        own |= {"api_headers": api_headers, "proxy": proxy, "retries": retries, "http_version": http_version}
        # Checked where they are checked for who uses them. The key may come with the calls.
        client_for({**own, **more, "keyless": True})
        environment = os.environ.get
        self.debug: bool = is_debug({"debug": debug})
        self.domain: str = domain or environment("E2B_DOMAIN") or "e2b.app"
        self.api_key: str | None = api_key or environment("E2B_API_KEY")
        self.validate_api_key = validate_api_key
        at = "http://localhost:3000" if self.debug else f"https://api.{self.domain}"
        self.api_url: str = api_url or environment("E2B_API_URL") or at
        self.sandbox_url: str | None = sandbox_url or environment("E2B_SANDBOX_URL")
        self.request_timeout: float | None = self._timeout(request_timeout, 60)
        self.headers: dict[str, str] = {**(headers or {}), **(api_headers or {})}
        self._sandbox_headers: dict[str, str] = dict(extra_sandbox_headers or {})
        self.proxy = proxy
        self.logger = logger
        for name, value in given(more).items():
            setattr(self, name, value)
        self.retries: int = 3 if retries is None else retries
        self.http_version = http_version or cast("HttpVersion | None", environment("E2B_HTTP_VERSION"))

    @property
    def sandbox_headers(self) -> dict[str, str]:
        """Headers of requests to sandboxes that were asked for."""
        return dict(self._sandbox_headers)

    @staticmethod
    def _timeout(timeout: float | None, default: float | None) -> float | None:
        if timeout is None:
            return default
        return None if timeout == 0 else timeout

    def get_request_timeout(self, request_timeout: float | None = None) -> float | None:
        """The deadline of a call in seconds; ``None``: there is none."""
        return self._timeout(request_timeout, self.request_timeout)

    def get_host(self, sandbox_id: str, sandbox_domain: str, port: int) -> str:
        """The host name under which a port of a sandbox is reached from outside."""
        return f"localhost:{port}" if self.debug else f"{port}-{sandbox_id}.{sandbox_domain}"

    def __repr__(self) -> str:
        return f"ConnectionConfig(domain={self.domain!r}, api_url={self.api_url!r})"
