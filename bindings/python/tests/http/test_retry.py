"""The policy alone, over transports that are not ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pyqwest
import pyqwest.httpx
import pytest

import oncebox.httpx
from oncebox import InvalidArgumentException, Outcome, _core
from oncebox.httpx import RetryPolicy, attempts_of

if TYPE_CHECKING:
    from .conftest import Call, MakePeer

URL = "http://example.test/things"


class Inner(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers by a list: statuses, responses or exceptions. It reads each request's body, as far as `reads` says."""

    def __init__(self, answers: list[Any], *, reads: int | None = None) -> None:
        self.answers = iter(answers)
        self.reads = reads
        self.bodies: list[bytes] = []
        self.requests: list[httpx.Request] = []
        #: The timeouts of each, as they were when it came.
        self.timeouts: list[dict[str, Any]] = []
        #: Bodies that were given up half-way are kept, as a transport's thread may keep them.
        self.kept: list[Any] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        pieces = iter(request.stream)  # type: ignore[call-overload]
        body = b""
        while self.reads is None or len(body) < self.reads:
            piece = next(pieces, None)
            if piece is None:
                break
            body += piece
        self.kept.append(pieces)
        return self._answer(request, body)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        pieces = aiter(request.stream)  # type: ignore[call-overload]
        body = b""
        while self.reads is None or len(body) < self.reads:
            piece = await anext(pieces, None)
            if piece is None:
                break
            body += piece
        self.kept.append(pieces)
        return self._answer(request, body)

    def _answer(self, request: httpx.Request, body: bytes) -> httpx.Response:
        self.requests.append(request)
        self.timeouts.append(dict(request.extensions.get("timeout") or {}))
        self.bodies.append(body)
        answer = next(self.answers)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, int):
            return httpx.Response(answer, content=b"answer")
        assert isinstance(answer, httpx.Response)
        return answer


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, call: Call) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.sleep: Callable[[float], Any] = self._sleep if call.kind == "threads" else self._sleep_async

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def _sleep_async(self, seconds: float) -> None:
        self._sleep(seconds)

    def monotonic(self) -> float:
        return self.now


def over(call: Call, inner: Inner, clock: Clock, **options: Any) -> Any:
    return call.retry(inner, random_=lambda: 0.0, sleep=clock.sleep, monotonic=clock.monotonic, **options)


def test_waits_are_the_policys(call: Call) -> None:
    inner, clock = Inner([503, 503, httpx.Response(503, headers={"retry-after": "3"}), 200]), Clock(call)
    response = call(over(call, inner, clock), "POST", URL, content=b"order")
    assert (response.status_code, clock.slept, inner.bodies) == (200, [0.05, 0.1, 3.0], [b"order"] * 4)
    assert [attempt.status_code for attempt in attempts_of(response)] == [503, 503, 503, 200]
    assert [request.headers.get("oncebox-attempt") for request in inner.requests] == [None, "2", "3", "4"]


def test_what_is_left_of_the_deadline_bounds_each_attempt(call: Call) -> None:
    inner, clock = Inner([httpx.Response(503, headers={"retry-after": "3"}), 200]), Clock(call)
    whole = {"connect": 10, "read": 5, "write": 10, "pool": 10}
    call(over(call, inner, clock), "GET", URL, timeout=httpx.Timeout(10, read=5))
    assert inner.timeouts == [whole, dict.fromkeys(whole, 2.0)]


def test_a_slow_body_after_a_repeat_ended_with_the_deadline_of_the_head(call: Call) -> None:
    inner, clock = Inner([httpx.Response(503, headers={"retry-after": "3"}), 200]), Clock(call)
    call(over(call, inner, clock), "GET", URL, timeout=httpx.Timeout(60, read=30, connect=5))
    # The inner transport's own dictionary, in which it looks when the body is read.
    assert inner.requests[1].extensions["timeout"] == {"connect": 5, "read": 30, "write": 60, "pool": 60}


def test_a_wait_beyond_the_deadline_is_not_begun(call: Call) -> None:
    inner, clock = Inner([httpx.Response(503, headers={"retry-after": "6"})]), Clock(call)
    response = call(over(call, inner, clock), "GET", URL, timeout=5)
    assert (response.status_code, clock.slept) == (503, [])


REPEATED_ALWAYS = [
    httpx.ConnectError("no"),
    httpx.ConnectTimeout("no"),
    httpx.ProxyError("no"),
    httpx.PoolTimeout("no"),
]
REPEATED_WITH_A_PERMIT = [
    httpx.ReadError("no"),
    httpx.WriteError("no"),
    httpx.CloseError("no"),
    httpx.ReadTimeout("no"),
    httpx.WriteTimeout("no"),
    httpx.RemoteProtocolError("no"),
]


@pytest.mark.parametrize("error", REPEATED_ALWAYS, ids=lambda error: type(error).__name__)
def test_what_sent_nothing_is_sent_again(call: Call, error: httpx.TransportError) -> None:
    inner, clock = Inner([error, 200]), Clock(call)
    response = call(over(call, inner, clock), "POST", URL)
    assert [attempt.outcome for attempt in attempts_of(response)] == [Outcome.NOT_SENT, Outcome.RESPONDED]


@pytest.mark.parametrize("error", REPEATED_WITH_A_PERMIT, ids=lambda error: type(error).__name__)
def test_what_may_have_been_processed_is_sent_again_with_a_permit(call: Call, error: httpx.TransportError) -> None:
    response = call(over(call, Inner([error, 200]), Clock(call)), "GET", URL)
    assert [attempt.outcome for attempt in attempts_of(response)] == [Outcome.SENT_UNKNOWN, Outcome.RESPONDED]
    with pytest.raises(type(error)) as caught:
        call(over(call, Inner([error]), Clock(call)), "POST", URL)
    assert caught.value is error
    assert (error.outcome, len(attempts_of(error))) == (Outcome.SENT_UNKNOWN, 1)  # type: ignore[attr-defined]


def test_a_request_that_is_wrong_is_not_judged(call: Call) -> None:
    inner = Inner([httpx.LocalProtocolError("wrong"), 200])
    with pytest.raises(httpx.LocalProtocolError) as caught:
        call(over(call, inner, Clock(call)), "GET", URL)
    assert len(inner.requests) == 1
    error: Any = caught.value
    assert (error.outcome, error.attempts, error.may_have_been_processed) == (None, (), False)


def test_a_request_that_is_wrong_said_nothing_of_the_attempts_before(call: Call) -> None:
    inner = Inner([httpx.ReadError("lost"), httpx.LocalProtocolError("wrong")])
    with pytest.raises(httpx.LocalProtocolError) as caught:
        call(over(call, inner, Clock(call)), "GET", URL)
    error: Any = caught.value
    assert (error.outcome, len(error.attempts), error.may_have_been_processed) == (Outcome.SENT_UNKNOWN, 1, True)


def test_failed_connects_can_be_left_to_the_inner_transport(call: Call) -> None:
    inner = Inner([httpx.ConnectError("no"), 200])
    with pytest.raises(httpx.ConnectError) as caught:
        call(over(call, inner, Clock(call), policy=RetryPolicy(connection_retries=0)), "GET", URL)
    assert caught.value.outcome is Outcome.NOT_SENT  # type: ignore[attr-defined]
    assert len(inner.requests) == 1


def test_waits_for_connects_grow_with_those_that_failed_in_a_row(call: Call) -> None:
    no = httpx.ConnectError("no")
    inner, clock = Inner([no, httpx.PoolTimeout("no"), no, httpx.ReadError("no"), no, 200, no, 200]), Clock(call)
    transport = over(call, inner, clock)
    call.all(transport, [("GET", URL, {}), ("GET", URL, {})])
    # That there was no place, after which there is no wait, tells nothing of connects, nor does a loss; an answer does.
    assert clock.slept == [0.25, 0.375, 0.05, 0.5625, 0.25]


def test_connects_that_fail_together_have_failed_once() -> None:
    decider = _core.Decider(policy=RetryPolicy()._json())
    calls = [decider.call("GET", "http://example.test", "/", [], 0.0, None) for _ in range(3)]

    def failed(judged: _core.Judged) -> float | None:
        return judged.failed("connect", "no", "none", 0, 0, 0.0, 0.0, 0.0)

    for wait in (0.25, 0.375):
        for one in calls:
            one.begin()
        assert [failed(one) for one in calls] == [wait] * 3


def test_attempts_add_up(call: Call) -> None:
    inner = Inner([503, httpx.ConnectError("no"), *[503] * 20])
    response = call(over(call, inner, Clock(call), policy=RetryPolicy(retries=2, connection_retries=1)), "GET", URL)
    assert (response.status_code, len(inner.requests)) == (503, 4)


def test_a_streamed_body_is_mirrored_and_closed_once(call: Call) -> None:
    closed: list[str] = []
    pieces = [b"one", b"two", b"three"]
    inner = Inner([httpx.ConnectError("no"), httpx.ConnectError("no"), 200])
    response = call(over(call, inner, Clock(call)), "POST", URL, content=call.pieces(pieces, closed))
    assert (response.status_code, inner.bodies, closed) == (200, [b"onetwothree"] * 3, ["closed"])


def test_an_attempt_that_was_given_up_empties_nothing(call: Call) -> None:
    closed: list[str] = []
    inner = Inner([httpx.ConnectError("no"), 200], reads=4)
    body = call.pieces([b"one", b"two", b"three"], closed)
    response = call(over(call, inner, Clock(call)), "POST", URL, content=body)
    # The second attempt's inner transport read two pieces: from the first one on.
    assert (response.status_code, inner.bodies, closed) == (200, [b"onetwo"] * 2, ["closed"])


@pytest.mark.parametrize(("size", "is_replayed"), [(65_536, True), (65_537, False)])
def test_the_mirror_has_a_limit(call: Call, size: int, is_replayed: bool) -> None:
    inner = Inner([httpx.ConnectError("no"), 200])
    body = call.pieces([b"x" * (size - 1), b"x"])
    if is_replayed:
        assert call(over(call, inner, Clock(call)), "POST", URL, content=body).status_code == 200
        assert [len(body) for body in inner.bodies] == [size, size]
    else:
        with pytest.raises(httpx.ConnectError):
            call(over(call, inner, Clock(call)), "POST", URL, content=body)


def test_a_streamed_body_is_not_sent_again_after_an_answer(call: Call) -> None:
    inner = Inner([503, 200])
    response = call(over(call, inner, Clock(call)), "POST", URL, content=call.pieces([b"x"]))
    assert (response.status_code, len(inner.requests)) == (503, 1)


def test_what_the_iterator_raises_is_raised(call: Call) -> None:
    closed: list[str] = []
    inner = Inner([200])
    with pytest.raises(ZeroDivisionError):
        call(over(call, inner, Clock(call)), "POST", URL, content=call.pieces([b"x", ZeroDivisionError()], closed))
    assert closed == ["closed"]


def test_a_response_that_is_asked_for_again_is_closed(call: Call) -> None:
    closed: list[int] = []

    class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"x" * 1_000_000

        async def __aiter__(self) -> Any:
            yield b"x" * 1_000_000

        def close(self) -> None:
            closed.append(1)

        async def aclose(self) -> None:
            closed.append(1)

    inner = Inner([httpx.Response(503, stream=Body()), 200])
    assert call(over(call, inner, Clock(call)), "GET", URL).status_code == 200
    assert closed == [1]


def test_an_answer_that_could_not_be_decoded_ended_the_call_in_place_of_a_repeat(call: Call) -> None:
    class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"no gzip"

        async def __aiter__(self) -> Any:
            yield b"no gzip"

    headers = {"content-encoding": "gzip", "content-length": "7"}
    inner = Inner([httpx.Response(503, headers=headers, stream=Body()), 200])
    assert call(over(call, inner, Clock(call)), "GET", URL).status_code == 200


def test_a_server_in_trouble_is_not_stormed(call: Call) -> None:
    # The budget of an origin: 500 tokens, 5 for each retry after a status.
    inner = Inner([503] * 10_000)
    transport = over(call, inner, Clock(call), policy=RetryPolicy(retries=1000))
    call(transport, "GET", URL, timeout=None)
    assert len(inner.requests) < 130


def test_it_repeats_nothing_that_repeats_itself(call: Call) -> None:
    with pytest.raises(InvalidArgumentException, match="inner"):
        call.retry(call.transport())
    with pytest.raises(InvalidArgumentException, match="inner"):
        call.retry(call.retry(Inner([])))
    with pytest.raises(InvalidArgumentException, match="inner"):
        call.retry("http://127.0.0.1")
    with pytest.raises(InvalidArgumentException, match="replay_buffer_limit"):
        call.retry(Inner([]), replay_buffer_limit=-1)
    with pytest.raises(TypeError):
        call.retry(Inner([]), RetryPolicy())


REFUSED_ONCE = {"rules": [{"at": "request", "when": {"try": 1}, "do": ["refuse"]}]}


@pytest.mark.parametrize("below", ["httpx", "pyqwest"])
@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_refusal_is_known_through_other_transports(peer: MakePeer, below: str, kind: str) -> None:
    import ssl

    server = peer(REFUSED_ONCE, tls=True)
    trust = ssl.create_default_context(cafile=str(server.ca))
    pem = server.ca.read_bytes()
    headers = {"x-request-id": "a"}
    inner: Any
    if kind == "threads":
        if below == "httpx":
            inner = httpx.HTTPTransport(http2=True, verify=trust)
        else:
            inner = pyqwest.httpx.PyqwestTransport(pyqwest.SyncHTTPTransport(tls_ca_cert=pem))
        with httpx.Client(transport=oncebox.httpx.RetryTransport(inner)) as client:
            response = client.post(server.url, content=b"x", headers=headers)
    else:
        if below == "httpx":
            inner = httpx.AsyncHTTPTransport(http2=True, verify=trust)
        else:
            inner = pyqwest.httpx.AsyncPyqwestTransport(pyqwest.HTTPTransport(tls_ca_cert=pem))

        async def work() -> httpx.Response:
            async with httpx.AsyncClient(transport=oncebox.httpx.AsyncRetryTransport(inner)) as client:
                return await client.post(server.url, content=b"x", headers=headers)

        response = asyncio.run(work())
    assert response.status_code == 200
    outcomes = [attempt.outcome for attempt in attempts_of(response)]
    # pyqwest itself sends refused streams again while it can: then there is nothing left to do here.
    assert outcomes in ([Outcome.REFUSED, Outcome.RESPONDED], [Outcome.RESPONDED])
    assert below == "pyqwest" or len(outcomes) == 2
    assert [attempt["processed"] for attempt in server.tries("a")] == [False, True]
