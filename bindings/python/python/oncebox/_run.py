"""Waiting for operations, in threads and in event loops.

An operation (``_core.Pending``) goes on by itself, on the process's IO thread. :func:`run_sync` blocks until it ends;
:func:`run_async` suspends the current task. No object is bound to a loop: each loop has a *port*, one file descriptor that
becomes readable when operations of this loop have ended, so that however many end at a time cost one wake-up.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import inspect
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary, ref

from . import _core

if TYPE_CHECKING:
    import trio
    import trio.lowlevel

T = TypeVar("T")


def run_sync(operation: _core.Pending[T]) -> T:
    """Waits for an operation. Ctrl-C gives it up."""
    _core.log_debug(logger.isEnabledFor(logging.DEBUG))
    try:
        return operation.wait()
    finally:
        if _core.has_log():
            log()


async def run_async(operation: _core.Pending[T]) -> T:
    """Waits for an operation in an event loop of asyncio or trio. Cancelling the task gives it up."""
    _core.log_debug(logger.isEnabledFor(logging.DEBUG))
    try:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return await _trio_port().wait(operation)
        return await _asyncio_port(loop).wait(operation)
    finally:
        if _core.has_log():
            log()


async def sleep_async(delay: float) -> None:
    """Sleeps in whichever event loop runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        import trio

        await trio.sleep(delay)
    else:
        await asyncio.sleep(delay)


def sleep_sync(delay: float) -> None:
    """Sleeps."""
    time.sleep(delay)


logger = logging.getLogger("oncebox")
"""What is told of calls: warnings, and at DEBUG each call that took more than one attempt, as a block of its attempts."""
# Off unless somebody wants it.
logger.addHandler(logging.NullHandler())


def log() -> None:
    """Hands on what was said meanwhile. It is said on the IO thread, which never waits for Python."""
    for level, text in _core.take_log():
        logger.log(level, "%s", text)


def turn_sync() -> None:
    """A thread that begins something keeps nobody else from it."""


async def turn_async() -> None:
    """Waits for a later turn of the loop where very much was begun in this one. Of asyncio's; those of trio are as long as what
    is begun in them."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    await _asyncio_port(loop).turn(loop)


def call_sync(callback: Callable[[T], object], value: T) -> None:
    """Hands a value to a callback."""
    callback(value)


async def call_async(callback: Callable[[T], object], value: T) -> None:
    """Hands a value to a callback, and waits for it where it can be waited for."""
    result = callback(value)
    if inspect.isawaitable(result):
        await result


def cancel_task(task: asyncio.Task[Any]) -> None:
    """Cancels a task, which may be what ends with a loop that was closed meanwhile: then nothing of it goes on anyway."""
    if not task.get_loop().is_closed():
        task.cancel()


def is_cancellation(error: BaseException) -> bool:
    """Whether it is how an event loop ends a task."""
    if isinstance(error, asyncio.CancelledError):
        return True
    loaded: Any = sys.modules.get("trio")
    return loaded is not None and isinstance(error, loaded.Cancelled)


def shielded_sync() -> AbstractContextManager[object]:
    """A thread is not cancelled."""
    return nullcontext()


def shielded_async() -> AbstractContextManager[object]:
    """Within it a task that was cancelled may wait once more. One of asyncio may anyway; trio cancels every wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        import trio

        return trio.CancelScope(shield=True)
    return nullcontext()


class Background:
    """Something that goes on beside the task that started it. Its failure is told to who joins it."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._failure: BaseException | None = None
        self._scope: trio.CancelScope | None = None
        self._ended: trio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._trio_task: trio.lowlevel.Task | None = None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            import trio
            import trio.lowlevel

            self._scope, self._ended = trio.CancelScope(), trio.Event()
            # Its own would be the loop's: asyncio gives a task its maker's.
            context = contextvars.copy_context()
            trio.lowlevel.spawn_system_task(self._of_trio, name="oncebox background", context=context)
        else:
            self._task = loop.create_task(self._guarded(), name="oncebox background")

    async def _guarded(self) -> None:
        try:
            await self._work()
        except Exception as error:
            self._failure = error

    async def _of_trio(self) -> None:
        assert self._scope is not None
        assert self._ended is not None
        import trio.lowlevel

        self._trio_task = trio.lowlevel.current_task()
        try:
            with self._scope:
                await self._guarded()
        finally:
            self._ended.set()

    async def join(self) -> None:
        """Waits for its end, and raises what it failed with. Cancelling the wait does not cancel it."""
        if self._task is not None:
            await asyncio.wait([self._task])
        elif self._ended is not None:
            await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    def is_here(self) -> bool:
        """Whether it is what runs now."""
        if self._task is not None:
            return asyncio.current_task() is self._task
        import trio.lowlevel

        return self._trio_task is trio.lowlevel.current_task()

    def cancel(self) -> None:
        """Ends it."""
        if self._task is not None:
            cancel_task(self._task)
        elif self._scope is not None:
            self._scope.cancel()


#: Commands that are begun in one turn of a loop. A program that begins ten thousand at a time has its timers kept meanwhile.
_LOT = 128


class _AsyncioPort:
    """Where the operations of one asyncio loop end.

    It is the loop's own: nothing else holds it. A loop that is closed while operations are under way lets go of it, and with it
    of the tasks that waited, so that what they waited for is given up.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._completions = _core.Completions()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._next = 0
        #: What was begun in this turn of the loop, and who waits for a later one.
        self._begun = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        loop.add_reader(self._completions.fileno(), self._drain)

    async def wait(self, operation: _core.Pending[T]) -> T:
        token = self._next
        self._next += 1
        if not operation.notify(self._completions, token):
            future = asyncio.get_running_loop().create_future()
            self._waiting[token] = future
            try:
                await future
            except BaseException:
                operation.cancel()
                raise
            finally:
                self._waiting.pop(token, None)
        return operation.take()

    async def turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._begun < _LOT:
            if self._begun == 0:
                loop.call_soon(self._next_turn)
            self._begun += 1
            return
        future = loop.create_future()
        self._queue.append(future)
        await future

    def _next_turn(self) -> None:
        self._begun = 0
        while self._queue and self._begun < _LOT:
            future = self._queue.popleft()
            if not future.done():
                future.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _drain(self) -> None:
        for token in self._completions.take():
            future = self._waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_result(None)


class _TrioPort:
    """Where the operations of one trio run end: a system task watches the descriptor."""

    def __init__(self) -> None:
        self._completions = _core.Completions()
        self._waiting: dict[int, trio.lowlevel.Task] = {}
        self._next = 0

    async def wait(self, operation: _core.Pending[T]) -> T:
        import trio.lowlevel

        try:
            await trio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            # It goes on by itself since it was made.
            operation.cancel()
            raise
        token = self._next
        self._next += 1
        if operation.notify(self._completions, token):
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            self._waiting[token] = trio.lowlevel.current_task()

            def abort(_: object) -> trio.lowlevel.Abort:
                self._waiting.pop(token, None)
                operation.cancel()
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)
        return operation.take()

    async def watch(self) -> None:
        import trio.lowlevel

        while True:
            await trio.lowlevel.wait_readable(self._completions.fileno())
            for token in self._completions.take():
                task = self._waiting.pop(token, None)
                if task is not None:
                    trio.lowlevel.reschedule(task)


#: Neither is held: a port has futures, and so its loop.
_asyncio_ports: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[_AsyncioPort]] = WeakKeyDictionary()
_trio_ports: Any = None
_making = threading.Lock()


def _asyncio_port(loop: asyncio.AbstractEventLoop) -> _AsyncioPort:
    known = _asyncio_ports.get(loop)
    port = None if known is None else known()
    if port is None:
        port = _AsyncioPort(loop)
        with _making:
            _asyncio_ports[loop] = ref(port)
    return port


def _trio_port() -> _TrioPort:
    global _trio_ports
    if "trio" not in sys.modules:
        raise RuntimeError("oncebox: no event loop of asyncio or trio is running in this thread")
    import trio.lowlevel

    with _making:
        if _trio_ports is None:
            _trio_ports = trio.lowlevel.RunVar("oncebox port", None)
    port: _TrioPort | None = _trio_ports.get()
    if port is None:
        port = _TrioPort()
        _trio_ports.set(port)
        trio.lowlevel.spawn_system_task(port.watch, name="oncebox port")
    return port


#: Run before the IO thread ends, while it still works. Each bounds itself.
_last_words: list[Callable[[], None]] = []
#: Run in a forked child.
_in_children: list[Callable[[], None]] = []


def before_exit(action: Callable[[], None]) -> None:
    """Has ``action()`` called when the interpreter ends, before the IO thread does."""
    _last_words.append(action)


def in_child(action: Callable[[], None]) -> None:
    """Has ``action()`` called in each child that this process forks, before anything else."""
    _in_children.append(action)


def _end() -> None:
    try:
        if _core.is_running():
            for action in _last_words:
                action()
            log()
    finally:
        _core.shut_down()


def _in_child() -> None:
    global _making, _trio_ports
    _core.after_fork_in_child()
    # The parent's descriptors tell the parent; its locks are held by threads that are not here.
    _making = threading.Lock()
    _asyncio_ports.clear()
    _trio_ports = None
    for action in _in_children:
        action()


os.register_at_fork(before=_core.before_fork, after_in_parent=_core.after_fork_in_parent, after_in_child=_in_child)
atexit.register(_end)
