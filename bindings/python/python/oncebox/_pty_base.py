"""Starting terminals, which differs on the two sides: one is handed what comes, the other asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from ._options import timed
from ._run import run_async, run_sync
from ._types import OutputHandler, PtySize

if TYPE_CHECKING:
    from ._async.command_handle import AsyncCommandHandle
    from ._sync.command_handle import CommandHandle


def _options(user: str | None, cwd: str | None, envs: dict[str, str] | None, timeout: float | None) -> dict[str, Any]:
    return {"user": user, "cwd": cwd, "envs": envs, "timeout": timeout}


class PtyBase:
    """Terminals whose output is asked for."""

    _core: _core.Sandbox

    def create(
        self,
        size: PtySize,
        user: str | None = None,
        cwd: str | None = None,
        envs: dict[str, str] | None = None,
        timeout: float | None = 60,
        request_timeout: float | None = None,
    ) -> CommandHandle:
        """Starts a login shell on a terminal.

        :param size: of the terminal
        :param user: whom it runs as; the sandbox's default user by default
        :param cwd: its working directory
        :param envs: environment variables
        :param timeout: seconds after which the sandbox kills it; 0 and ``None`` are none
        """
        from ._sync.command_handle import CommandHandle

        core = timed(self._core, request_timeout)
        started = core.start_terminal(size.cols, size.rows, _options(user, cwd, envs, timeout))
        return CommandHandle(run_sync(started), terminal=True)

    def connect(self, pid: int, timeout: float | None = 60, request_timeout: float | None = None) -> CommandHandle:
        """Attaches to a command on a terminal: what it does from now on.

        :param timeout: seconds that it is followed; 0 and ``None`` are none
        """
        from ._sync.command_handle import CommandHandle

        core = timed(self._core, request_timeout)
        return CommandHandle(run_sync(core.connect_command(pid, True, {"timeout": timeout})), terminal=True)


class AsyncPtyBase:
    """Terminals whose output is handed on as it comes."""

    _core: _core.Sandbox

    async def create(
        self,
        size: PtySize,
        on_data: OutputHandler[bytes],
        user: str | None = None,
        cwd: str | None = None,
        envs: dict[str, str] | None = None,
        timeout: float | None = 60,
        request_timeout: float | None = None,
    ) -> AsyncCommandHandle:
        """Starts a login shell on a terminal.

        :param size: of the terminal
        :param on_data: called with what comes on it
        :param user: whom it runs as; the sandbox's default user by default
        :param cwd: its working directory
        :param envs: environment variables
        :param timeout: seconds after which the sandbox kills it; 0 and ``None`` are none
        """
        from ._async.command_handle import AsyncCommandHandle

        core = timed(self._core, request_timeout)
        started = core.start_terminal(size.cols, size.rows, _options(user, cwd, envs, timeout))
        return AsyncCommandHandle(await run_async(started), on_pty=on_data, terminal=True)

    async def connect(
        self,
        pid: int,
        on_data: OutputHandler[bytes],
        timeout: float | None = 60,
        request_timeout: float | None = None,
    ) -> AsyncCommandHandle:
        """Attaches to a command on a terminal: what it does from now on.

        :param on_data: called with what comes on it
        :param timeout: seconds that it is followed; 0 and ``None`` are none
        """
        from ._async.command_handle import AsyncCommandHandle

        core = timed(self._core, request_timeout)
        connected = core.connect_command(pid, True, {"timeout": timeout})
        return AsyncCommandHandle(await run_async(connected), on_pty=on_data, terminal=True)
