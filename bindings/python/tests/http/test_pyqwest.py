"""Our transports under pyqwest's clients, and so under Connect clients."""

from __future__ import annotations

import asyncio
import gzip
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pyqwest
import pytest
import trio

import oncebox.pyqwest
from oncebox import InvalidArgumentException, Outcome
from oncebox._decoding import decoder_for
from oncebox._feeding import ThreadFeeder
from oncebox.pyqwest import RetryPolicy
from sides import MUCH

if TYPE_CHECKING:
    from .conftest import MakePeer

ONCE = RetryPolicy(retries=0, connection_retries=0)


class Client:
    """One call from threads, asyncio or trio."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, method: str, url: str, content: Any = None, **options: Any) -> pyqwest.FullResponse:
        headers = options.pop("headers", {})
        timeout = options.pop("call_timeout", None)
        if self.kind == "threads":
            client = pyqwest.SyncClient(oncebox.pyqwest.SyncTransport(**options))
            return client.execute(method, url, headers, content, timeout=timeout)
        client = pyqwest.Client(oncebox.pyqwest.Transport(**options))

        async def work() -> pyqwest.FullResponse:
            return await client.execute(method, url, headers, content)

        return asyncio.run(work()) if self.kind == "asyncio" else trio.run(work)

    def pieces(self, pieces: list[bytes | BaseException], closed: list[str]) -> Any:
        def generate() -> Iterator[bytes]:
            try:
                for piece in pieces:
                    if isinstance(piece, BaseException):
                        raise piece
                    yield piece
            finally:
                closed.append("closed")

        async def generate_async() -> AsyncIterator[bytes]:
            for piece in generate():
                yield piece

        return generate() if self.kind == "threads" else generate_async()


@pytest.fixture(params=["threads", "asyncio", "trio"])
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.param)


def test_an_answer_comes_as_it_was(peer: MakePeer, client: Client) -> None:
    server = peer({"answer": {"status": 404, "headers": {"x-tea": "green"}, "body": {"text": "none"}}})
    response = client("GET", f"{server.url}/tea", http_version="2")
    assert (response.status, response.headers["x-tea"], response.text()) == (404, "green", "none")


def test_json_says_what_it_is() -> None:
    class Echo(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.headers["content-type"].encode() + b" " + self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-encoding", "gzip")
            body = gzip.compress(body)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.handle_request).start()
        response = pyqwest.SyncClient(oncebox.pyqwest.SyncTransport()).post(
            f"http://127.0.0.1:{server.server_port}/", content={"a": 1}
        )
    # Decoded, and no longer described as encoded.
    assert response.text() == 'application/json {"a": 1}'
    assert "content-encoding" not in response.headers


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_gzip_may_have_many_members(size: int) -> None:
    whole = b"".join(map(gzip.compress, (b"one ", b"", b"two")))
    decoder = decoder_for("gzip")
    assert decoder is not None
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert b"".join(map(decoder.feed, pieces)) + decoder.end() == b"one two"
    # Neither a part of a member nor what is none is taken for the end.
    for wrong in (whole[:-1], whole + gzip.compress(b"")[:5]):
        decoder = decoder_for("gzip")
        assert decoder is not None
        decoder.feed(wrong)
        with pytest.raises(ValueError, match="ends before"):
            decoder.end()
    decoder = decoder_for("gzip")
    assert decoder is not None
    with pytest.raises(ValueError, match="not what its encoding says"):
        decoder.feed(whole + b"no member")


def test_many_members_come_through(client: Client) -> None:
    body = gzip.compress(b"one ") + gzip.compress(b"two")

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-encoding", "gzip")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert client("GET", f"http://127.0.0.1:{server.server_port}/").text() == "one two"
        thread.join()


def test_content_that_cannot_be_iterated_ends_the_call() -> None:
    class Content:
        def __iter__(self) -> Any:
            raise ZeroDivisionError

    feeder = ThreadFeeder(Content(), None)
    feeder.start()
    for thread in threading.enumerate():
        if thread.name == "oncebox-body":
            thread.join(10)
    assert isinstance(feeder.error, ZeroDivisionError)
    assert feeder.is_over


def test_trailers_come_with_the_end(peer: MakePeer, client: Client) -> None:
    server = peer({"answer": {"body": {"size": 100_000}, "trailers": {"x-sum": "7"}, "framing": "chunked"}})
    response = client("GET", server.url, http_version="2")
    assert (len(response.content), response.trailers["x-sum"]) == (100_000, "7")


def test_a_streamed_body_is_sent_again_and_closed(peer: MakePeer, client: Client) -> None:
    server = peer({"rules": [{"at": {"request_body": 30_000}, "when": {"try": 1}, "do": ["refuse"]}]})
    closed: list[str] = []
    body = client.pieces([b"x" * 10_000] * 6, closed)
    response = client("POST", server.url, body, headers={"x-request-id": "a"}, http_version="2")
    assert response.status == 200
    assert [attempt["body_bytes"] for attempt in server.tries("a")][1] == 60_000
    if client.kind == "threads":
        wait_for(closed)
    assert closed == ["closed"]


def wait_for(closed: list[str]) -> None:
    """A thread of its own reads the body, and closes it when it is through."""
    for thread in threading.enumerate():
        if thread.name == "oncebox-body":
            thread.join(10)
    assert closed


def test_a_refusal_is_a_stream_error_with_its_code(peer: MakePeer, client: Client) -> None:
    server = peer({"rules": [{"at": "request", "do": ["refuse"]}]})
    with pytest.raises(pyqwest.StreamError, match="REFUSED_STREAM") as caught:
        client("POST", server.url, b"x", policy=ONCE, http_version="2")
    assert caught.value.code is pyqwest.StreamErrorCode.REFUSED_STREAM
    error: Any = caught.value
    assert (error.outcome, error.may_have_been_processed, len(error.attempts)) == (Outcome.REFUSED, False, 1)


def test_what_a_goaway_refused_has_that_code_too(peer: MakePeer, client: Client) -> None:
    server = peer({"rules": [{"at": "request", "do": [{"goaway": {"last": "previous"}}]}]})
    with pytest.raises(pyqwest.StreamError, match="refused by GOAWAY") as caught:
        client("POST", server.url, b"x", policy=ONCE, http_version="2")
    assert caught.value.code is pyqwest.StreamErrorCode.REFUSED_STREAM


def test_a_reset_has_the_servers_code(peer: MakePeer, client: Client) -> None:
    server = peer({"rules": [{"at": "request", "do": [{"reset_stream": "ENHANCE_YOUR_CALM"}]}]})
    with pytest.raises(pyqwest.StreamError) as caught:
        client("POST", server.url, b"x", policy=ONCE, http_version="2")
    assert caught.value.code is pyqwest.StreamErrorCode.ENHANCE_YOUR_CALM
    assert caught.value.outcome is Outcome.SENT_UNKNOWN  # type: ignore[attr-defined]


def test_other_failures_are_pyqwests_own(peer: MakePeer, client: Client) -> None:
    with pytest.raises(ConnectionError):
        client("GET", "http://127.0.0.1:1/", policy=ONCE)
    with pytest.raises(ValueError, match="header"):
        client("GET", "http://127.0.0.1:1/", headers={"a b": "c"}, policy=ONCE)
    with pytest.raises(ValueError, match="must begin with") as caught:
        client("GET", "ftp://127.0.0.1:1/", policy=ONCE)
    refused: Any = caught.value
    assert (refused.outcome, refused.attempts, refused.may_have_been_processed) == (None, (), False)
    server = peer({"rules": [{"at": "received", "do": ["reset"]}]})
    with pytest.raises(pyqwest.ReadError):
        client("POST", server.url, b"x", policy=ONCE)
    server = peer({"rules": [{"at": "received", "do": ["hold"]}]})
    with pytest.raises(TimeoutError):
        client("POST", server.url, b"x", policy=ONCE, timeout=0.3)


def test_what_the_iterator_raises_is_raised(peer: MakePeer, client: Client) -> None:
    server = peer()
    with pytest.raises(ZeroDivisionError):
        client("POST", server.url, client.pieces([*MUCH, ZeroDivisionError()], []), headers={"x-request-id": "a"})
    assert [attempt["processed"] for attempt in server.tries("a")] == [False]


def test_a_clients_timeout_bounds_the_whole_response(peer: MakePeer) -> None:
    server = peer({"answer": {"body": {"size": 1000}, "frame_size": 100, "framing": "chunked", "pause_ms": 300}})
    with pytest.raises(TimeoutError):
        Client("threads")("GET", server.url, call_timeout=0.5)


def test_requests_and_responses_flow_at_the_same_time() -> None:
    """What comes back decides what is sent next, as in a Connect call of both directions."""

    class Server(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            while size := int(self.rfile.readline(), 16):
                piece = self.rfile.read(size)
                self.rfile.readline()
                self.wfile.write(b"%x\r\n%s\r\n" % (size, piece.upper()))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: Any) -> None:
            pass

    words = ["one", "two", "three"]
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        to_send: queue.Queue[str | None] = queue.Queue()
        to_send.put(words[0])

        def sent() -> Iterator[bytes]:
            while (word := to_send.get(timeout=10)) is not None:
                yield word.encode()

        heard = []
        client = pyqwest.SyncClient(oncebox.pyqwest.SyncTransport(keepalive_expiry=0))
        with client.stream("POST", url, content=sent()) as response:
            for piece in response.content:
                heard.append(bytes(piece).decode())
                to_send.put(words[len(heard)] if len(heard) < len(words) else None)
        assert heard == ["ONE", "TWO", "THREE"]

        async def work() -> list[str]:
            to_send: asyncio.Queue[str | None] = asyncio.Queue()
            to_send.put_nowait(words[0])

            async def sent() -> AsyncIterator[bytes]:
                while (word := await asyncio.wait_for(to_send.get(), 10)) is not None:
                    yield word.encode()

            heard = []
            client = pyqwest.Client(oncebox.pyqwest.Transport(keepalive_expiry=0))
            async with client.stream("POST", url, content=sent()) as response:
                async for piece in response.content:
                    heard.append(bytes(piece).decode())
                    to_send.put_nowait(words[len(heard)] if len(heard) < len(words) else None)
            return heard

        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert asyncio.run(work()) == ["ONE", "TWO", "THREE"]


@pytest.mark.parametrize("options", [{"timeout": True}, {"read_timeout": -1}, {"max_connections": 0}], ids=str)
@pytest.mark.parametrize("transport", [oncebox.pyqwest.SyncTransport, oncebox.pyqwest.Transport])
def test_a_wrong_option_is_refused_and_named(transport: Any, options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(InvalidArgumentException, match=name):
        transport(**options)
