"""How a command ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from .exceptions import SandboxException

OutputT = TypeVar("OutputT", default=str)
"""``str``, or ``None`` where ``retain_output=False`` keeps nothing."""


@dataclass
class CommandResult(Generic[OutputT]):
    """What a command wrote, and how it ended."""

    stderr: OutputT
    """Its standard error."""
    stdout: OutputT
    """Its standard output."""
    exit_code: int
    """0 is success; 128 + n: signal n ended it."""
    error: str | None
    """The server's words where it did not end by itself."""


class CommandExitException(SandboxException, CommandResult[OutputT]):
    """A command ended with another exit code than 0."""

    def __init__(self, stdout: OutputT, stderr: OutputT, exit_code: int, error: str | None = None) -> None:
        super().__init__(f"command exited with code {exit_code}" + (f": {error}" if error else ""))
        self.stdout = stdout
        self.stderr = stderr
        self.exit_code = exit_code
        self.error = error
        self.may_have_been_processed = True

    def __reduce__(self) -> tuple[Any, ...]:
        # By what it is made of: an exception's own way gives the message alone.
        return type(self), (self.stdout, self.stderr, self.exit_code, self.error), self.__dict__

    def __str__(self) -> str:
        error = f": {self.error}" if self.error else ""
        told = str(self.stderr).rstrip() if self.stderr else ""
        return f"command exited with code {self.exit_code}{error}" + (f"\n{told}" if told else "")


def result(ended: dict[str, Any]) -> CommandResult[Any]:
    """How a command ended, or the exception of another exit code than 0."""
    if ended["exit_code"] != 0:
        raise CommandExitException(**ended)
    return CommandResult(**ended)


def encoded(data: str | bytes) -> bytes:
    """What is written, as bytes. A number is none: ``bytes(5)`` would be five zeros."""
    if isinstance(data, (str, bytes)):
        return data.encode() if isinstance(data, str) else data
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise TypeError(f"data: str or bytes are wanted, not {type(data).__name__}") from None
