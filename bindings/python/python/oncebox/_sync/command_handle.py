# Written by tools/twin.py from _async/command_handle.py: change it there.
"""Running commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core
from .._command_result import encoded
from .._handle_base import HandleBase
from .._run import call_sync, run_sync
from .._types import OutputHandler


class CommandHandle(HandleBase):
    """A running command. Letting go of it leaves the command running."""

    def __init__(
        self,
        core: _core.Following,
        on_stdout: OutputHandler[str] | None = None,
        on_stderr: OutputHandler[str] | None = None,
        on_pty: OutputHandler[bytes] | None = None,
        terminal: bool = False,
    ) -> None:
        self._core = core
        self._terminal = terminal
        self._callbacks: dict[str, Callable[[Any], Any] | None] = {
            "stdout": on_stdout,
            "stderr": on_stderr,
            "pty": on_pty,
        }
        self._begin()

    @property
    def pid(self) -> int:
        """Its process id in the sandbox. A durable command has none that can be told: 0."""
        return self._core.pid or 0

    @property
    def id(self) -> str | None:
        """The id of a durable command, by which any client attaches to it. Ours."""
        return self._core.id

    @property
    def stdout(self) -> str:
        """What it wrote to its standard output so far, as far as that was taken and is retained."""
        return self._core.stdout

    @property
    def stderr(self) -> str:
        """What it wrote to its standard error so far, as far as that was taken and is retained."""
        return self._core.stderr

    @property
    def exit_code(self) -> int | None:
        """Its exit code, once it has ended."""
        ended = self._core.ended
        return None if ended is None else ended["exit_code"]

    @property
    def error(self) -> str | None:
        """The server's words where it did not end by itself."""
        ended = self._core.ended
        return None if ended is None else ended["error"]

    def _hand_on(self) -> None:
        while pieces := run_sync(self._core.next()):
            for kind, what in pieces:
                callback = self._callbacks[kind]
                if callback is not None:
                    call_sync(callback, what)

    def kill(self) -> bool:
        """Kills it (SIGKILL); a durable one with all that it started.

        :returns: ``False``: it had ended already
        """
        return run_sync(self._core.kill())

    def disconnect(self) -> None:
        """Stops following it. It goes on running; ``commands.connect`` attaches to it again."""
        self._end()
        run_sync(self._core.disconnect())

    def _give_up(self) -> None:
        """Stops following it: who asked for its end has gone."""
        self._end()
        self._core.give_up()

    def send_stdin(self, data: str | bytes, request_timeout: float | None = None) -> None:
        """Writes to its standard input, or types on its terminal."""
        run_sync(self._core.send_stdin(encoded(data), self._terminal))

    def close_stdin(self, request_timeout: float | None = None) -> None:
        """Closes its standard input, so that it reads end-of-file."""
        run_sync(self._core.close_stdin())
