"""What the tests of the HTTP layer share: scripted servers, and one way to call for threads, asyncio and trio."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

import oncebox.httpx

ONCEBOX = os.environ.get("ONCEBOX_BIN") or shutil.which("oncebox")


class Peer:
    """A server that misbehaves by a script, and the log of what it saw."""

    def __init__(self, script: dict[str, Any] | str, folder: Path, *, tls: bool) -> None:
        assert ONCEBOX is not None
        self._report = folder / "report.json"
        self.ca = folder / "ca.pem"
        named = script
        if isinstance(script, dict):
            path = folder / "script.json"
            path.write_text(json.dumps(script))
            named = str(path)
        command = [ONCEBOX, "faults", "serve", str(named), "--json", "--report", str(self._report)]
        if tls:
            command += ["--tls", "--ca-out", str(self.ca)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url: str = json.loads(self._process.stdout.readline())["url"]

    def report(self) -> dict[str, Any]:
        """Ends the server and tells what it saw."""
        self.stop()
        report: dict[str, Any] = json.loads(self._report.read_text())
        return report

    def tries(self, request_id: str) -> list[dict[str, Any]]:
        """The tries of one request."""
        found = [request for request in self.report()["requests"] if request["id"] == request_id]
        return found[0]["tries"] if found else []

    def stop(self) -> None:
        """Ends the server."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._process.wait(30)


MakePeer = Callable[..., Peer]


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[MakePeer]:
    """Starts scripted servers."""
    if ONCEBOX is None:
        pytest.skip("the command `oncebox` is not there: build it and name it in ONCEBOX_BIN")
    peers: list[Peer] = []

    def start(script: dict[str, Any] | str | None = None, *, tls: bool = False) -> Peer:
        folder = tmp_path / f"peer-{len(peers)}"
        folder.mkdir()
        peers.append(Peer({} if script is None else script, folder, tls=tls))
        return peers[-1]

    yield start
    for one in peers:
        one.stop()


class Call:
    """Makes calls from threads, asyncio or trio. `pieces` becomes an iterator of the kind that this needs."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.transport: type[Any] = oncebox.httpx.Transport if kind == "threads" else oncebox.httpx.AsyncTransport
        self.retry: type[Any] = oncebox.httpx.RetryTransport if kind == "threads" else oncebox.httpx.AsyncRetryTransport

    def pieces(self, pieces: Iterable[bytes | BaseException], closed: list[str] | None = None) -> Any:
        """A generator of these; an exception among them is raised. `closed` is told when it is."""
        closed = [] if closed is None else closed

        def generate() -> Iterator[bytes]:
            try:
                for piece in pieces:
                    if isinstance(piece, BaseException):
                        raise piece
                    yield piece
            finally:
                closed.append("closed")

        async def generate_async() -> AsyncIterator[bytes]:
            try:
                for piece in pieces:
                    if isinstance(piece, BaseException):
                        raise piece
                    yield piece
            finally:
                closed.append("closed")

        return generate() if self.kind == "threads" else generate_async()

    def __call__(self, transport: Any, method: str, url: str, **given: Any) -> httpx.Response:
        """One call, its response read."""
        return self.all(transport, [(method, url, given)])[0]

    def all(self, transport: Any, calls: list[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
        """Some calls, one after another, on one client."""
        if self.kind == "threads":
            with httpx.Client(transport=transport) as client:
                return [client.request(method, url, **given) for method, url, given in calls]

        async def work() -> list[httpx.Response]:
            async with httpx.AsyncClient(transport=transport) as client:
                return [await client.request(method, url, **given) for method, url, given in calls]

        return asyncio.run(work()) if self.kind == "asyncio" else trio.run(work)


@pytest.fixture(params=["threads", "asyncio", "trio"])
def call(request: pytest.FixtureRequest) -> Call:
    """One way to call after another: the same cases hold for each."""
    return Call(request.param)
