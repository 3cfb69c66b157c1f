"""Servers that a part of the bench needs, and what goes wrong in one."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Failed(Exception):
    """A part could not be measured."""


class Server:
    """A process that says where it listens in its first line. Ended with the block."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        """The next line that it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"{self._process.args!r} ended with {self._process.wait(10)} before it served")
        return line.strip()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
