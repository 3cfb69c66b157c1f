"""Builds of templates: what is told of them, and what is known of them afterwards."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal

from ._types import moment
from .exceptions import TemplateArgumentException

LogEntryLevel = Literal["debug", "info", "warn", "error"]
"""How grave an entry of a build's log is."""

_LEVELS: tuple[LogEntryLevel, ...] = ("debug", "info", "warn", "error")

#: What colours a terminal.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@dataclass
class LogEntry:
    """An entry of a build's log, without colours."""

    timestamp: datetime
    """When it was written."""
    level: LogEntryLevel
    """How grave it is."""
    message: str
    """What it says."""

    def __post_init__(self) -> None:
        self.message = _ESCAPES.sub("", self.message)

    def __str__(self) -> str:
        return f"[{self.timestamp.isoformat()}] [{self.level}] {self.message}"


@dataclass
class LogEntryStart(LogEntry):
    """The first entry."""

    level: LogEntryLevel = field(default="debug", init=False)


@dataclass
class LogEntryEnd(LogEntry):
    """The last entry, however the build ended."""

    level: LogEntryLevel = field(default="debug", init=False)


@dataclass
class BuildInfo:
    """A build that was started."""

    template_id: str
    """The template that it builds."""
    build_id: str
    """The build's id."""
    name: str
    """The template's name."""
    alias: str
    """The same."""
    tags: list[str] = field(default_factory=list[str])
    """The build's tags."""


class TemplateBuildStatus(str, Enum):
    """How far a build is."""

    BUILDING = "building"
    WAITING = "waiting"
    READY = "ready"
    ERROR = "error"


@dataclass
class BuildStatusReason:
    """Why a build failed."""

    message: str
    """What went wrong."""
    step: str | None = None
    """The step that failed."""
    log_entries: list[LogEntry] = field(default_factory=list[LogEntry])
    """What the log says about it."""


@dataclass
class TemplateBuildStatusResponse:
    """How far a build is, with a part of its log."""

    build_id: str
    """The build's id."""
    template_id: str
    """The template that it builds."""
    status: TemplateBuildStatus
    """How far it is."""
    log_entries: list[LogEntry]
    """At most 100 entries of its log."""
    logs: list[str]
    """The log as lines; empty on servers of today."""
    reason: BuildStatusReason | None = None
    """Why it failed."""


@dataclass
class TemplateTagInfo:
    """Tags that were assigned."""

    build_id: str
    """The build that they point to."""
    tags: list[str]
    """The tags."""


@dataclass
class TemplateTag:
    """A tag of a template."""

    tag: str
    """The tag."""
    build_id: str
    """The build that it points to."""
    created_at: datetime
    """Since when it does."""


class Progress:
    """What a build tells, on its way to who asked for it."""

    def __init__(self, name: str | None, alias: str | None, listener: Callable[[LogEntry], None] | None) -> None:
        if not (name or alias):
            raise TemplateArgumentException("name: a template needs one")
        self.name: str = name or alias or ""
        self.info: BuildInfo | None = None
        self._listener = listener

    def begin(self) -> None:
        self._tell(LogEntryStart(datetime.now().astimezone(), "Build started"))

    def end(self) -> None:
        self._tell(LogEntryEnd(datetime.now().astimezone(), "Build finished"))

    def take(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Passes events on, and raises what the build failed of."""
        for event in events:
            if "failed" in event:
                raise event["failed"]
            if "build_id" in event:
                names: list[str] = event["names"]
                name = names[0] if names else self.name.partition(":")[0]
                self.info = BuildInfo(event["template_id"], event["build_id"], name, name, event["tags"])
                self._note(f"Build {self.info.build_id} of template {self.info.template_id} ({name}) is under way")
            elif "from" in event:
                self._note(f"{'Uploaded' if event['sent'] else 'The server has'} {event['from']!r}")
            else:
                self._tell(log_entry(event))

    def _note(self, message: str) -> None:
        self._tell(LogEntry(datetime.now().astimezone(), "info", message))

    def _tell(self, entry: LogEntry) -> None:
        if self._listener is not None:
            self._listener(entry)

    def result(self) -> BuildInfo:
        """The build, once it was started."""
        if self.info is None:
            raise RuntimeError("oncebox: the build ended without a word")
        return self.info


def log_entry(told: Mapping[str, Any]) -> LogEntry:
    """An entry, as the extension module tells of it."""
    level = told["level"]
    return LogEntry(moment(told["timestamp"]), level if level in _LEVELS else "info", told["message"])


def build_status(told: Mapping[str, Any]) -> TemplateBuildStatusResponse:
    """How far a build is, as the extension module tells of it."""
    why = told.get("reason")
    reason = why and BuildStatusReason(why["message"], why["step"], [*map(log_entry, why["log_entries"])])
    try:
        status = TemplateBuildStatus(told["status"])
    except ValueError:
        # One that is newer than this package: it has not ended.
        status = TemplateBuildStatus.BUILDING
    entries = [log_entry(entry) for entry in told["log_entries"]]
    return TemplateBuildStatusResponse(told["build_id"], told["template_id"], status, entries, told["logs"], reason)


def default_build_logger(min_level: LogEntryLevel | None = None) -> Callable[[LogEntry], None]:
    """A listener for ``on_build_logs`` that prints entries from this level on (``info`` by default), with the time since the
    build began.
    """
    least = _LEVELS.index(min_level or "info")
    began = time.monotonic()

    def tell(entry: LogEntry) -> None:
        nonlocal began
        if isinstance(entry, LogEntryStart):
            began = time.monotonic()
        elif not isinstance(entry, LogEntryEnd) and _LEVELS.index(entry.level) >= least:
            passed = f"{time.monotonic() - began:.1f}s"
            print(f"{passed:>7} | {entry.timestamp:%H:%M:%S} {entry.level.upper():<5} {entry.message}", flush=True)

    return tell


def build_options(
    tags: list[str] | None,
    cpu_count: int | None,
    memory_mb: int | None,
    min_free_disk_mb: int | None,
    skip_cache: bool,
    wait: bool,
) -> dict[str, Any]:
    """Options of a build, as the extension module takes them."""
    numbers = {"cpu_count": cpu_count, "memory_mb": memory_mb, "min_free_disk_mb": min_free_disk_mb}
    return {"tags": tags, **numbers, "skip_cache": skip_cache, "wait": wait}
