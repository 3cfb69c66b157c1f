"""Files that are read as they come."""

from __future__ import annotations

from typing_extensions import Self

from .. import _core
from .._run import run_async


class AsyncPieces:
    """The pieces of a file, of which a wait that is cancelled takes none: who asks again has the next one.

    No longer referenced, or closed, the file is given up.
    """

    def __init__(self, core: _core.Reading | _core.VolumeReading) -> None:
        self._core = core

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await run_async(self._core.next())
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Gives up what was not read."""
        self._core.close()
