"""A request's body that is read while it is sent, in the task of who makes the call."""

from __future__ import annotations

from typing import Any

import httpx

from .. import _core, _http
from .._run import run_async


class AsyncSource:
    """Feeds a call from an httpx stream, piece by piece as the server takes them.

    What it reads is closed when nothing needs it any more, and not before: the mirror of what was read, from which a refused
    attempt is repeated, is the transport's.
    """

    def __init__(self, stream: Any, length: int | None) -> None:
        if not isinstance(stream, httpx.AsyncByteStream):
            raise RuntimeError("the request's body belongs to the other kind of client, synchronous or asynchronous")
        self.upload = _core.RequestBody(length)
        self.is_closed = False
        self._stream = stream
        self._pieces: Any = None

    @property
    def is_over(self) -> bool:
        """Whether nothing of it will be wanted any more."""
        return self.upload.is_over()

    async def drive(self) -> None:
        """Feeds the call until it has all, or is answered, or has failed."""
        while await run_async(self.upload.wanted()):
            await self.feed()

    async def feed(self) -> None:
        """Gives the piece that is wanted."""
        if self._pieces is None:
            self._pieces = self._stream.__aiter__()
        try:
            piece = b""
            while not piece:
                piece = _http.piece_of(await self._pieces.__anext__())
        except StopAsyncIteration:
            self.upload.end()
            await self.aclose()
        except BaseException as error:
            # So that nobody takes the part for the whole.
            self.upload.fail(type(error).__name__)
            raise
        else:
            self.upload.feed(piece)

    async def aclose(self) -> None:
        """Closes what the caller gave, but for a file, which is theirs."""
        if self.is_closed:
            return
        self.is_closed = True
        if not self.upload.is_over():
            self.upload.fail("given up")
        await _http.close_async(self._pieces, _http.owned(self._stream), self._stream)
