"""Sandboxes over HTTP whose effects happen once: nothing lost, nothing doubled, and no guess about what was done."""

from __future__ import annotations

from ._command_result import CommandExitException, CommandResult
from ._core import __version__
from .exceptions import (
    Attempt,
    AuthenticationException,
    BuildException,
    CommandLostException,
    Evidence,
    FileNotFoundException,
    FileUploadException,
    GitAuthException,
    GitUpstreamException,
    GuestUnresponsiveException,
    IntentMismatchException,
    InvalidArgumentException,
    NotDoneException,
    NotEnoughSpaceException,
    NotFoundException,
    Outcome,
    OutcomeUnknownException,
    OutputLostException,
    RateLimitException,
    SandboxException,
    SandboxNotFoundException,
    SandboxNotRunningException,
    SandboxUnreachableException,
    SecretException,
    SecretNotFoundException,
    ServiceBusyException,
    SpoolFullException,
    SupersededException,
    TemplateException,
    TimeoutException,
    UnsupportedException,
    VolumeException,
    VolumeNotFoundException,
    VolumePathNotFoundException,
)

__all__ = [
    "Attempt",
    "AuthenticationException",
    "BuildException",
    "CommandExitException",
    "CommandLostException",
    "CommandResult",
    "Evidence",
    "FileNotFoundException",
    "FileUploadException",
    "GitAuthException",
    "GitUpstreamException",
    "GuestUnresponsiveException",
    "IntentMismatchException",
    "InvalidArgumentException",
    "NotDoneException",
    "NotEnoughSpaceException",
    "NotFoundException",
    "Outcome",
    "OutcomeUnknownException",
    "OutputLostException",
    "RateLimitException",
    "SandboxException",
    "SandboxNotFoundException",
    "SandboxNotRunningException",
    "SandboxUnreachableException",
    "SecretException",
    "SecretNotFoundException",
    "ServiceBusyException",
    "SpoolFullException",
    "SupersededException",
    "TemplateException",
    "TimeoutException",
    "UnsupportedException",
    "VolumeException",
    "VolumeNotFoundException",
    "VolumePathNotFoundException",
    "__version__",
]


def __getattr__(name: str) -> object:
    # `from oncebox import X` of what is not there yet becomes an ImportError whose cause says this.
    message = f"oncebox has no {name!r}; if the official SDK has it, import it from the package 'e2b'"
    if name.startswith("__"):
        raise AttributeError(message)
    raise ImportError(message)
