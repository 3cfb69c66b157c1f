"""How a command ended."""

from __future__ import annotations

from dataclasses import dataclass

from .exceptions import SandboxException


@dataclass
class CommandResult:
    """What a command wrote, and how it ended."""

    stderr: str
    """Its standard error."""
    stdout: str
    """Its standard output."""
    exit_code: int
    """0 is success; 128 + n: signal n ended it."""
    error: str | None
    """The server's words where it did not end by itself."""


class CommandExitException(SandboxException, CommandResult):
    """A command ended with another exit code than 0."""

    def __init__(self, stdout: str, stderr: str, exit_code: int, error: str | None = None) -> None:
        super().__init__(f"command exited with code {exit_code}" + (f": {error}" if error else ""))
        self.stdout = stdout
        self.stderr = stderr
        self.exit_code = exit_code
        self.error = error

    def __str__(self) -> str:
        end = f"\n{self.stderr.rstrip()}" if self.stderr.strip() else ""
        return f"command exited with code {self.exit_code}{': ' + self.error if self.error else ''}{end}"
