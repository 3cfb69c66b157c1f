"""What is uploaded, piece by piece. Sources are closed when they are not needed any more, files stay open."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any

from ._command_result import encoded

#: How much of an open file is read at a time, in bytes.
PIECE = 64 * 1024


def pieces_sync(data: Any) -> Generator[bytes, None, None]:
    """The pieces of a file or an iterable."""
    if hasattr(data, "read"):
        while piece := data.read(PIECE):
            yield encoded(piece)
        return
    if not hasattr(data, "__iter__"):
        raise TypeError(f"data: str, bytes, an open file or an iterable of bytes is wanted, not {type(data).__name__}")
    pieces: Iterator[Any] = data.__iter__()
    try:
        for piece in pieces:
            yield encoded(piece)
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()


async def pieces_async(data: Any) -> AsyncGenerator[bytes, None]:
    """The pieces of a file, an iterable or an asynchronous one."""
    if hasattr(data, "read") or not hasattr(data, "__aiter__"):
        for piece in pieces_sync(data):
            yield piece
        return
    pieces: AsyncIterator[Any] = data.__aiter__()
    try:
        async for piece in pieces:
            yield encoded(piece)
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
