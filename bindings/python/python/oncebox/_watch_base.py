"""Watching directories, which differs on the two sides: one is told of changes, the other asks for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from . import _core
from ._file_types import FilesystemEvent, filesystem_events
from ._options import timed
from ._run import Background, call_async, is_cancellation, logger, run_async, run_sync, shielded_async
from ._types import OutputHandler


class WatchHandle:
    """A directory whose changes the sandbox gathers until they are fetched."""

    def __init__(self, core: _core.Watcher) -> None:
        self._core = core

    def get_new_events(self, request_timeout: float | None = None) -> list[FilesystemEvent]:
        """What changed since the last call."""
        return filesystem_events(run_sync(self._core.events()))

    def stop(self, request_timeout: float | None = None) -> None:
        """Stops watching."""
        run_sync(self._core.stop())


class WatchBase:
    """Watches whose changes are asked for."""

    _core: _core.Sandbox

    def watch_dir(
        self,
        path: str,
        user: str | None = None,
        request_timeout: float | None = None,
        recursive: bool = False,
        include_entry: bool = False,
        allow_network_mounts: bool = False,
    ) -> WatchHandle:
        """Lets the sandbox gather changes of a directory until they are fetched.

        :param recursive: also what is below it
        :param include_entry: describes with each change what the path is now
        :param allow_network_mounts: allows directories of which not all changes may be seen
        """
        options = _options(user, recursive, include_entry, allow_network_mounts)
        return WatchHandle(run_sync(timed(self._core, request_timeout).watch(path, options)))


class AsyncWatchHandle:
    """A directory that is watched."""

    def __init__(
        self,
        core: _core.Changes,
        on_event: OutputHandler[FilesystemEvent],
        on_exit: Callable[[Exception | None], None] | Callable[[Exception | None], Awaitable[None]] | None = None,
    ) -> None:
        self._core = core
        self._on_event = on_event
        self._on_exit = on_exit
        self._stopped = False
        self._begun = False
        self._background = Background(self._hand_on)

    async def _hand_on(self) -> None:
        self._begun = True
        end: Exception | None = None
        try:
            while not self._stopped and (told := await run_async(self._core.next())):
                for event in filesystem_events(told):
                    if not self._stopped:
                        await call_async(self._on_event, event)
        except Exception as error:
            end = error
        except BaseException as error:
            # Stopped from outside, which is an end like any other.
            if is_cancellation(error):
                with shielded_async():
                    await self._tell(None)
            raise
        await self._tell(end)

    async def _tell(self, end: Exception | None) -> None:
        if self._on_exit is None:
            return
        try:
            await call_async(self._on_exit, end)
        except Exception as error:
            # There is nobody else to be told.
            logger.warning("on_exit of a watch failed: %r", error)

    async def stop(self) -> None:
        """Stops watching. ``on_event`` is not called any more, and ``on_exit`` was, or, where one of them called this, will be
        when that has returned."""
        self._stopped = True
        stopped = self._core.stop()
        if self._background.is_here():
            await run_async(stopped)
            return
        if self._begun:
            # Before that, it would never run and tell nobody. It ends by itself.
            self._background.cancel()
        await run_async(stopped)
        await self._background.join()


class AsyncWatchBase:
    """Watches that tell of changes."""

    _core: _core.Sandbox

    async def watch_dir(
        self,
        path: str,
        on_event: OutputHandler[FilesystemEvent],
        on_exit: Callable[[Exception | None], None] | Callable[[Exception | None], Awaitable[None]] | None = None,
        user: str | None = None,
        request_timeout: float | None = None,
        timeout: float | None = 60,
        recursive: bool = False,
        include_entry: bool = False,
        allow_network_mounts: bool = False,
    ) -> AsyncWatchHandle:
        """Watches a directory.

        :param on_event: called with each change
        :param on_exit: called at the end of the watch, with what it failed with, or ``None``
        :param timeout: seconds that it is watched; 0 and ``None`` are none
        :param recursive: also what is below it
        :param include_entry: describes with each change what the path is now
        :param allow_network_mounts: allows directories of which not all changes may be seen
        """
        options = {**_options(user, recursive, include_entry, allow_network_mounts), "timeout": timeout}
        changes = await run_async(timed(self._core, request_timeout).follow(path, options))
        return AsyncWatchHandle(changes, on_event, on_exit)


def _options(user: str | None, recursive: bool, include_entry: bool, network_mounts: bool) -> dict[str, Any]:
    return {
        "user": user,
        "recursive": recursive,
        "include_entry": include_entry,
        "allow_network_mounts": network_mounts,
    }
