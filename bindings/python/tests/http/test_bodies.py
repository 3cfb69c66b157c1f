"""Request bodies that are read as they are sent: sent again where they may be, closed when nothing needs them any more."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import oncebox.httpx
from oncebox import Outcome
from oncebox.httpx import RetryPolicy, attempts_of
from sides import MUCH

if TYPE_CHECKING:
    from .conftest import Call, MakePeer

ID = {"x-request-id": "a"}

#: The streams are refused after so much of the body was sent.
LIMIT = 65_536


def refused_after(count: int) -> dict[str, Any]:
    return {"rules": [{"at": {"request_body": count}, "when": {"try": 1}, "do": ["refuse"]}]}


def test_a_streamed_body_is_sent_again_whole(peer: MakePeer, call: Call) -> None:
    server = peer(refused_after(30_000))
    closed: list[str] = []
    pieces = [bytes([number]) * 10_000 for number in range(20)]
    response = call(
        call.transport(http_version="2", replay_buffer_limit=200_000),
        "POST",
        server.url,
        content=call.pieces(pieces, closed),
        headers=ID,
    )
    assert [attempt.outcome for attempt in attempts_of(response)] == [Outcome.REFUSED, Outcome.RESPONDED]
    assert closed == ["closed"]
    first, second = server.tries("a")
    assert (first["processed"], second["processed"], second["body_bytes"]) == (False, True, 200_000)


@pytest.mark.parametrize(("size", "is_replayed"), [(LIMIT, True), (LIMIT + 1, False)])
def test_the_mirror_has_a_limit(peer: MakePeer, call: Call, size: int, is_replayed: bool) -> None:
    server = peer(refused_after(size))
    closed: list[str] = []
    body = call.pieces([b"x" * (size - 1), b"x"], closed)
    transport = call.transport(http_version="2")
    if is_replayed:
        assert call(transport, "POST", server.url, content=body, headers=ID).status_code == 200
    else:
        with pytest.raises(httpx.RemoteProtocolError, match="65,537 bytes read, replay_buffer_limit 65,536") as caught:
            call(transport, "POST", server.url, content=body, headers=ID)
        assert caught.value.outcome is Outcome.REFUSED  # type: ignore[attr-defined]
        assert not caught.value.may_have_been_processed  # type: ignore[attr-defined]
    assert closed == ["closed"]
    tries = server.tries("a")
    assert [attempt["processed"] for attempt in tries] == ([False, True] if is_replayed else [False])
    assert not is_replayed or tries[1]["body_bytes"] == size


def test_a_streamed_body_is_never_sent_again_after_an_answer_or_a_loss(peer: MakePeer, call: Call) -> None:
    server = peer({"answer": {"status": 503, "retry_after": {"seconds": 0}}})
    response = call(call.transport(), "PUT", server.url, content=call.pieces([b"x"]), headers=ID)
    assert (response.status_code, len(attempts_of(response))) == (503, 1)
    server = peer({"rules": [{"at": "processed", "do": ["reset"]}]})
    with pytest.raises(httpx.ReadError) as caught:
        call(call.transport(), "PUT", server.url, content=call.pieces([b"x"]), headers=ID)
    assert len(attempts_of(caught.value)) == 1


def test_a_file_stays_open_and_its_length_is_told(peer: MakePeer, tmp_path: Path) -> None:
    server = peer(refused_after(20_000))
    path = tmp_path / "file"
    path.write_bytes(b"f" * 50_000)
    transport = oncebox.httpx.Transport(http_version="2")
    with httpx.Client(transport=transport) as client, path.open("rb") as file:
        response = client.post(server.url, content=file, headers=ID)
        assert (response.status_code, response.request.headers["content-length"]) == (200, "50000")
        assert not file.closed
        assert file.read() == b""
    assert [attempt["body_bytes"] for attempt in server.tries("a")][1] == 50_000


def test_a_form_with_files_is_sent_again(peer: MakePeer, call: Call) -> None:
    server = peer(refused_after(10))
    file = io.BytesIO(b"content" * 100)
    response = call(
        call.transport(http_version="2"), "POST", server.url, files={"file": file}, data={"a": "b"}, headers=ID
    )
    assert (response.status_code, file.closed) == (200, False)
    assert [attempt["processed"] for attempt in server.tries("a")] == [False, True]


def test_what_the_iterator_raises_is_raised_and_the_part_is_not_taken_for_the_whole(peer: MakePeer, call: Call) -> None:
    server = peer()
    closed: list[str] = []
    for version in ("1.1", "2"):
        with pytest.raises(ZeroDivisionError):
            call(
                call.transport(http_version=version),
                "POST",
                server.url,
                content=call.pieces([*MUCH, ZeroDivisionError()], closed),
                headers={"x-request-id": version},
            )
    assert closed == ["closed", "closed"]
    assert [request["processed"] for request in server.report()["requests"]] == [0, 0]


def test_a_body_of_which_nothing_was_needed_is_left_unread_and_closed(call: Call) -> None:
    read: list[bytes] = []

    class Pieces:
        closed = 0

        def __iter__(self) -> Any:
            return self

        __aiter__ = __iter__

        def __next__(self) -> bytes:
            read.append(b"x")
            return b"x"

        async def __anext__(self) -> bytes:
            return self.__next__()

        def close(self) -> None:
            self.closed += 1

        async def aclose(self) -> None:
            self.close()

    pieces = Pieces()
    # Only what is both makes an iterator of each kind; httpx looks for the synchronous one first.
    content: Any = pieces if call.kind == "threads" else Async(pieces)
    with pytest.raises(httpx.ConnectError):
        call(call.transport(policy=RetryPolicy(connection_retries=0)), "POST", "http://127.0.0.1:1/", content=content)
    assert (read, pieces.closed) == ([], 1)


class Async:
    """The asynchronous side of an iterator."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> bytes:
        return self.inner.__next__()

    async def aclose(self) -> None:
        self.inner.close()


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_an_answer_that_comes_before_the_body_was_read_ends_it(peer: MakePeer, call: Call, version: str) -> None:
    answer = {"answer": {"status": 413, "body": {"text": "too large"}}}
    server = peer({"rules": [{"at": {"request_body": 1}, "do": [answer]}]})
    closed: list[str] = []
    endless = call.pieces((b"x" * 10_000 for _ in range(100_000)), closed)
    response = call(call.transport(http_version=version), "POST", server.url, content=endless, timeout=20)
    assert (response.status_code, response.text, closed) == (413, "too large", ["closed"])


def test_a_cancelled_call_closes_its_iterator(peer: MakePeer) -> None:
    server = peer()
    closed: list[str] = []

    async def work() -> None:
        waiting = asyncio.Event()

        async def pieces() -> Any:
            try:
                for piece in MUCH:
                    yield piece
                waiting.set()
                await asyncio.sleep(3600)
            finally:
                closed.append("closed")

        client = httpx.AsyncClient(transport=oncebox.httpx.AsyncTransport())
        task = asyncio.ensure_future(client.post(server.url, content=pieces(), headers=ID))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert closed == ["closed"]
    assert [attempt["processed"] for attempt in server.tries("a")] == [False]


def test_retired_connections_lose_and_double_nothing(peer: MakePeer) -> None:
    server = peer("requests-lost-when-connections-retire", tls=True)

    async def pieces(number: int) -> Any:
        for _ in range(3):
            yield b"%05d" % number

    async def work() -> list[int]:
        slots = asyncio.Semaphore(64)
        client = httpx.AsyncClient(transport=oncebox.httpx.AsyncTransport(ca_certificates=server.ca))

        async def one(number: int) -> int:
            async with slots:
                headers = {"x-request-id": str(number)}
                return (await client.post(server.url, content=pieces(number), headers=headers)).status_code

        return await asyncio.gather(*map(one, range(2000)))

    assert asyncio.run(work()) == [200] * 2000
    totals = server.report()["totals"]
    assert (totals["processed"], totals["doubled"]) == (2000, 0)


@pytest.mark.parametrize("over", ["transport", "retry"])
def test_buffers_of_an_iterator_were_refused(peer: MakePeer, call: Call, over: str) -> None:
    server = peer(refused_after(1))
    content = call.pieces([bytearray(b""), bytearray(b"one "), memoryview(b"two")])  # type: ignore[list-item]
    if over == "transport":
        transport = call.transport(http_version="2")
    else:
        transport = call.retry(httpx.HTTPTransport() if call.kind == "threads" else httpx.AsyncHTTPTransport())
    assert call(transport, "POST", server.url, content=content, headers=ID).status_code == 200
    assert server.tries("a")[-1]["body_bytes"] == 7


@pytest.mark.parametrize("wrong", [5, 0, "text", None], ids=repr)
@pytest.mark.parametrize("over", ["transport", "retry"])
def test_pieces_that_are_none_are_refused(peer: MakePeer, call: Call, over: str, wrong: Any) -> None:
    server = peer()
    closed: list[str] = []
    if over == "transport":
        transport = call.transport()
    else:
        transport = call.retry(httpx.HTTPTransport() if call.kind == "threads" else httpx.AsyncHTTPTransport())
    with pytest.raises(TypeError, match=f"pieces are bytes, not {type(wrong).__name__}"):
        call(transport, "POST", server.url, content=call.pieces([b"x", wrong], closed))
    assert closed == ["closed"]
