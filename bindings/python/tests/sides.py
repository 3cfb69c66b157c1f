"""A case is written once, and runs on both sides of the API and in both kinds of loops."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

import oncebox

#: A body of more than connections and the system hold: when all of it was taken, the server has seen the request.
MUCH = [b"x" * 100_000] * 200


class Side:
    """One side of the API, and what runs a case on it. A case is written once: ``await do(sandbox.commands.run(…))``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_async = name != "sync"
        self.Sandbox: Any = self.of(oncebox, "Sandbox")
        self.Template: Any = self.of(oncebox, "Template")
        self.Volume: Any = self.of(oncebox, "Volume")
        self.Secret: Any = self.of(oncebox, "Secret")

    def of(self, package: Any, name: str) -> Any:
        """This side's class of a module, or of a client."""
        return getattr(package, f"Async{name}" if self.is_async else name)

    def run(self, case: Callable[[], Awaitable[object]]) -> None:
        if self.name == "trio":
            trio.run(case)
        elif self.name == "asyncio":
            asyncio.run(case())  # type: ignore[arg-type]
        else:
            # Nothing in it waits: every call is over when it returns.
            coroutine: Any = case()
            with pytest.raises(StopIteration):
                coroutine.send(None)

    async def sleep(self, seconds: float) -> None:
        if self.name == "trio":
            await trio.sleep(seconds)
        elif self.name == "asyncio":
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)

    async def stream(self, pieces: Any) -> list[bytes]:
        """All pieces of a stream."""
        if self.is_async:
            return [piece async for piece in pieces]
        return list(pieces)

    def source(self, pieces: list[bytes], closed: list[bool] | None = None) -> Any:
        """Something that gives these pieces, and notes that it was closed."""

        def of_sync() -> Any:
            try:
                yield from pieces
            finally:
                (closed if closed is not None else []).append(True)

        async def of_async() -> Any:
            try:
                for piece in pieces:
                    yield piece
            finally:
                (closed if closed is not None else []).append(True)

        return of_async() if self.is_async else of_sync()


async def do(result: Any) -> Any:
    """The result of a call on either side."""
    return await result if inspect.isawaitable(result) else result
