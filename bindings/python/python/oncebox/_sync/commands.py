# Written by tools/twin.py from _async/commands.py: change it there.
"""Commands of a sandbox."""

from __future__ import annotations

import builtins
from typing import Any, Literal, overload

from .. import _core
from .. import _types as t
from .._command_result import CommandResult, encoded, result
from .._input_base import InputBase
from .._options import timed
from .._run import run_sync, turn_sync
from .._types import OutputHandler
from .command_handle import CommandHandle


class Commands(InputBase):
    """The commands of a sandbox. A command is started at most once, whatever the network does."""

    def __init__(self, core: _core.Sandbox) -> None:
        self._core = core
        self._terminal = False

    @overload
    def run(
        self,
        cmd: str,
        background: Literal[False] | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        on_stdout: OutputHandler[str] | None = None,
        on_stderr: OutputHandler[str] | None = None,
        stdin: bool | None = None,
        timeout: float | None = 60,
        request_timeout: float | None = None,
        *,
        retain_output: Literal[True] = True,
        durable: bool = False,
        id: str | None = None,
    ) -> CommandResult: ...
    @overload
    def run(
        self,
        cmd: str,
        background: Literal[False] | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        on_stdout: OutputHandler[str] | None = None,
        on_stderr: OutputHandler[str] | None = None,
        stdin: bool | None = None,
        timeout: float | None = 60,
        request_timeout: float | None = None,
        *,
        retain_output: bool,
        durable: bool = False,
        id: str | None = None,
    ) -> CommandResult[str | None]: ...
    @overload
    def run(
        self,
        cmd: str,
        background: Literal[True],
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        on_stdout: OutputHandler[str] | None = None,
        on_stderr: OutputHandler[str] | None = None,
        stdin: bool | None = None,
        timeout: float | None = 60,
        request_timeout: float | None = None,
        *,
        retain_output: bool = True,
        durable: bool = False,
        id: str | None = None,
    ) -> CommandHandle: ...
    def run(
        self,
        cmd: str,
        background: bool | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        on_stdout: OutputHandler[str] | None = None,
        on_stderr: OutputHandler[str] | None = None,
        stdin: bool | None = None,
        timeout: float | None = 60,
        request_timeout: float | None = None,
        *,
        retain_output: bool = True,
        durable: bool = False,
        id: str | None = None,
    ) -> CommandResult[Any] | CommandHandle:
        """Runs a line in a login shell (``/bin/bash -l -c``).

        :param background: returns a handle once it runs, in place of how it ended
        :param envs: environment variables
        :param user: whom it runs as; the sandbox's default user by default
        :param cwd: its working directory; the user's home by default
        :param on_stdout: called with each piece of its standard output
        :param on_stderr: called with each piece of its standard error
        :param stdin: gives it a standard input to write to
        :param timeout: seconds after which the sandbox kills it; 0 and ``None`` are none
        :param request_timeout: seconds until it runs
        :param retain_output: keeps its output for the result; up to 64 MiB
        :param durable: keeps its outputs and its end in the sandbox until they are taken, so that whatever happens to
            the connection every byte comes once, with the true exit code. Needs ``sh`` in the sandbox. Ours
        :param id: of a durable command: 1 to 64 of a-z, 0-9 and hyphens; the same id again attaches to it. Ours
        :raises CommandExitException: its exit code is not 0
        :raises OutputLostException: its stream was cut, and what it wrote meanwhile is lost; not of durable ones
        :raises TimeoutException: the sandbox killed it for its ``timeout``, or does not answer
        """
        turn_sync()
        core = timed(self._core, request_timeout)
        options: dict[str, Any] = {
            "envs": envs,
            "user": user,
            "cwd": cwd,
            "stdin": stdin,
            "timeout": timeout,
            "retain_output": retain_output,
        }
        has_callbacks = on_stdout is not None or on_stderr is not None
        if not (background or durable or has_callbacks):
            return result(run_sync(core.run(cmd, options)))
        if durable:
            following = run_sync(core.start_durable(cmd, {**options, "id": id}))
        else:
            following = run_sync(core.start(cmd, options))
        handle = CommandHandle(following, on_stdout, on_stderr)
        if background:
            return handle
        try:
            return handle.wait()
        except BaseException:
            # Cancelled, or a callback failed: nothing is told to callbacks any more, and the stream is free.
            handle._give_up()
            raise

    def connect(
        self,
        pid: int,
        timeout: float | None = 60,
        request_timeout: float | None = None,
        on_stdout: OutputHandler[str] | None = None,
        on_stderr: OutputHandler[str] | None = None,
        *,
        retain_output: bool = True,
    ) -> CommandHandle:
        """Attaches to a running command: what it does from now on.

        :param pid: its process
        :param timeout: seconds that it is followed; 0 and ``None`` are none
        :param on_stdout: called with each piece of its standard output
        :param on_stderr: called with each piece of its standard error
        :raises NotFoundException: there is no such process
        """
        options = {"timeout": timeout, "retain_output": retain_output}
        core = timed(self._core, request_timeout)
        return CommandHandle(run_sync(core.connect_command(pid, False, options)), on_stdout, on_stderr)

    def attach(
        self,
        id: str,
        timeout: float | None = None,
        on_stdout: OutputHandler[str] | None = None,
        on_stderr: OutputHandler[str] | None = None,
        *,
        user: str | None = None,
        stdout_offset: int = 0,
        stderr_offset: int = 0,
        retain_output: bool = True,
    ) -> CommandHandle:
        """Attaches to a durable command, from any process, while it runs or up to a day after its end. Ours.

        :param id: the ``id`` of its handle
        :param timeout: seconds that it is followed; none by default
        :param user: whom it runs as
        :param stdout_offset: bytes of its standard output that were had already
        :param stderr_offset: bytes of its standard error that were had already
        :raises NotFoundException: the sandbox has none of this id and user
        """
        options = {
            "timeout": timeout,
            "user": user,
            "stdout_offset": stdout_offset,
            "stderr_offset": stderr_offset,
            "retain_output": retain_output,
        }
        return CommandHandle(run_sync(self._core.attach(id, options)), on_stdout, on_stderr)

    def forget(self, id: str, *, user: str | None = None) -> bool:
        """Removes what is kept of a durable command that has ended. Ours.

        :returns: ``False``: there is nothing
        """
        return run_sync(self._core.forget(id, user))

    def list(self, request_timeout: float | None = None) -> builtins.list[t.ProcessInfo]:
        """Lists the commands that run."""
        told = run_sync(timed(self._core, request_timeout).list_commands())
        return [t.ProcessInfo(**one) for one in told]

    def kill(self, pid: int, request_timeout: float | None = None) -> bool:
        """Kills a process (SIGKILL); what that has started may go on.

        :returns: ``False``: there was no such process
        """
        return run_sync(timed(self._core, request_timeout).kill_command(pid))

    def send_stdin(self, pid: int, data: str | bytes, request_timeout: float | None = None) -> None:
        """Writes to a process's standard input."""
        run_sync(timed(self._core, request_timeout).send_stdin(pid, encoded(data), False))

    def close_stdin(self, pid: int, request_timeout: float | None = None) -> None:
        """Closes a process's standard input, so that it reads end-of-file."""
        run_sync(timed(self._core, request_timeout).close_stdin(pid))
