# Written by tools/twin.py from _async/pty.py: change it there.
"""Terminals of a sandbox."""

from __future__ import annotations

from .. import _core
from .._command_result import encoded
from .._input_base import InputBase
from .._options import timed
from .._pty_base import PtyBase
from .._run import run_sync
from .._types import PtySize


class Pty(PtyBase, InputBase):
    """The terminals of a sandbox: login shells that are typed on."""

    def __init__(self, core: _core.Sandbox) -> None:
        self._core = core
        self._terminal = True

    def send_stdin(self, pid: int, data: bytes, request_timeout: float | None = None) -> None:
        """Types on a terminal."""
        run_sync(timed(self._core, request_timeout).send_stdin(pid, encoded(data), True))

    def resize(self, pid: int, size: PtySize, request_timeout: float | None = None) -> None:
        """Sets a terminal's size."""
        run_sync(timed(self._core, request_timeout).resize(pid, size.cols, size.rows))

    def kill(self, pid: int, request_timeout: float | None = None) -> bool:
        """Kills a command on a terminal (SIGKILL).

        :returns: ``False``: there was no such process
        """
        return run_sync(timed(self._core, request_timeout).kill_command(pid))
