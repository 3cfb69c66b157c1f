"""Every option of a client: what it may be, what is refused, and where."""

from __future__ import annotations

import base64
import math
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import oncebox
from oncebox import E2B, ApiParams, ConnectionConfig, InvalidArgumentException, ProxyConfig, RetryPolicy
from sides import Side, do

FLAGS = {
    *("trust_service_unavailable", "trust_bad_gateway", "retry_gateway_timeout", "retry_request_timeout_status"),
    *("replay_misdirected_and_early", "retry_rate_limit_without_hint", "honor_should_retry", "retry_budget"),
    *("no_proxy", "danger_accept_invalid_certificates", "trace_context", "debug"),
}
RETRIES = {"retries", "connection_retries"}
COUNTS = {"lookups", "max_connections", "initial_streams", "replay_buffer_limit", "max_response_size", "seed"}
TIMES = {
    *("request_timeout", "attempt_timeout", "read_idle_timeout", "write_idle_timeout", "dns_timeout"),
    *("connect_timeout", "tls_timeout", "proxy_timeout", "max_connection_age", "keepalive_expiry", "tcp_keepalive"),
    *("ping_interval", "ping_timeout", "settle", "cleanup_timeout"),
}
WORDS = {"policy", "repeat_unknown", "idempotency_keys", "http_version"}
TEXTS = {"api_key", "domain", "api_url", "sandbox_url", "volume_api_url"}
HEADERS = {"headers", "api_headers", "request_headers"}
FILES = {"root_certificates", "client_certificate"}
OTHERS = {"proxy", "unix_socket", "retry_after_jitter", "validate_api_key"}

#: What no option of its kind may be.
NO_NUMBER = ["3", b"3", [], {}, (), math.nan, math.inf, -math.inf, -1, True, False, 10**400, "x" * 10_000]
WRONG: list[tuple[str, Any]] = [
    *((name, value) for name in sorted(FLAGS) for value in (1, 0, "true", "", 1.0, [], math.nan)),
    *((name, value) for name in sorted(RETRIES) for value in (*NO_NUMBER, 1.0, 1001, 2**64)),
    *((name, value) for name in sorted(COUNTS) for value in (*NO_NUMBER, 1.0, 2**64)),
    *(("max_connections", value) for value in (0, 2**32)),
    *(("initial_streams", value) for value in (0, 2**32)),
    *((name, value) for name in sorted(TIMES) for value in (*NO_NUMBER, -0.5, 2**31, 1e300)),
    *((name, value) for name in sorted(WORDS) for value in ("", "no such", 1, True, 2.0, [], "x" * 10_000)),
    *((name, value) for name in sorted(TEXTS) for value in (1, True, b"x", [], math.nan)),
    *((name, value) for name in sorted(HEADERS) for value in ("a", 1, True, ["a"], {"a": 1}, {1: "a"}, {"a b": "c"})),
    *((name, value) for name in sorted(FILES) for value in (1, True, [], "/no/such/file", "\0", "", "x" * 10_000)),
    *(("root_certificates", value) for value in (b"", b"no PEM", "-----BEGIN CERTIFICATE-----\nno\n")),
    *(("client_certificate", value) for value in ((b"",), (b"no", b"PEM"), ("/none", "/none"), (1, 2))),
    *(("retry_after_jitter", value) for value in (*NO_NUMBER, 1.1, -0.1)),
    *(("proxy", value) for value in (1, True, "ftp://a", "http://a:b", "", [], ProxyConfig("http://a", (1, 2)))),  # type: ignore[arg-type]
    ("proxy", ProxyConfig("http://a", headers=(("a b", "c"),))),
    ("proxy", ProxyConfig("http://a", exceptions=1)),  # type: ignore[arg-type]
    *(("unix_socket", value) for value in (1, True, [], b"x")),
    *(("api_url", value) for value in ("", "no url", "ftp://a")),
    *(("domain", value) for value in ("", "http://a", "a b")),
]


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:40]}…{len(text)}"


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a server that must not be asked."""
    for variable in ("E2B_API_KEY", "E2B_API_URL", "E2B_DEBUG", "E2B_DOMAIN"):
        monkeypatch.delenv(variable, raising=False)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_every_option_is_tried_here() -> None:
    known = set(ApiParams.__annotations__)
    assert known == FLAGS | RETRIES | COUNTS | TIMES | WORDS | TEXTS | HEADERS | FILES | OTHERS
    assert {name for name, _ in WRONG} == known - {"validate_api_key"}


@pytest.mark.parametrize(("name", "value"), WRONG, ids=[f"{name}={shown(value)}" for name, value in WRONG])
def test_a_wrong_value_is_refused_by_name_before_anything_is_sent(name: str, value: Any, nobody: str) -> None:
    options: dict[str, Any] = {"api_key": "k", "api_url": nobody, name: value}
    makers: list[Callable[..., object]] = [E2B, oncebox.Sandbox.create, oncebox.Volume.create, ConnectionConfig]
    for make in makers:
        arguments = ("name",) if make == oncebox.Volume.create else ()
        with pytest.raises(InvalidArgumentException) as caught:
            make(*arguments, **options)
        message = str(caught.value)
        assert message.startswith((name, name.replace("_", " "))), message
        assert len(message) < 400, "a value of any length is in it"


@pytest.mark.parametrize("name", ["retrise", "verify", "keepalive", "policies", "_policy"])
async def test_an_unknown_option_is_refused(side: Side, nobody: str, name: str) -> None:
    options: dict[str, Any] = {"api_key": "k", "api_url": nobody, name: 1}
    for make in (side.Sandbox.create, side.Sandbox.resolve, side.Secret.exists, side.Volume.list):
        arguments = () if make in (side.Sandbox.create, side.Volume.list) else ("a" * 32,)
        with pytest.raises(InvalidArgumentException, match=f"{name}: there is no such option"):
            await do(make(*arguments, **options))
    for make in (E2B, ConnectionConfig, side.Sandbox.list):
        with pytest.raises(InvalidArgumentException, match=f"{name}: there is no such option"):
            make(**options)


def test_what_may_be_a_key_is_in_no_message(nobody: str) -> None:
    secret = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 20
    for value in (secret, f"-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----"):
        with pytest.raises(InvalidArgumentException) as caught:
            E2B(api_key="k", api_url=nobody, client_certificate=(value, value))
        assert "MIIE" not in str(caught.value)
    proxy = ProxyConfig("ftp://user:hunter2@a", ("user", "hunter2"), (("x", "hunter2"),))
    with pytest.raises(InvalidArgumentException) as caught:
        E2B(api_key="k", api_url=nobody, proxy=proxy)
    assert "hunter2" not in str(caught.value) + repr(proxy)


@pytest.mark.parametrize("name", sorted(FLAGS - {"debug"}))
def test_flags(name: str, nobody: str) -> None:
    for value in (True, False, None):
        E2B(api_key="k", api_url=nobody, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *((name, (0, 1000)) for name in sorted(RETRIES)),
        *((name, (0, 0.5, 60, 2**31 - 1)) for name in sorted(TIMES)),
        ("lookups", (0, 16)),
        ("max_connections", (1, 2**32 - 1)),
        ("initial_streams", (1, 100)),
        ("replay_buffer_limit", (0, 2**40)),
        ("max_response_size", (0, 2**40)),
        ("seed", (0, 2**64 - 1)),
        ("retry_after_jitter", (0, 1, 0.5)),
        ("policy", ("default", "e2b_2_52", "e2b_2_63", RetryPolicy(), RetryPolicy.e2b_2_52(retries=7))),
        ("repeat_unknown", ("never", "safe", "permitted")),
        ("idempotency_keys", ("auto", "honoured", "ignored")),
        ("http_version", ("1.1", "2")),
        ("proxy", ("socks5h://a:1", "http://u:p@a", ProxyConfig("http://a", ("u", "p"), (("x", "y"),), "10.0.0.0/8"))),
        ("unix_socket", ("/a/b",)),
    ],
)
def test_what_they_may_be(name: str, values: tuple[Any, ...], nobody: str) -> None:
    for value in values:
        E2B(api_key="k", api_url=nobody, **{name: value})  # type: ignore[arg-type]
        if name not in ("retries", "proxy", "http_version", "request_timeout"):
            assert getattr(ConnectionConfig(api_key="k", api_url=nobody, **{name: value}), name) == value


def test_a_proxy_and_none_at_once_are_refused(nobody: str) -> None:
    with pytest.raises(InvalidArgumentException, match="no_proxy: a proxy is given, too"):
        E2B(api_key="k", api_url=nobody, proxy="http://a", no_proxy=True)


def test_clients_whose_options_differ_by_type_alone_are_not_the_same(nobody: str) -> None:
    E2B(api_key="k", api_url=nobody, retries=1)
    with pytest.raises(InvalidArgumentException, match="retries: True"):
        E2B(api_key="k", api_url=nobody, retries=True)


def shown_for(key: str | Path, option: str = "client_certificate") -> str:
    """What the error says when a key is given where a file is wanted."""
    given: Any = (b"", key) if option == "client_certificate" else key
    with pytest.raises(InvalidArgumentException, match=f"^{option}: the file.* cannot be read: ") as caught:
        ConnectionConfig(api_key="k", **{option: given})
    return str(caught.value)


@pytest.mark.parametrize("size", [32, 48, 121, 138], ids=["seed", "Ed25519", "P-256 of SEC 1", "P-256"])
def test_a_key_without_its_first_line_was_shown(size: int) -> None:
    # Bytes of the length of such a key; what is in them does not matter.
    raw = bytes(range(3, 3 + size))
    for key in (
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
        base64.encodebytes(raw).decode(),
        base64.b64encode(raw).decode() + "\n-----END PRIVATE KEY-----\n",
    ):
        assert key.strip()[:16] not in shown_for(key)
        if size > 32:
            assert key.strip()[:16] not in shown_for(key, "root_certificates")


def test_a_path_that_is_none_is_shown_where_it_is_no_key(tmp_path: Path) -> None:
    assert "'/nowhere/ca'" in shown_for("/nowhere/ca", "root_certificates")
    assert "'/nowhere/client.key'" in shown_for("/nowhere/client.key")
    assert "'/nowhere/client'" not in shown_for("/nowhere/client")
    long = tmp_path / ("long" * 20)
    assert repr(str(long)) in shown_for(long)
    assert repr(str(long)) not in shown_for(str(long))
