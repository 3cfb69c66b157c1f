"""Each failure is the exception that httpx has for it, and says what is known of the call."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from oncebox import Outcome
from oncebox.httpx import RetryPolicy, attempts_of

if TYPE_CHECKING:
    from .conftest import Call, MakePeer

ONCE = RetryPolicy(retries=0, connection_retries=0)


def fails(call: Call, url: str, *, version: str | None = None, **given: Any) -> Any:
    with pytest.raises(httpx.TransportError) as caught:
        call(call.transport(policy=ONCE, http_version=version), "POST", url, **{"timeout": 5, **given})
    assert caught.value.request.url == url
    assert len(attempts_of(caught.value)) == 1
    return caught.value


def test_nobody_listens(call: Call) -> None:
    error = fails(call, "http://127.0.0.1:1/")
    assert (type(error), error.outcome, error.may_have_been_processed) == (httpx.ConnectError, Outcome.NOT_SENT, False)
    assert "127.0.0.1:1: " in str(error)


def test_no_such_name(call: Call) -> None:
    error = fails(call, "http://nowhere.invalid/", timeout=20)
    assert (type(error), error.outcome) == (httpx.ConnectError, Outcome.NOT_SENT)


def test_a_connect_that_takes_too_long(call: Call) -> None:
    # A handshake that nobody answers.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        error = fails(call, f"https://127.0.0.1:{listener.getsockname()[1]}/", timeout=0.3)
    assert (type(error), error.outcome, error.may_have_been_processed) == (
        httpx.ConnectTimeout,
        Outcome.TIMED_OUT,
        False,
    )


def test_the_smallest_phase_is_the_deadline(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        error = fails(call, url, timeout=httpx.Timeout(60, pool=2))
    assert (type(error), error.outcome, error.may_have_been_processed) == (httpx.ReadTimeout, Outcome.TIMED_OUT, True)
    assert "2s (request_timeout)" in str(error)


def test_no_connection_is_free(peer: MakePeer) -> None:
    import oncebox.httpx

    server = peer({"answer": {"body": {"size": 50_000_000}}})
    transport = oncebox.httpx.Transport(policy=ONCE, max_connections=1, http_version="1.1")
    with httpx.Client(transport=transport) as client, client.stream("GET", server.url, timeout=20):
        with pytest.raises(httpx.PoolTimeout) as caught:
            client.get(server.url, timeout=0.3)
        assert not caught.value.may_have_been_processed  # type: ignore[attr-defined]


def test_the_connection_is_lost_after_the_request(peer: MakePeer, call: Call) -> None:
    server = peer({"rules": [{"at": "received", "do": ["reset"]}]})
    for version in ("1.1", "2"):
        error = fails(call, server.url, version=version, content=b"x")
        assert (type(error), error.outcome, error.may_have_been_processed) == (
            httpx.ReadError,
            Outcome.SENT_UNKNOWN,
            True,
        )


def test_the_connection_is_lost_while_the_body_is_sent(peer: MakePeer, call: Call) -> None:
    server = peer({"rules": [{"at": {"request_body": 1000}, "do": ["reset"]}]})
    for version in ("1.1", "2"):
        endless = call.pieces(b"x" * 1000 for _ in range(1_000_000))
        error = fails(call, server.url, version=version, content=endless)
        assert (type(error), error.outcome) == (httpx.WriteError, Outcome.SENT_UNKNOWN)


def test_the_server_takes_none_of_the_body(peer: MakePeer, call: Call) -> None:
    server = peer({"rules": [{"at": "connect", "do": [{"withhold": ["window_updates"]}]}]})
    endless = call.pieces(b"x" * 100_000 for _ in range(1_000_000))
    timeout = httpx.Timeout(20, write=2)
    error = fails(call, server.url, version="2", content=endless, timeout=timeout)
    assert (type(error), error.outcome) == (httpx.WriteTimeout, Outcome.TIMED_OUT)


def test_the_stream_is_refused(peer: MakePeer, call: Call) -> None:
    server = peer({"rules": [{"at": "request", "do": ["refuse"]}]})
    error = fails(call, server.url, version="2")
    assert (type(error), error.outcome, error.may_have_been_processed) == (
        httpx.RemoteProtocolError,
        Outcome.REFUSED,
        False,
    )
    assert "stream refused: REFUSED_STREAM" in str(error)


def test_the_stream_is_reset(peer: MakePeer, call: Call) -> None:
    server = peer({"rules": [{"at": "request", "do": [{"reset_stream": "INTERNAL_ERROR"}]}]})
    error = fails(call, server.url, version="2")
    assert (type(error), error.outcome) == (httpx.RemoteProtocolError, Outcome.SENT_UNKNOWN)


def test_what_answers_speaks_no_http(call: Call) -> None:
    import threading

    def babble(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            peer.sendall(b"220 mail.example ESMTP\r\n" * 10)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=babble, args=(listener,))
        thread.start()
        error = fails(call, f"http://127.0.0.1:{listener.getsockname()[1]}/")
        thread.join()
    assert (type(error), error.outcome) == (httpx.RemoteProtocolError, Outcome.SENT_UNKNOWN)


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_the_response_is_cut(peer: MakePeer, call: Call, version: str) -> None:
    rule = {"at": {"answer_body": 500}, "do": ["reset"]}
    server = peer({"answer": {"body": {"size": 100_000}}, "rules": [rule]})
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)) as caught:
        call(call.transport(http_version=version), "GET", server.url)
    # Its head was handed on: nothing is repeated after that.
    assert caught.value.outcome is Outcome.RESPONDED  # type: ignore[attr-defined]
    assert len(attempts_of(caught.value)) == 1


def test_the_response_stalls(peer: MakePeer, call: Call) -> None:
    server = peer({"answer": {"body": {"size": 1000}, "frame_size": 500, "framing": "chunked", "pause_ms": 60_000}})
    with pytest.raises(httpx.ReadTimeout, match="read_idle_timeout"):
        call(call.transport(), "GET", server.url, timeout=2)
