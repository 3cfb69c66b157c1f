"""Very many commands at once in one loop: how they end, and what is left when the loop does."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

import oncebox
from oncebox import _run

if TYPE_CHECKING:
    from .conftest import MakePeer, Peer

#: Commands at once, and streams of a connection, which is retired once it has carried as many.
COUNT, STREAMS = 201, 50

WORDS = ["one ", "two ", "three"]

SANDBOX = {"templateID": "base", "sandboxID": "i1", "clientID": "c", "envdVersion": "0.6.13"}


def script(pause: float) -> dict[str, Any]:
    """A sandbox whose commands write a word at once, and two after a pause, in seconds."""
    events: list[Any] = [
        {"event": {"start": {"pid": 7}}},
        *({"event": {"data": {"stdout": base64.b64encode(word.encode()).decode()}}} for word in WORDS),
        {"event": {"end": {"exitCode": 0, "exited": True, "status": "exit status 0"}}},
        {},
    ]
    # Connect's envelopes: a byte of flags, of which 2 is the end, and the length in four. Two are sent at a time.
    flags = ["\0"] * (len(events) - 1) + ["\2"]
    text = "".join(f"{flag}\0\0\0{chr(96)}{json.dumps(event):96}" for flag, event in zip(flags, events, strict=True))

    def answers(path: str, status: int, content: str, text: str, **more: Any) -> dict[str, Any]:
        answer = {"status": status, "headers": {"content-type": content}, "body": {"text": text}, **more}
        return {"at": "processed", "when": {"path": path}, "do": [{"answer": answer}]}

    paced = {"frame_size": 2 * (5 + 96), "pause_ms": round(pause * 1000), "framing": "chunked"}
    return {
        "settings": {"max_concurrent_streams": STREAMS},
        "rules": [
            {"at": "request", "when": {"nth": STREAMS}, "do": [{"goaway": {}}]},
            answers("/v2/sandboxes", 201, "application/json", json.dumps(SANDBOX)),
            answers("/process.Process/Start", 200, "application/connect+json", text, **paced),
        ],
    }


#: No command ends.
HELD = script(pause=600)


@pytest.fixture(autouse=True)
def _connections_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that carries nothing is closed soon."""
    monkeypatch.setenv("E2B_KEEPALIVE_EXPIRY", "1")


async def sandbox_of(peer: Peer) -> oncebox.AsyncSandbox:
    options: dict[str, Any] = {"api_url": peer.url, "sandbox_url": peer.url, "http_version": "2"}
    return await oncebox.AsyncSandbox.create(api_key="k", request_timeout=60, **options)


class Begun:
    """Counts the commands that write, and knows when all do."""

    def __init__(self, all_do: asyncio.Event | trio.Event) -> None:
        self._left, self._all_do = COUNT, all_do

    def one(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._all_do.set()


async def one(sandbox: oncebox.AsyncSandbox, number: int, begun: Begun) -> oncebox.CommandResult[Any]:
    """A command to its end: in one call with a callback, by a handle, or by a handle with a callback."""
    if number % 3 == 0:
        heard: list[str] = []

        def hear(word: str) -> None:
            if not heard:
                begun.one()
            heard.append(word)

        result = await sandbox.commands.run("true", timeout=0, on_stdout=hear)
        assert "".join(heard) == result.stdout
        return result
    on_stdout = None if number % 3 == 1 else lambda _: None
    handle = await sandbox.commands.run("true", background=True, timeout=0, on_stdout=on_stdout)
    begun.one()
    return await handle.wait()


async def all_begun(peer: Peer) -> list[asyncio.Task[oncebox.CommandResult[Any]]]:
    """Tasks of asyncio that wait for a command each."""
    all_do = asyncio.Event()
    sandbox, begun = await sandbox_of(peer), Begun(all_do)
    tasks = [asyncio.ensure_future(one(sandbox, number, begun)) for number in range(COUNT)]
    await all_do.wait()
    return tasks


def connections(peer: Peer) -> int:
    """Connections that this process has to a server."""
    address = f"0100007F:{int(peer.url.rsplit(':', 1)[1]):04X}"
    sockets = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return sum(remote == address and state == "01" for _, _, remote, state, *_ in sockets)


def assert_all_are_given_up(peer: Peer) -> None:
    """The server was told that nobody wants any of them, and no connection is left; nor is what the loop had."""
    gc.collect()
    assert not [port for port in gc.get_objects() if isinstance(port, _run._AsyncioPort)]
    ends = time.monotonic() + 30
    while connections(peer) and time.monotonic() < ends:
        time.sleep(0.02)
    assert connections(peer) == 0
    starts = [attempt for attempt in peer.report()["without_id"] if attempt["path"].endswith("/Start")]
    assert Counter(attempt["reset_received"] for attempt in starts if attempt["processed"]) == {"CANCEL": COUNT}


def test_each_has_its_whole_output(peer: MakePeer) -> None:
    server = peer(script(pause=0.3))

    async def work() -> list[str]:
        return [(await task).stdout for task in await all_begun(server)]

    assert asyncio.run(work()) == ["".join(WORDS)] * COUNT
    totals = server.report()["totals"]
    assert (totals["processed"], totals["connections"] >= COUNT // STREAMS) == (COUNT + 1, True)


def test_each_has_its_whole_output_in_trio(peer: MakePeer) -> None:
    server = peer(script(pause=0.3))
    outputs: list[str] = []

    async def note(sandbox: oncebox.AsyncSandbox, number: int, begun: Begun) -> None:
        outputs.append((await one(sandbox, number, begun)).stdout)

    async def work() -> None:
        sandbox, begun = await sandbox_of(server), Begun(trio.Event())
        async with trio.open_nursery() as nursery:
            for number in range(COUNT):
                nursery.start_soon(note, sandbox, number, begun)

    trio.run(work)
    assert outputs == ["".join(WORDS)] * COUNT
    assert server.report()["totals"]["processed"] == COUNT + 1


counted = pytest.mark.skipif(sys.platform != "linux", reason="connections are counted in /proc")


@counted
def test_what_is_cancelled_is_given_up(peer: MakePeer) -> None:
    server = peer(HELD)

    async def work() -> list[object]:
        tasks = await all_begun(server)
        for task in tasks:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(end) for end in asyncio.run(work())] == [asyncio.CancelledError] * COUNT
    assert_all_are_given_up(server)


@counted
def test_what_a_scope_of_trio_cancels_is_given_up(peer: MakePeer) -> None:
    server = peer(HELD)

    async def work() -> bool:
        all_do = trio.Event()
        sandbox, begun = await sandbox_of(server), Begun(all_do)
        async with trio.open_nursery() as nursery:
            for number in range(COUNT):
                nursery.start_soon(one, sandbox, number, begun)
            await all_do.wait()
            nursery.cancel_scope.cancel()
        return nursery.cancel_scope.cancelled_caught

    assert trio.run(work)
    assert_all_are_given_up(server)


@counted
def test_a_program_that_fails_gives_all_of_them_up(peer: MakePeer) -> None:
    server = peer(HELD)

    async def work() -> None:
        tasks = await all_begun(server)
        raise LookupError(f"with {len(tasks)} under way")

    with pytest.raises(LookupError, match=f"with {COUNT} under way"):
        asyncio.run(work())
    assert_all_are_given_up(server)


@counted
@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_loop_that_is_closed_gives_all_of_them_up(peer: MakePeer, caplog: pytest.LogCaptureFixture) -> None:
    server = peer(HELD)

    def close_while_they_are_waited_for() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(all_begun(server))
        loop.close()

    close_while_they_are_waited_for()
    assert_all_are_given_up(server)
    # asyncio itself says that of each.
    assert "Task was destroyed but it is pending" in caplog.text


@counted
def test_a_cancelled_call_with_a_callback_frees_its_stream_at_once(peer: MakePeer) -> None:
    """Not only when the loop ends, or when the garbage collector comes by."""
    server = peer(HELD)

    async def work() -> None:
        sandbox, heard = await sandbox_of(server), asyncio.Event()
        task = asyncio.ensure_future(sandbox.commands.run("true", timeout=0, on_stdout=lambda _: heard.set()))
        await heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(all_connections_gone(), 30)

    async def all_connections_gone() -> None:
        while connections(server):
            await asyncio.sleep(0.02)

    gc.disable()
    try:
        asyncio.run(work())
    finally:
        gc.enable()
