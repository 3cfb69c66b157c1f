# Written by tools/twin.py from _async/_body.py: change it there.
"""A request's body that is read while it is sent, in the task of who makes the call."""

from __future__ import annotations

from typing import Any

import httpx

from .. import _core, _http
from .._run import run_sync


class Source:
    """Feeds a call from an httpx stream, piece by piece as the server takes them.

    What it reads is closed when nothing needs it any more, and not before: the mirror of what was read, from which a refused
    attempt is repeated, is the transport's.
    """

    def __init__(self, stream: Any, length: int | None) -> None:
        if not isinstance(stream, httpx.SyncByteStream):
            raise RuntimeError("the request's body belongs to the other kind of client, synchronous or asynchronous")
        self.upload = _core.RequestBody(length)
        self.is_closed = False
        self._stream = stream
        self._pieces: Any = None

    @property
    def is_over(self) -> bool:
        """Whether nothing of it will be wanted any more."""
        return self.upload.is_over()

    def drive(self) -> None:
        """Feeds the call until it has all, or is answered, or has failed."""
        while run_sync(self.upload.wanted()):
            self.feed()

    def feed(self) -> None:
        """Gives the piece that is wanted."""
        if self._pieces is None:
            self._pieces = self._stream.__iter__()
        try:
            piece = b""
            while not piece:
                piece = _http.piece_of(self._pieces.__next__())
        except StopIteration:
            self.upload.end()
            self.close()
        except BaseException as error:
            # So that nobody takes the part for the whole.
            self.upload.fail(type(error).__name__)
            raise
        else:
            self.upload.feed(piece)

    def close(self) -> None:
        """Closes what the caller gave, but for a file, which is theirs."""
        if self.is_closed:
            return
        self.is_closed = True
        if not self.upload.is_over():
            self.upload.fail("given up")
        _http.close_sync(self._pieces, _http.owned(self._stream), self._stream)
