"""Calls through our transport: what comes back, what is repeated, and what is told."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import oncebox.httpx
from oncebox import InvalidArgumentException, Outcome
from oncebox.httpx import OperationTable, RetryPolicy, attempts_of

if TYPE_CHECKING:
    from .conftest import Call, MakePeer


def test_an_answer_comes_as_it_was_with_its_history(peer: MakePeer, call: Call) -> None:
    server = peer(
        {"answer": {"status": 418, "headers": {"x-tea": "green", "set-cookie": "a=1"}, "body": {"text": "short"}}}
    )
    response = call(call.transport(), "GET", f"{server.url}/tea?kind=green")
    assert (response.status_code, response.http_version, response.text) == (418, "HTTP/1.1", "short")
    assert (response.headers["x-tea"], response.cookies["a"]) == ("green", "1")
    assert [attempt.status_code for attempt in attempts_of(response)] == [418]


def test_a_long_answer_is_read_as_it_comes(peer: MakePeer, call: Call) -> None:
    server = peer({"answer": {"body": {"size": 3_000_000}}})
    response = call(call.transport(http_version="2"), "GET", server.url)
    assert (response.http_version, len(response.content)) == ("HTTP/2", 3_000_000)


def test_tls_chooses_http2_and_a_private_authority_is_an_option(peer: MakePeer, call: Call) -> None:
    server = peer(tls=True)
    response = call(call.transport(ca_certificates=server.ca), "GET", server.url)
    assert (response.status_code, response.http_version) == (200, "HTTP/2")
    with pytest.raises(httpx.ConnectError, match="certificate") as caught:
        call(call.transport(policy=RetryPolicy(connection_retries=0)), "GET", server.url)
    assert caught.value.outcome is Outcome.NOT_SENT  # type: ignore[attr-defined]


REFUSED_ONCE = {"rules": [{"at": "request", "when": {"try": 1}, "do": ["refuse"]}]}
LOST_ONCE = {"rules": [{"at": "processed", "when": {"try": 1}, "do": ["reset"]}]}


def test_what_was_refused_is_sent_again_whatever_its_method(peer: MakePeer, call: Call) -> None:
    server = peer(REFUSED_ONCE)
    transport = call.transport(http_version="2")
    response = call(transport, "POST", server.url, content=b"order", headers={"x-request-id": "order"})
    assert [attempt.outcome for attempt in attempts_of(response)] == [Outcome.REFUSED, Outcome.RESPONDED]
    assert [attempt["processed"] for attempt in server.tries("order")] == [False, True]


def test_what_was_lost_is_sent_again_only_with_a_permit(peer: MakePeer, call: Call) -> None:
    server = peer(LOST_ONCE)
    document = f"""
openapi: 3.0.3
paths:
  /jobs:
    post: {{operationId: createJob, x-idempotent: false, x-idempotent-reason: each is one more}}
  /jobs/{{id}}/cancel:
    post: {{operationId: cancelJob, x-idempotent: true, x-idempotent-reason: a cancelled job stays cancelled}}
servers: [{{url: "{server.url}/v1"}}]
"""
    table = OperationTable.from_openapi(document, base_url=f"{server.url}/v1")
    transport = call.transport(operations=table)

    def send(method: str, path: str) -> httpx.Response:
        return call(transport, method, server.url + path, headers={"x-request-id": method + path})

    assert send("GET", "/v1/jobs").status_code == 200
    assert send("POST", "/v1/jobs/7/cancel").status_code == 200
    for path in ("/v1/jobs", "/v1/jobs/7/cancel/", "/jobs/7/cancel"):
        with pytest.raises(httpx.ReadError) as caught:
            send("POST", path)
        assert caught.value.outcome is Outcome.SENT_UNKNOWN  # type: ignore[attr-defined]
        assert caught.value.may_have_been_processed  # type: ignore[attr-defined]
        assert len(attempts_of(caught.value)) == 1
    requests = {request["id"]: request["processed"] for request in server.report()["requests"]}
    assert requests == {
        "GET/v1/jobs": 2,
        "POST/v1/jobs/7/cancel": 2,
        "POST/v1/jobs": 1,
        "POST/v1/jobs/7/cancel/": 1,
        "POST/jobs/7/cancel": 1,
    }


def test_a_status_is_retried_by_the_policy_and_never_an_error(peer: MakePeer, call: Call) -> None:
    server = peer({"answer": {"status": 503, "retry_after": {"seconds": 0}}})
    response = call(call.transport(policy=RetryPolicy(retries=2)), "POST", server.url, headers={"x-request-id": "a"})
    assert response.status_code == 503
    assert len(attempts_of(response)) == len(server.tries("a")) == 3


def test_a_wait_beyond_the_deadline_is_not_begun(peer: MakePeer, call: Call) -> None:
    server = peer({"answer": {"status": 503, "retry_after": {"seconds": 3600}}})
    response = call(call.transport(), "GET", server.url, timeout=5)
    assert response.headers["retry-after"] == "3600"
    assert len(attempts_of(response)) == 1


def test_a_warning_lists_what_a_specification_leaves_open() -> None:
    document = '{"openapi": "3.0.3", "paths": {"/jobs": {"post": {"operationId": "createJob"}}}}'
    with pytest.warns(UserWarning, match=r"POST /jobs \(createJob\) has no `x-idempotent` mark"):
        table = OperationTable.from_openapi(document)
    assert (table.permit("POST", "/jobs"), table.permit("PUT", "/jobs"), len(table)) == (None, "idempotent_method", 1)


WRONG_OPTIONS: list[dict[str, Any]] = [
    {"max_connections": 0},
    {"max_connections": True},
    {"keepalive_expiry": -1},
    {"keepalive_expiry": "300"},
    {"replay_buffer_limit": 1.5},
    {"connect_timeout": float("nan")},
    {"http_version": "3"},
    {"http_version": 2},
    {"verify": "no"},
    {"trust_env": 1},
    {"proxy": "ftp://127.0.0.1"},
    {"proxy": 8030},
    {"ca_certificates": b"none"},
    {"ca_certificates": "/nowhere/ca.pem"},
    {"cert": "/nowhere/ca.pem"},
    {"operations": 7},
    {"operations": "/nowhere/openapi.yaml"},
    {"policy": 3},
]


@pytest.mark.parametrize("options", WRONG_OPTIONS, ids=str)
@pytest.mark.parametrize("transport", [oncebox.httpx.Transport, oncebox.httpx.AsyncTransport])
def test_a_wrong_option_is_refused_and_named(transport: type[Any], options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(InvalidArgumentException, match=name):
        transport(**options)


def test_a_wrong_request_is_refused_before_anything_is_sent(call: Call) -> None:
    for error, match, method, url, headers in (
        (httpx.UnsupportedProtocol, "ftp", "GET", "ftp://127.0.0.1/", {}),
        (httpx.LocalProtocolError, "method", "G E T", "http://127.0.0.1:1/", {}),
        (httpx.LocalProtocolError, "x-line", "GET", "http://127.0.0.1:1/", {"x-line": "a\nb"}),
    ):
        with pytest.raises(error, match=match) as caught:
            call(call.transport(), method, url, headers=headers)
        refused: Any = caught.value
        assert (refused.outcome, refused.attempts, refused.may_have_been_processed) == (None, (), False)


def test_one_transport_in_many_threads_and_loops(peer: MakePeer) -> None:
    server = peer()
    transport = oncebox.httpx.AsyncTransport()

    async def some() -> int:
        client = httpx.AsyncClient(transport=transport)
        answers = await asyncio.gather(*(client.get(server.url) for _ in range(20)))
        return sum(answer.status_code == 200 for answer in answers)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: asyncio.run(some()), range(8))) == [20] * 8


def test_a_response_given_up_frees_its_connection(peer: MakePeer) -> None:
    server = peer({"answer": {"body": {"size": 50_000_000}}})
    transport = oncebox.httpx.Transport(max_connections=1, http_version="1.1")
    with httpx.Client(transport=transport) as client:
        for _ in range(3):
            with client.stream("GET", server.url, timeout=20) as response:
                assert len(next(response.iter_bytes())) > 0


def test_a_cancelled_call_gives_its_connection_up() -> None:
    async def work(listener: socket.socket) -> None:
        client = httpx.AsyncClient(transport=oncebox.httpx.AsyncTransport())
        task = asyncio.ensure_future(client.get(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        peer, _ = await asyncio.to_thread(listener.accept)
        await asyncio.to_thread(peer.recv, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with peer:
            # The request's rest, and then that nobody is there any more.
            peer.settimeout(10)
            while await asyncio.to_thread(peer.recv, 65536):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asyncio.run(work(listener))
