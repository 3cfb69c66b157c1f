"""The options of clients and calls, by name."""

from __future__ import annotations

import os
from typing import Any, Literal, TypedDict

from ._policy import RetryPolicy
from ._types import HttpVersion, ProxyTypes

Pem = str | bytes | os.PathLike[str]
"""Certificates or a key in PEM form, or the path of a file that has them."""

IdempotencyKeys = Literal["auto", "honoured", "ignored"]
RepeatUnknown = Literal["never", "safe", "permitted"]


class PolicyParams(TypedDict, total=False):
    """What decides about repeats. All are ours, but ``retries``; each goes before the same one of ``policy``."""

    policy: Literal["default", "e2b_2_52", "e2b_2_63"] | RetryPolicy | None
    """All of these at once: a preset's name, or a :class:`RetryPolicy`. Default: what stands below."""
    retries: int | None
    """Retries of a control-plane call after an answer or an unknown outcome, 0 to 1000. Default 3."""
    connection_retries: int | None
    """Repeats after failed connects and refusals, 0 to 1000. Default: ``E2B_CONNECTION_RETRIES``, else 3."""
    trust_service_unavailable: bool | None
    """503 is a rejection and retried for every operation (RFC 9110 §15.6.4). Off: like 502. Default on."""
    trust_bad_gateway: bool | None
    """502 is treated like 503. Off: retried with a permit only. Default off."""
    retry_gateway_timeout: bool | None
    """504 is retried with a permit. Off: returned. Default off."""
    retry_request_timeout_status: bool | None
    """408 is retried with a permit (RFC 9110 §15.5.9). Off: returned. Default on."""
    replay_misdirected_and_early: bool | None
    """421 and 425 are refusals, each replayed once (RFC 9110 §15.5.20, RFC 8470 §5.2). Default on."""
    retry_rate_limit_without_hint: bool | None
    """429 is retried also without a usable ``Retry-After``. Default off."""
    honor_should_retry: bool | None
    """``Should-Retry`` is obeyed. Default on."""
    retry_budget: bool | None
    """Retries cost tokens of a budget that all calls to an origin share. Default on."""
    repeat_unknown: RepeatUnknown | None
    """Which unknown outcomes may be repeated: none, those of safe methods, those with any permit (the default)."""
    retry_after_jitter: float | None
    """The largest fraction of a ``Retry-After`` that is added at random, from 0 to 1. Default 0."""
    lookups: int | None
    """Single attempts that a create may spend on finding out what an unknown outcome did. Default 16."""
    idempotency_keys: IdempotencyKeys | None
    """Whether the server honours idempotency keys on creates. Default ``auto``: not before it has shown that it does."""
    settle: float | None
    """Seconds that look-ups must stay empty, from the loss on, before a create counts as not carried out. Default 10."""
    cleanup_timeout: float | None
    """Seconds that clearing away after a create may take. Default 30."""


class TransportParams(TypedDict, total=False):
    """How servers are reached. All are ours, but ``proxy`` and ``http_version``. Times are in seconds; 0 is no limit."""

    proxy: ProxyTypes | None
    """The proxy to all servers: a URL (http, https, socks5, socks5h), a :class:`ProxyConfig`, an ``httpx.URL`` or an
    ``httpx.Proxy``. Default: ``HTTP_PROXY`` and its kin."""
    no_proxy: bool | None
    """No proxy, whatever the environment says. Default off."""
    http_version: HttpVersion | None
    """``"1.1"`` or ``"2"``. Default: ``E2B_HTTP_VERSION``, else what the server chooses; without TLS 1.1."""
    root_certificates: Pem | None
    """Trusted besides the platform's: a private authority's. ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` are read, too."""
    client_certificate: tuple[Pem, Pem] | None
    """The certificate that is shown to servers which ask for one, and its key."""
    danger_accept_invalid_certificates: bool | None
    """Accepts any certificate. For tests: whoever sits in between can read and change everything, the API key included.
    Default off."""
    attempt_timeout: float | None
    """The longest that one attempt may take. Default 0: as long as the call."""
    read_idle_timeout: float | None
    """Ends a file that is read as a stream when nothing came for this long. Commands have a watchdog of their own.
    Default 60."""
    write_idle_timeout: float | None
    """Ends an upload when the server took none of what was at hand for this long. Default 60."""
    dns_timeout: float | None
    """How long a name's addresses may take to come. Default 10."""
    connect_timeout: float | None
    """How long it may take until one of a host's addresses answers, over all of them. Default 30."""
    tls_timeout: float | None
    """How long a TLS handshake may take. Default 10."""
    proxy_timeout: float | None
    """How long a proxy may take to open a tunnel. Default 30."""
    max_connections: int | None
    """Connections to one origin, at most; from 1. Default: ``E2B_MAX_CONNECTIONS``, else 200."""
    max_connection_age: float | None
    """When an HTTP/2 connection is replaced, give or take a tenth. Default 0: it is not."""
    keepalive_expiry: float | None
    """How long an idle connection is kept. Default: ``E2B_KEEPALIVE_EXPIRY``, else 300, and for HTTP/1.1 4."""
    tcp_keepalive: float | None
    """How long a TCP connection may be silent before the kernel asks whether the peer lives; 0: it never does. Default 30."""
    ping_interval: float | None
    """How long an HTTP/2 connection with open streams may be silent before it is asked whether it lives; 0: it never is.
    Default 20."""
    ping_timeout: float | None
    """How long it may then take to answer. Default 10."""
    initial_streams: int | None
    """Streams on an origin's first HTTP/2 connection before its SETTINGS have come; from 1. Default 10."""
    replay_buffer_limit: int | None
    """How much of a streamed body is kept to be sent again, in bytes. Default 65,536."""
    max_response_size: int | None
    """The largest response that is read whole, in bytes. Default 64 MiB."""
    unix_socket: str | os.PathLike[str] | None
    """The path of a socket over which everything is reached, without a proxy. Default: none."""
    trace_context: bool | None
    """Sends W3C Trace Context's ``traceparent`` with each attempt. Default off."""
    seed: int | None
    """Makes the jitter of waits repeatable. Default: it is not."""


class ApiParams(PolicyParams, TransportParams, total=False):
    """Options that every call takes, in place of those of its client. What is not given comes from the environment."""

    request_timeout: float | None
    """The deadline of a call over all its attempts, in seconds; 0 is none. Default 60."""
    headers: dict[str, str] | None
    """The old name of ``api_headers``."""
    api_headers: dict[str, str] | None
    """Headers for requests to the control plane."""
    request_headers: dict[str, str] | None
    """Headers for all requests, to the control plane, volumes and sandboxes. What runs in a sandbox may see them. Ours."""
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
    sandbox_url: str | None
    """Where all sandboxes are reached. Default: ``E2B_SANDBOX_URL``."""
    volume_api_url: str | None
    """Where the content of volumes is. Default: ``E2B_VOLUME_API_URL``. Ours."""


#: Options that change a call alone; others make it the call of another client.
OF_CALLS = ("request_timeout", "retries", "connection_retries", "headers", "api_headers", "request_headers", "api_key")

#: Options that say nothing of how the content of a volume is reached.
OF_CONTROL_PLANE = (
    *("api_key", "api_url", "sandbox_url", "headers", "api_headers", "request_headers"),
    *("retries", "lookups", "settle", "cleanup_timeout", "idempotency_keys"),
)


def given(options: Any) -> dict[str, Any]:
    """The options that were given: ``None`` is as if it were not there."""
    return {name: value for name, value in options.items() if value is not None and name != "validate_api_key"}
