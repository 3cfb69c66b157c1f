"""The one place that says which exception a failure becomes. The extension module calls :func:`exception`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import exceptions as e
from ._command_result import CommandExitException

#: By the Rust SDK's kinds.
_BY_KIND: dict[str, type[Exception]] = {
    "InvalidArgument": e.InvalidArgumentException,
    "Authentication": e.AuthenticationException,
    "Conflict": e.SandboxException,
    "RateLimited": e.RateLimitException,
    "Busy": e.ServiceBusyException,
    "NotEnoughSpace": e.NotEnoughSpaceException,
    "SandboxNotRunning": e.SandboxNotRunningException,
    "SandboxUnreachable": e.SandboxUnreachableException,
    "Timeout": e.TimeoutException,
    "ConnectionLost": e.SandboxUnreachableException,
    "OutputLost": e.OutputLostException,
    "CommandLost": e.CommandLostException,
    "SpoolFull": e.SpoolFullException,
    "CannotResume": e.SandboxUnreachableException,
    "GitAuthentication": e.GitAuthException,
    "GitUpstream": e.GitUpstreamException,
    "IntentMismatch": e.IntentMismatchException,
    "Superseded": e.SupersededException,
    "BuildFailed": e.BuildException,
    "Unsupported": e.UnsupportedException,
    "Server": e.SandboxException,
}

#: What is not there, by what the operation is about.
_NOT_FOUND: dict[str, type[Exception]] = {
    "sandbox": e.SandboxNotFoundException,
    "file": e.FileNotFoundException,
    "volume": e.VolumeNotFoundException,
    "volume_path": e.VolumePathNotFoundException,
    "secret": e.SecretNotFoundException,
}

#: What the official SDK raises for whatever a server answers about these, and has no class of its own for.
_OF_SUBJECT: dict[str, type[Exception]] = {
    "volume": e.VolumeException,
    "volume_path": e.VolumeException,
    "secret": e.SecretException,
    "template": e.TemplateException,
    "build": e.BuildException,
}

#: Arguments that were refused on this side.
_ARGUMENT: dict[str, type[Exception]] = {
    "template": e.TemplateArgumentException,
    "build": e.TemplateArgumentException,
    "dockerfile": e.DockerfileSyntaxError,
}

#: What is being done when a template's files are sent.
_UPLOAD = "upload the template's files"

#: What is being done when a desktop is about to be streamed.
_STREAM = "start the stream"

#: Operations that talk to a sandbox itself: where it does not answer, that is what the official SDK says.
_INSIDE = ("file", "process")


def _class(kind: str, data: dict[str, Any]) -> type[Exception]:
    subject = data.get("subject", "other")
    if kind == "NotFound" and subject in _NOT_FOUND:
        return _NOT_FOUND[subject]
    is_answer = data.get("status_code") is not None
    if kind == "InvalidArgument" and not is_answer:
        return _ARGUMENT.get(subject, e.InvalidArgumentException)
    if subject in _OF_SUBJECT and is_answer and kind in ("NotFound", "InvalidArgument", "Conflict", "Server"):
        return e.FileUploadException if data.get("action") == _UPLOAD else _OF_SUBJECT[subject]
    if kind == "NotFound":
        return e.NotFoundException
    if kind == "Conflict" and data.get("action") == _STREAM:
        return e.DesktopStreamException
    if kind == "NotDone":
        return e.SandboxUnreachableException if subject in _INSIDE else e.NotDoneException
    if kind == "OutcomeUnknown":
        return e.SandboxUnreachableException if subject in _INSIDE else e.OutcomeUnknownException
    if data.get("guest_unresponsive"):
        return e.GuestUnresponsiveException
    return _BY_KIND.get(kind, e.SandboxException)


def exception(data: dict[str, Any]) -> Exception:
    """The exception of a failure, as the extension module tells of it."""
    kind: str = data["kind"]
    made: Exception
    if kind == "CommandFailed" and "exit_code" in data:
        made = CommandExitException(
            stdout=data["stdout"], stderr=data["stderr"], exit_code=data["exit_code"], error=data["message"]
        )
    else:
        made = _class(kind, data)(data["message"])
    _attach(made, data)
    if isinstance(made, e.OutputLostException):
        made.stdout, made.stderr = data.get("stdout", ""), data.get("stderr", "")
        made.exit_code = data.get("exit_code")
    return made


def _attach(made: Exception, data: dict[str, Any]) -> None:
    evidence: Callable[[str], Any] = data.get
    if not isinstance(made, e.Evidence):
        return
    made.attempts = attempts(evidence("attempts") or ())
    outcome = evidence("outcome")
    made.outcome = None if outcome is None else e.Outcome(outcome)
    made.retry_after = evidence("retry_after")
    if evidence("status_code") is not None:
        made.status_code = evidence("status_code")
    made.error_code = evidence("error_code")
    made.may_have_been_processed = bool(evidence("may_have_been_processed"))
    made.intent = evidence("intent")
    made.candidates = tuple(evidence("candidates") or ())


def attempts(told: Any) -> tuple[e.Attempt, ...]:
    """A call's history, as the extension module tells of it."""
    return tuple(e.Attempt(outcome=e.Outcome(attempt.pop("outcome")), **attempt) for attempt in told)
