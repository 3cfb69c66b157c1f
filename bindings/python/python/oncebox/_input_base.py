"""Streams into commands, which differ on the two sides."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from typing_extensions import Self

from . import _core
from ._command_result import encoded
from ._run import is_cancellation, run_async, run_sync


class InputBase:
    """What has a stream into a command."""

    _core: _core.Sandbox
    _terminal: bool

    def stream_input(self, pid: int, data: Iterable[str | bytes], *, timeout: float | None = 60.0) -> None:
        """Passes pieces on to a process, as fast as it reads; returns when all of them were written.

        :param data: what is written, piece by piece; closed at the end where it can be
        :param timeout: seconds that it may take; 0 and ``None`` are none
        :raises Exception: what ``data`` raises, too; then the stream is given up
        """
        pieces = iter(data)
        open_ = self._core.stream_input(pid, self._terminal, timeout)
        try:
            for piece in pieces:
                run_sync(open_.send(encoded(piece)))
            run_sync(open_.finish())
        except BaseException:
            # Who catches it has all that it names, and the stream with it.
            open_.give_up()
            raise
        finally:
            close = getattr(pieces, "close", None)
            if close is not None and not hasattr(pieces, "read"):
                close()


class AsyncCommandInputHandle:
    """An open stream into a process: send to it, and close it."""

    def __init__(self, core: _core.Input) -> None:
        self._core = core
        self._closed = False

    async def send(self, data: str | bytes) -> None:
        """Passes a piece on; returns when there is room for more."""
        await run_async(self._core.send(encoded(data)))

    async def close(self) -> None:
        """Ends the stream, and waits until all of it was written. The standard input stays open."""
        if not self._closed:
            self._closed = True
            await run_async(self._core.finish())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and is_cancellation(error):
            # Nobody waits any more.
            self._closed = True
            self._core.give_up()
        else:
            await self.close()


class AsyncInputBase:
    """What has a stream into a command."""

    _core: _core.Sandbox
    _terminal: bool

    def stream_input(self, pid: int, *, timeout: float | None = 60.0) -> AsyncCommandInputHandle:
        """Opens a stream into a process, through which it is fed as fast as it reads.

        :param timeout: seconds that it may be open; 0 and ``None`` are none
        """
        return AsyncCommandInputHandle(self._core.stream_input(pid, self._terminal, timeout))
