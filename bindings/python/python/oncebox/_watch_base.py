"""Watching directories, which differs on the two sides: one is told of changes, the other asks for them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from . import _core
from ._options import timed
from ._run import Background, call_async, run_async, run_sync
from ._types import FilesystemEvent, OutputHandler, filesystem_events


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
        self._background = Background(self._hand_on)

    async def _hand_on(self) -> None:
        end: Exception | None = None
        try:
            while told := await run_async(self._core.next()):
                for event in filesystem_events(told):
                    await call_async(self._on_event, event)
        except Exception as error:
            end = error
        if self._on_exit is not None:
            result: Any = self._on_exit(end)
            if inspect.isawaitable(result):
                await result

    async def stop(self) -> None:
        """Stops watching."""
        self._background.cancel()
        await run_async(self._core.stop())


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
