"""Request bodies that are read beside the response: what ends their reading, and who closes them."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pyqwest
import pytest
import trio

import oncebox.pyqwest
from oncebox import RetryPolicy
from oncebox._feeding import TaskFeeder, ThreadFeeder

if TYPE_CHECKING:
    from .conftest import MakePeer

#: How long a loop may take for what takes it no time.
LONG = 30


def in_loop(kind: str, work: Callable[[], Any]) -> Any:
    """What this gives in an event loop of the kind."""
    if kind == "asyncio":
        return asyncio.run(asyncio.wait_for(work(), LONG))

    async def limited() -> Any:
        with trio.fail_after(LONG):
            return await work()

    return trio.run(limited)


async def turn(kind: str) -> None:
    """Lets others run."""
    await (asyncio.sleep(0) if kind == "asyncio" else trio.lowlevel.checkpoint())


class Source:
    """An async iterator without an end, whose closing takes a turn of the loop."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.taken = 0
        self.closed: Any = asyncio.Event() if kind == "asyncio" else trio.Event()

    def __aiter__(self) -> Source:
        return self

    async def __anext__(self) -> bytes:
        self.taken += 1
        return b"x"

    async def aclose(self) -> None:
        await turn(self.kind)
        self.closed.set()


def test_an_iterator_that_waited_for_a_task_which_others_cancelled_hung_its_call(peer: MakePeer) -> None:
    server = peer()

    async def work() -> None:
        other = asyncio.ensure_future(asyncio.Event().wait())

        async def pieces() -> AsyncIterator[bytes]:
            yield b"x"
            other.cancel()
            await other

        with pytest.raises(asyncio.CancelledError):
            await pyqwest.Client(oncebox.pyqwest.Transport()).execute("POST", server.url, {}, pieces())

    in_loop("asyncio", work)


@pytest.mark.parametrize("kind", ["asyncio", "trio"])
@pytest.mark.parametrize("starts", [True, False])
def test_a_body_whose_reading_had_not_begun_stayed_open(kind: str, starts: bool) -> None:
    async def work() -> None:
        source = Source(kind)
        feeder = TaskFeeder(source, None)
        if starts:
            feeder.start()
        feeder.close()
        feeder.close()
        await source.closed.wait()
        assert source.taken == 0
        assert feeder.error is None

    in_loop(kind, work)


@pytest.mark.parametrize("kind", ["asyncio", "trio"])
def test_a_body_that_is_given_up_while_it_is_waited_for_is_closed(kind: str) -> None:
    async def work() -> None:
        source = Source(kind)
        feeder = TaskFeeder(source, None)
        feeder.start()
        for _ in range(3):
            await turn(kind)
        feeder.close()
        await source.closed.wait()
        assert feeder.error is None

    in_loop(kind, work)


def test_a_body_of_a_thread_that_was_never_read_stayed_open() -> None:
    closed: list[bool] = []

    class Pieces:
        def __iter__(self) -> Any:
            return iter(())

        def close(self) -> None:
            closed.append(True)

    feeder = ThreadFeeder(Pieces(), None)
    feeder.close()
    feeder.close()
    assert closed == [True]


@pytest.mark.parametrize("kind", ["asyncio", "trio"])
def test_a_file_of_the_callers_was_closed_by_the_task_that_read_it(peer: MakePeer, kind: str) -> None:
    class File(io.BytesIO):
        def __aiter__(self) -> File:
            return self

        async def __anext__(self) -> bytes:
            piece = self.read(4)
            if not piece:
                raise StopAsyncIteration
            return piece

    server = peer()

    async def work() -> None:
        file: Any = File(b"a file")
        client = pyqwest.Client(oncebox.pyqwest.Transport())
        response = await client.execute("POST", server.url, {"x-request-id": "a"}, file)
        assert (response.status, file.closed) == (200, False)

    in_loop(kind, work)
    assert [attempt["body_bytes"] for attempt in server.tries("a")] == [6]


@pytest.mark.parametrize("kind", ["threads", "asyncio", "trio"])
@pytest.mark.parametrize("wrong", [5, 0, "text", None], ids=repr)
def test_a_number_in_a_body_was_sent_as_so_many_zeros(peer: MakePeer, kind: str, wrong: Any) -> None:
    server = peer()
    message = f"pieces are bytes, not {type(wrong).__name__}"
    once = RetryPolicy(retries=0, connection_retries=0)
    if kind == "threads":
        client = pyqwest.SyncClient(oncebox.pyqwest.SyncTransport(policy=once))
        with pytest.raises(TypeError, match=message):
            client.execute("POST", server.url, {}, iter([b"x", wrong]))
        return

    async def pieces() -> AsyncIterator[Any]:
        yield b"x"
        yield wrong

    async def work() -> None:
        client = pyqwest.Client(oncebox.pyqwest.Transport(policy=once))
        with pytest.raises(TypeError, match=message):
            await client.execute("POST", server.url, {}, pieces())

    in_loop(kind, work)


@pytest.mark.parametrize("kind", ["threads", "asyncio", "trio"])
def test_buffers_are_pieces(peer: MakePeer, kind: str) -> None:
    server = peer()
    given: list[Any] = [bytearray(b"one "), memoryview(b"two")]

    async def pieces() -> AsyncIterator[Any]:
        for piece in given:
            yield piece

    async def work() -> None:
        client = pyqwest.Client(oncebox.pyqwest.Transport())
        await client.execute("POST", server.url, {"x-request-id": "a"}, pieces())

    if kind == "threads":
        pyqwest.SyncClient(oncebox.pyqwest.SyncTransport()).execute(
            "POST", server.url, {"x-request-id": "a"}, iter(given)
        )
    else:
        in_loop(kind, work)
    assert [attempt["body_bytes"] for attempt in server.tries("a")] == [7]


@pytest.mark.parametrize("kind", ["asyncio", "trio"])
def test_an_iterator_in_trio_did_not_see_its_callers_context_variables(peer: MakePeer, kind: str) -> None:
    server = peer()
    variable: ContextVar[str] = ContextVar("variable", default="none")
    seen: list[str] = []

    async def pieces() -> AsyncIterator[bytes]:
        seen.append(variable.get())
        yield b"x"

    async def work() -> None:
        variable.set("the caller's")
        await pyqwest.Client(oncebox.pyqwest.Transport()).execute("POST", server.url, {}, pieces())

    in_loop(kind, work)
    assert seen == ["the caller's"]


class Echo(BaseHTTPRequestHandler):
    """Answers before it has the body, and gives back each piece of it as it comes."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        while (line := self.rfile.readline()) and (size := int(line, 16)):
            piece = self.rfile.read(size + 2)
            self.wfile.write(line + piece)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize("kind", ["threads", "asyncio", "trio"])
def test_what_an_iterator_raised_after_the_answer_had_begun_came_out_as_a_lost_connection(kind: str) -> None:
    heard: Any = {"threads": threading.Event, "asyncio": asyncio.Event, "trio": trio.Event}[kind]()

    def pieces() -> Iterator[bytes]:
        yield b"x"
        heard.wait(LONG)
        raise ZeroDivisionError

    async def pieces_async() -> AsyncIterator[bytes]:
        yield b"x"
        await heard.wait()
        raise ZeroDivisionError

    def read(url: str) -> None:
        client = pyqwest.SyncClient(oncebox.pyqwest.SyncTransport())
        with client.stream("POST", url, content=pieces()) as response:
            for _ in response.content:
                heard.set()

    async def read_async(url: str) -> None:
        client = pyqwest.Client(oncebox.pyqwest.Transport())
        async with client.stream("POST", url, content=pieces_async()) as response:
            async for _ in response.content:
                heard.set()

    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/"
        with pytest.raises(ZeroDivisionError):
            read(url) if kind == "threads" else in_loop(kind, lambda: read_async(url))
        thread.join(LONG)
