"""What handles on commands have that differs on the two sides."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from . import _core
from ._command_result import CommandResult, result
from ._run import Background, run_async, run_sync
from ._types import PtyOutput, Stderr, Stdout

Piece = tuple[Stdout | None, Stderr | None, PtyOutput | None]
"""A piece of output: one of the three is there."""


class HandleBase:
    """The output, piece by piece, as it is asked for."""

    _core: _core.Following
    _callbacks: dict[str, Callable[[Any], Any] | None]
    #: What has come with a piece that was handed on, for who goes on from there.
    _rest: deque[tuple[str, Any]]

    def __iter__(self) -> Iterator[Piece]:
        """What the command writes, piece by piece, until it ends.

        A piece is a triple of standard output, standard error and terminal output, of which one is there.
        """
        while True:
            while self._rest:
                yield _piece(*self._rest.popleft())
            self._rest.extend(run_sync(self._core.next()))
            if not self._rest:
                return

    def wait(
        self,
        on_pty: Callable[[bytes], None] | None = None,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> CommandResult[Any]:
        """Waits for its end.

        :param on_pty: called with what it writes to its terminal from now on
        :param on_stdout: called with what it writes to its standard output from now on
        :param on_stderr: called with what it writes to its standard error from now on
        :raises CommandExitException: its exit code is not 0
        :raises OutputLostException: its stream was cut, and what it wrote meanwhile is lost
        :raises TimeoutException: the sandbox killed it for its ``timeout``
        """
        given = {"pty": on_pty, "stdout": on_stdout, "stderr": on_stderr}
        self._callbacks |= {kind: callback for kind, callback in given.items() if callback is not None}
        if any(callback is not None for callback in self._callbacks.values()):
            while self._rest:
                kind, what = self._rest.popleft()
                callback = self._callbacks[kind]
                if callback is not None:
                    callback(what)
            self._hand_on()
        return result(run_sync(self._core.wait_for_end()))

    def _begin(self) -> None:
        """Nothing is taken before somebody asks."""
        self._rest = deque()

    def _end(self) -> None:
        """Nothing is under way."""

    def _hand_on(self) -> None:
        raise NotImplementedError


class AsyncHandleBase:
    """The output is taken in the background."""

    _core: _core.Following
    _callbacks: dict[str, Callable[[Any], Any] | None]
    _background: Background | None

    async def wait(self) -> CommandResult[Any]:
        """Waits for its end.

        :raises CommandExitException: its exit code is not 0
        :raises OutputLostException: its stream was cut, and what it wrote meanwhile is lost
        :raises TimeoutException: the sandbox killed it for its ``timeout``
        """
        if self._background is not None:
            await self._background.join()
        return result(await run_async(self._core.wait_for_end()))

    def _begin(self) -> None:
        if any(callback is not None for callback in self._callbacks.values()):
            self._background = Background(self._hand_on)
        else:
            self._background = None
            self._core.pump()

    def _end(self) -> None:
        if self._background is not None:
            self._background.cancel()

    async def _hand_on(self) -> None:
        raise NotImplementedError


def _piece(kind: str, what: Any) -> Piece:
    if kind == "stdout":
        return Stdout(what), None, None
    if kind == "stderr":
        return None, Stderr(what), None
    return None, None, PtyOutput(what)
