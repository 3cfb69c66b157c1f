"""What can go wrong, in the classes of the official SDK.

Every class here also is a :class:`Evidence`: it carries what is known of the call that failed. Classes that the official
SDK does not have are marked as ours; each derives from the official one that would have been raised in its place, so that
existing ``except`` clauses go on catching it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Outcome(str, Enum):
    """What is known of one attempt."""

    NOT_SENT = "not_sent"
    """No byte of the request reached the server."""
    REFUSED = "refused"
    """The server says that it did not process the request."""
    RESPONDED = "responded"
    """An answer began."""
    SENT_UNKNOWN = "sent_unknown"
    """It was sent, and no answer came: it may have been processed."""
    CANCELLED = "cancelled"
    """The caller gave the call up."""
    TIMED_OUT = "timed_out"
    """The call's deadline passed."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Attempt:
    """One attempt of a call."""

    outcome: Outcome
    """What is known of it."""
    purpose: str
    """``call``, or what a lost create was looked for with: ``look_up``, ``poll``, ``kill``."""
    started: float
    """When it began, in seconds since the call did."""
    ended: float
    """When it ended, likewise."""
    connection: int | None
    """The connection it used, by a number that is unique in the process."""
    status_code: int | None
    """The status that was answered."""
    text: str
    """All of it in one line, with what was decided then, and why."""

    def __str__(self) -> str:
        return self.text


class Evidence:
    """What is known of the call that failed."""

    outcome: Outcome | None = None
    """What is known of the last attempt. ``None``: nothing was tried, or a stream had begun."""
    attempts: tuple[Attempt, ...] = ()
    """Every attempt of the call, oldest first."""
    retry_after: float | None = None
    """Seconds after which the server would like to be asked again, where it said so."""
    status_code: int | None = None
    """The status of the server's answer, where there was one."""
    error_code: str | None = None
    """The server's ``error_code``, where it sent one."""
    may_have_been_processed: bool = False
    """Whether the request may have had its effect although it failed. ``False`` is a promise."""
    intent: str | None = None
    """Which create it was; :meth:`Sandbox.resolve` finds out what became of it."""
    candidates: tuple[str, ...] = ()
    """Ids of what the call may have made although nobody knows; of a template's build that ended in an error, its id."""


class SandboxException(Evidence, Exception):
    """Any failure of a sandbox that has no class of its own."""

    def __init__(self, *args: object, status_code: int | None = None) -> None:
        super().__init__(*args)
        if status_code is not None:
            self.status_code = status_code


class TimeoutException(SandboxException):
    """A deadline passed, or a sandbox does not answer. The message says which limit, and the option that changes it."""


class SandboxNotRunningException(TimeoutException):
    """The sandbox has ended."""


class SandboxUnreachableException(TimeoutException):
    """The sandbox runs, or may run, and what was asked for does not answer."""


class OutputLostException(SandboxUnreachableException):
    """A command's output has a gap: its stream was cut, and what it wrote meanwhile is lost. Ours.

    Durable commands (``durable=True``) lose nothing.
    """

    stdout: str = ""
    """What there is of its standard output."""
    stderr: str = ""
    """What there is of its standard error."""
    exit_code: int | None = None
    """How it ended."""


class CommandLostException(SandboxUnreachableException):
    """A command is gone, and nobody knows how it ended. Ours."""


class InvalidArgumentException(SandboxException):
    """An argument or option makes no sense. Nothing was sent, or the server says so (400)."""


class NotEnoughSpaceException(SandboxException):
    """The sandbox's disk is full (507)."""


class NotFoundException(SandboxException):
    """There is no such thing (404)."""


class FileNotFoundException(NotFoundException):
    """There is no such file or directory."""


class SandboxNotFoundException(NotFoundException):
    """There is no such sandbox."""


class VolumeNotFoundException(NotFoundException):
    """There is no such volume."""


class VolumePathNotFoundException(NotFoundException):
    """There is no such file or directory in the volume."""


class TemplateException(SandboxException):
    """The template does not have what is wanted, or cannot be used."""


class TemplateArgumentException(InvalidArgumentException, TemplateException):
    """A step of a template makes no sense: it was not added, and nothing was sent. Ours."""


class DockerfileSyntaxError(TemplateArgumentException, ValueError):
    """A Dockerfile cannot be read, or has something that has no place in a template; the message has the line."""


class UnsupportedException(TemplateException):
    """The server, or what the sandbox was made from, does not offer this. Ours."""


class RateLimitException(SandboxException):
    """Too many requests (429), after all retries. :attr:`retry_after` says when to come again."""


class GuestUnresponsiveException(SandboxException):
    """The daemon inside the sandbox did not answer, so that it was not paused (409)."""


class DesktopStreamException(SandboxException, RuntimeError):
    """A desktop is streamed already, or is not, or asks for no key. Ours; the official package raises ``RuntimeError``."""


class GitUpstreamException(SandboxException):
    """A git branch has no upstream, and nobody said where to push to or pull from."""


class NotDoneException(SandboxException):
    """The request provably did nothing: it could not be sent, or was refused. Ours."""


class OutcomeUnknownException(SandboxException):
    """The request was sent, and nobody knows what it did. Ours.

    Of a create: :attr:`intent` is its name, and :meth:`Sandbox.resolve` finds out what became of it, from any process.
    """


class IntentMismatchException(SandboxException):
    """The idempotency key or the intent stands for another request. Ours."""


class SupersededException(SandboxException):
    """The sandbox was made twice, and the other one of its intent stays. Ours."""


class SpoolFullException(SandboxException):
    """A durable command wrote more than its spool holds, and was killed for it, as it was asked to be. Ours."""


class AuthenticationException(Evidence, Exception):
    """The API key or access token is missing or refused (401, 403)."""


class GitAuthException(AuthenticationException):
    """The server of a git repository wants other credentials."""


class ServiceBusyException(Evidence, Exception):
    """The service is busy (503), after all retries. :attr:`retry_after` says when to come again."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.status_code = 503


class BuildException(Evidence, Exception):
    """A template's build failed."""


class FileUploadException(BuildException):
    """A template's file could not be uploaded."""


class VolumeException(Evidence, Exception):
    """A volume's operation failed."""


class SecretException(Evidence, Exception):
    """A secret's operation failed."""


class SecretNotFoundException(SecretException):
    """There is no such secret."""
