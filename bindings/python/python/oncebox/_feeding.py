"""Request bodies that are read beside the response: a thread's, or a task's, until the server has all of it."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from typing import Any

from . import _core, _http
from ._run import cancel_task, run_async, run_sync, shielded_async


class _Feeder:
    def __init__(self, content: Any, length: int | None) -> None:
        self.upload = _core.RequestBody(length)
        #: What the caller's own iterator raised.
        self.error: BaseException | None = None
        self._content = content
        self._given_up = False

    @property
    def is_over(self) -> bool:
        """Whether nothing of the content will be wanted any more."""
        return self.upload.is_over()

    def _failed(self, error: BaseException) -> None:
        # How a reader ends that was given up is no failure of the caller's.
        if not self._given_up:
            self.error = error
        # So that nobody takes the part for the whole.
        self.upload.fail(type(error).__name__)

    def _owned(self, pieces: Any) -> list[Any]:
        """What is to be closed. A file is not: who opened it closes it."""
        return [part for part in (pieces, self._content) if not hasattr(part, "read")]

    def _give_up(self) -> None:
        self._given_up = True
        if not self.upload.is_over():
            self.upload.fail("given up")


class ThreadFeeder(_Feeder):
    """Reads an iterator on a thread of its own: the caller's waits for the response, or reads it."""

    _started = False

    def start(self) -> None:
        """Begins. What is read is closed by the thread, once nothing needs it any more."""
        self._started = True
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._run,), name="oncebox-body", daemon=True)
        thread.start()

    def _run(self) -> None:
        pieces: Any = None
        try:
            pieces = iter(self._content)
            while run_sync(self.upload.wanted(True)):
                try:
                    piece = _http.piece_of(next(pieces))
                except StopIteration:
                    self.upload.end()
                    break
                if piece:
                    self.upload.feed(piece)
        except BaseException as error:
            self._failed(error)
        finally:
            _http.close_sync(*self._owned(pieces))

    def close(self) -> None:
        """Nothing of it is needed any more. An iterator that waits for something is closed when it comes back from that."""
        self._give_up()
        if not self._started:
            self._started = True
            _http.close_sync(*self._owned(None))


class TaskFeeder(_Feeder):
    """Reads an async iterator in a task of its own."""

    def __init__(self, content: Any, length: int | None) -> None:
        super().__init__(content, length)
        self._cancel: Any = None
        self._begun = False

    def start(self) -> None:
        """Begins, in the event loop that runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            import trio

            scope = trio.CancelScope()
            # Its own would be the loop's: asyncio gives a task its maker's.
            context = contextvars.copy_context()
            trio.lowlevel.spawn_system_task(self._run_within, scope, name="oncebox body", context=context)
            self._cancel = scope.cancel
        else:
            task = loop.create_task(self._run(), name="oncebox body")
            self._cancel = functools.partial(cancel_task, task)

    async def _run_within(self, scope: Any) -> None:
        with scope:
            await self._run()

    async def _run(self) -> None:
        self._begun = True
        pieces: Any = None
        try:
            pieces = aiter(self._content)
            while await run_async(self.upload.wanted(True)):
                try:
                    piece = _http.piece_of(await anext(pieces))
                except StopAsyncIteration:
                    self.upload.end()
                    break
                if piece:
                    self.upload.feed(piece)
        except BaseException as error:
            # A cancellation, too: it may be that of a task which the iterator waited for.
            self._failed(error)
            if not isinstance(error, Exception):
                raise
        finally:
            with shielded_async():
                await _http.close_async(*self._owned(pieces))

    def close(self) -> None:
        """Nothing of it is needed any more."""
        self._give_up()
        if self._cancel is None:
            # Only its task can wait for the content to be closed.
            self.start()
        elif self._begun:
            # Before that, the task would never run. It ends by itself.
            self._cancel()
