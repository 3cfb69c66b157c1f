"""Every option does what it says, on both sides of the API."""

from __future__ import annotations

import itertools
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import oncebox
from oncebox import E2B, NotDoneException, Outcome, ProxyConfig, RetryPolicy
from oncebox.testing import LocalServer
from sides import Side, do


def answers(on: str, code: int, when: str = "before", times: int = 1, **headers: str) -> dict[str, Any]:
    """A fault document: so many answers of this status."""
    status: dict[str, Any] = {"code": code, "when": when}
    if headers:
        status["headers"] = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"rules": [{"on": [on], "times": times, "fault": {"status": status}}]}


SWITCHES: list[tuple[str, Any, Any, dict[str, Any], str]] = [
    # The option, the value with which the call succeeds, the one with which it fails, what the server does, the call.
    ("trust_service_unavailable", True, False, answers("forkSandbox", 503), "fork"),
    ("trust_bad_gateway", True, False, answers("forkSandbox", 502), "fork"),
    ("retry_gateway_timeout", True, False, answers("getSandbox", 504), "get_info"),
    ("retry_request_timeout_status", True, False, answers("getSandbox", 408), "get_info"),
    ("replay_misdirected_and_early", True, False, answers("getSandbox", 425), "get_info"),
    ("retry_rate_limit_without_hint", True, False, answers("getSandbox", 429), "get_info"),
    ("honor_should_retry", False, True, answers("getSandbox", 503, should_retry="false"), "get_info"),
    ("repeat_unknown", "safe", "never", answers("getSandbox", 502), "get_info"),
    ("retries", 1, 0, answers("getSandbox", 503), "get_info"),
    ("policy", "e2b_2_63", "default", answers("getSandbox", 504), "get_info"),
    ("policy", RetryPolicy(retry_gateway_timeout=True), RetryPolicy(retries=0), answers("getSandbox", 504), "get_info"),
]


#: Numbers for addresses that no test has asked before.
FRESH = itertools.count(1)

REFUSALS = (oncebox.SandboxException, oncebox.ServiceBusyException, oncebox.RateLimitException)


@pytest.mark.parametrize(("name", "works", "fails", "faults", "call"), SWITCHES, ids=[case[0] for case in SWITCHES])
async def test_what_decides_about_repeats(
    side: Side, local_server: LocalServer, name: str, works: Any, fails: Any, faults: dict[str, Any], call: str
) -> None:
    sandbox = await do(side.Sandbox.create())
    try:
        for value, succeeds in ((works, True), (fails, False)):
            # Bound to a client, given to a call of the class, and given to a call of an instance.
            bound = side.of(E2B(**{**local_server.options, name: value}), "Sandbox")
            calls = [(getattr(bound, call), (sandbox.sandbox_id,), {})]
            calls.append((getattr(side.Sandbox, call), (sandbox.sandbox_id,), {name: value}))
            calls.append((getattr(sandbox, call), (), {name: value}))
            for function, arguments, options in calls:
                local_server.set_faults(faults)
                if succeeds:
                    await do(function(*arguments, **options))
                else:
                    with pytest.raises(REFUSALS) as caught:
                        await do(function(*arguments, **options))
                    assert len(caught.value.attempts) == 1
    finally:
        local_server.clear_faults()
        await do(sandbox.kill())


async def test_a_switch_goes_before_the_same_one_of_a_policy(side: Side, local_server: LocalServer) -> None:
    for policy in ("e2b_2_63", RetryPolicy(retry_gateway_timeout=True)):
        local_server.set_faults(answers("getSecret", 504))
        with pytest.raises(oncebox.SecretException):
            await do(side.Secret.get_info("a", policy=policy, retry_gateway_timeout=False))
        with pytest.raises(oncebox.SecretNotFoundException):
            await do(side.Secret.get_info("a", policy=policy))


async def test_switches_leave_the_environment_its_say(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"api_key": "k"}
    monkeypatch.setenv("E2B_CONNECTION_RETRIES", "1")
    for more, attempts in (
        ({}, 2),
        ({"trust_bad_gateway": True}, 2),
        ({"policy": RetryPolicy(connection_retries=0)}, 1),
    ):
        # Nobody listens there, and nobody was dialled there before: waits between dials grow by origin.
        options["api_url"] = f"http://127.1.{next(FRESH)}.1:1"
        with pytest.raises(NotDoneException) as caught:
            await do(side.Secret.exists("a", **options, **more))
        assert len(caught.value.attempts) == attempts, more
    monkeypatch.setenv("E2B_CONNECTION_RETRIES", "many")
    with pytest.raises(oncebox.InvalidArgumentException, match="E2B_CONNECTION_RETRIES: many"):
        E2B(**options, trust_bad_gateway=True)


async def test_a_budget_ends_retries_and_is_an_option(side: Side) -> None:
    # A server of its own: the budget is the origin's.
    with LocalServer(faults={}) as server:
        server.set_faults(answers("getSecret", 503, times=10_000, retry_after="0"))
        for budget in (False, True):
            with pytest.raises(oncebox.ServiceBusyException) as caught:
                await do(side.Secret.get_info("a", **server.options, retries=150, retry_budget=budget))
            assert (len(caught.value.attempts) == 151) is not budget


async def test_jitter_is_repeatable_by_its_seed(side: Side, local_server: LocalServer) -> None:
    async def waited(seed: int) -> float | None:
        local_server.set_faults(answers("getSecret", 429, times=2, retry_after="100"))
        with pytest.raises(oncebox.RateLimitException) as caught:
            await do(side.Secret.get_info("a", retry_after_jitter=1, seed=seed, request_timeout=10))
        retry_after: float | None = caught.value.retry_after
        return retry_after

    # It would be over the deadline, so that the wait that was decided on is on the exception.
    first, again, other = await waited(1), await waited(1), await waited(2)
    assert first == again
    assert first is not None
    assert other is not None
    assert 100 <= first <= 200


async def test_retries_of_a_call_about_a_volumes_content(side: Side, local_server: LocalServer) -> None:
    volume = await do(side.Volume.create(f"v{id(side)}"))
    local_server.set_faults(answers("writeVolumeFile", 503))
    with pytest.raises(REFUSALS):
        await do(volume.write_file("/a", "x"))
    local_server.set_faults(answers("writeVolumeFile", 503))
    await do(volume.write_file("/a", "x", retries=1))
    local_server.set_faults({"rules": [{"on": ["readVolumeFile"], "fault": {"latency": 5}}]})
    with pytest.raises(oncebox.SandboxException, match="request_timeout"):
        await do(volume.read_file("/a", request_timeout=0.2))
    await do(side.Volume.destroy(volume.volume_id))


class Recorder:
    """A server that answers everything with a list, and remembers what it was asked."""

    def __init__(self, address: str | tuple[str, int], kind: type[socketserver.BaseServer]) -> None:
        asked: list[tuple[str, dict[str, str]]] = []
        self.asked = asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                self.send_response(200)
                self.send_header("content-length", "3")
                self.end_headers()
                self.wfile.write(b"[ ]")

            def do_CONNECT(self) -> None:
                asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                self.send_error(403)

            def log_message(self, *_: object) -> None:
                pass

            def address_string(self) -> str:
                return "nobody"

        self._server: Any = kind(address, Handler)  # type: ignore[arg-type, call-arg]
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    for variable in ("E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_DEBUG", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    server = Recorder(("127.0.0.1", 0), socketserver.ThreadingTCPServer)
    yield server
    server.close()


async def test_headers_of_all_requests_and_of_the_control_planes(side: Side, recorder: Recorder) -> None:
    options: dict[str, Any] = {"api_key": "k", "api_url": recorder.url, "sandbox_url": recorder.url}
    options |= {"request_headers": {"x-all": "1"}, "api_headers": {"x-api": "2"}, "trace_context": True}
    bound = side.of(E2B(**options), "Secret")
    await do(bound.list().next_items())
    await do(bound.list().next_items(request_headers={"x-all": "3"}))
    (_, first), (_, second) = recorder.asked
    assert (first["x-all"], first["x-api"], second["x-all"], second["x-api"]) == ("1", "2", "3", "2")
    assert len(first["traceparent"]) == 55
    del options["trace_context"]
    await do(side.Secret.list(**options).next_items())
    assert "traceparent" not in recorder.asked[-1][1]


async def test_a_proxy_and_what_it_is_told(side: Side, recorder: Recorder) -> None:
    proxy = ProxyConfig(recorder.url, ("u", "p"), (("x-team", "blue"),), exceptions="127.0.0.1")
    options: dict[str, Any] = {"api_key": "k", "connection_retries": 0, "api_url": "http://sandboxes.test"}
    await do(side.Secret.list(**options, proxy=proxy).next_items())
    path, headers = recorder.asked.pop()
    assert path.startswith("http://sandboxes.test/")
    assert (headers["proxy-authorization"], headers["x-team"]) == ("Basic dTpw", "blue")
    # Its exceptions are reached without it.
    options["api_url"] = recorder.url
    await do(side.Secret.list(**options, proxy=proxy).next_items())
    path, headers = recorder.asked.pop()
    assert path.startswith("/")
    assert "x-team" not in headers


async def test_no_proxy(side: Side, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", recorder.url)
    monkeypatch.setenv("http_proxy", recorder.url)
    options: dict[str, Any] = {"api_key": "k", "connection_retries": 0, "api_url": "http://sandboxes.invalid"}
    await do(side.Secret.list(**options).next_items())
    assert len(recorder.asked) == 1
    with pytest.raises(NotDoneException):
        await do(side.Secret.list(**options, no_proxy=True).next_items())
    assert len(recorder.asked) == 1


async def test_a_unix_socket(side: Side, recorder: Recorder, tmp_path: Path) -> None:
    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        pass

    path = tmp_path / "socket"
    beside = Recorder(str(path), Server)
    try:
        await do(side.Secret.list(api_key="k", api_url="http://sandboxes.test", unix_socket=path).next_items())
    finally:
        beside.close()
    assert beside.asked[0][1]["host"] == "sandboxes.test"
    assert recorder.asked == []


async def test_the_largest_response(side: Side, recorder: Recorder) -> None:
    options: dict[str, Any] = {"api_key": "k", "api_url": recorder.url}
    assert await do(side.Secret.list(**options, max_response_size=3).next_items()) == []
    with pytest.raises(oncebox.SandboxException, match="max_response_size"):
        await do(side.Secret.list(**options, max_response_size=2).next_items())


async def test_an_attempts_own_limit(side: Side, local_server: LocalServer) -> None:
    local_server.set_faults({"rules": [{"on": ["getSecret"], "times": 1, "fault": {"latency": 20}}]})
    with pytest.raises(oncebox.SecretNotFoundException) as caught:
        await do(side.Secret.get_info("a", attempt_timeout=2))
    assert [attempt.outcome for attempt in caught.value.attempts] == [Outcome.SENT_UNKNOWN, Outcome.RESPONDED]
    assert "attempt_timeout" in caught.value.attempts[0].text


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a private authority, and certificates of a server and a client."""
    folder = tmp_path_factory.mktemp("authority")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=tests")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    for name in ("server", "client"):
        openssl("req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signed)
    return folder


async def test_certificates(side: Side, recorder: Recorder, authority: Path) -> None:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    context.load_verify_locations(authority / "ca.pem")

    class Server(socketserver.ThreadingTCPServer):
        def get_request(self) -> Any:
            peer, address = super().get_request()
            return context.wrap_socket(peer, server_side=True, do_handshake_on_connect=False), address

        def handle_error(self, *_: object) -> None:
            pass

    pair = (authority / "client.pem", (authority / "client.key").read_bytes())
    trusted: list[dict[str, Any]] = [
        {"root_certificates": authority / "ca.pem"},
        {"root_certificates": str(authority / "ca.pem")},
        {"root_certificates": (authority / "ca.pem").read_text()},
        {"root_certificates": (authority / "ca.pem").read_bytes()},
        {"danger_accept_invalid_certificates": True},
    ]
    secure = Recorder(("127.0.0.1", 0), Server)
    options: dict[str, Any] = {"api_key": "k", "connection_retries": 0, "repeat_unknown": "never"}
    options["api_url"] = secure.url.replace("http:", "https:")
    try:
        with pytest.raises(NotDoneException, match="certificate"):
            await do(side.Secret.list(**options).next_items())
        for trust in trusted:
            assert await do(side.Secret.list(**options, **trust).next_items()) == []
        context.verify_mode = ssl.CERT_REQUIRED
        # Other options are other connections: those that are open were let in before.
        options["dns_timeout"] = 7
        with pytest.raises(oncebox.SandboxException):
            await do(side.Secret.list(**options, **trusted[0], keepalive_expiry=0).next_items())
        assert await do(side.Secret.list(**options, **trusted[0], client_certificate=pair).next_items()) == []
    finally:
        secure.close()
