# Written by tools/twin.py from _async/_reading.py: change it there.
"""Files that are read as they come."""

from __future__ import annotations

from typing_extensions import Self

from .. import _core
from .._run import run_sync


class Pieces:
    """The pieces of a file, of which a wait that is cancelled takes none: who asks again has the next one.

    No longer referenced, or closed, the file is given up.
    """

    def __init__(self, core: _core.Reading | _core.VolumeReading) -> None:
        self._core = core

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        piece = run_sync(self._core.next())
        if piece is None:
            raise StopIteration
        return piece

    def close(self) -> None:
        """Gives up what was not read."""
        self._core.close()
