"""Files: what is known of them, and what can be written or copied, in the official SDK's names.

Annotations are values here and not text: which keys of a dictionary are required is read from them when a class is made.
"""

from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import IO, Any, Literal

# That of Python 3.10 does not know which keys are required.
from typing_extensions import NotRequired, TypedDict

from ._types import EPOCH, moment


class FileType(Enum):
    """What an entry is; of a symbolic link that leads somewhere: what it leads to."""

    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"


@dataclass
class WriteInfo:
    """A file that was written."""

    name: str
    """The last component of its path."""
    type: FileType | None
    """What it is."""
    path: str
    """Its absolute path."""
    metadata: dict[str, str] | None = None
    """What is kept with it."""


@dataclass
class EntryInfo(WriteInfo):
    """A file, directory or symbolic link."""

    size: int = 0
    """Bytes."""
    mode: int = 0
    """Permission bits."""
    permissions: str = ""
    """The same as ``ls -l`` shows them."""
    owner: str = ""
    """Owner's name."""
    group: str = ""
    """Group's name."""
    modified_time: datetime = EPOCH
    """When its content last changed."""
    symlink_target: str | None = None
    """Where a symbolic link leads."""


def write_info(told: dict[str, Any]) -> WriteInfo:
    """A written file, as the extension module tells of it."""
    told["type"] = _file_type(told["type"])
    return WriteInfo(**told)


def entry_info(told: dict[str, Any]) -> EntryInfo:
    """An entry, as the extension module tells of it."""
    told["type"], told["modified_time"] = _file_type(told["type"]), moment(told["modified_time"])
    return EntryInfo(**told)


def _file_type(told: str | None) -> FileType | None:
    return FileType(told) if told in ("file", "dir", "symlink") else None


class FilesystemEventType(Enum):
    """What happened to an entry."""

    CHMOD = "chmod"
    CREATE = "create"
    REMOVE = "remove"
    RENAME = "rename"
    WRITE = "write"


@dataclass
class FilesystemEvent:
    """A change in a directory that is watched."""

    name: str
    """The entry's path, from the directory on."""
    type: FilesystemEventType
    """What happened."""
    entry: EntryInfo | None = None
    """What the path is now, where ``include_entry`` asked for it."""


def filesystem_events(told: list[dict[str, Any]]) -> list[FilesystemEvent]:
    """Changes, as the extension module tells of them; kinds that are not known here are left out."""
    known = {kind.value for kind in FilesystemEventType}
    return [
        FilesystemEvent(
            name=event["name"],
            type=FilesystemEventType(event["type"]),
            entry=None if event["entry"] is None else entry_info(event["entry"]),
        )
        for event in told
        if event["type"] in known
    ]


WriteData = str | bytes | IO[Any] | Iterable[bytes]
"""What can be written to a file: text, bytes, an open file, or pieces."""
AsyncWriteData = str | bytes | IO[Any] | AsyncIterable[bytes]
"""What can be written to a file: text, bytes, an open file, or pieces that come."""


class WriteEntry(TypedDict):
    """A file to be written."""

    path: str
    data: WriteData


class AsyncWriteEntry(TypedDict):
    """A file to be written."""

    path: str
    data: AsyncWriteData


class CopyItem(TypedDict):
    """What :meth:`TemplateBuilder.copy_items` copies."""

    src: str | Path | list[str | Path]
    dest: str | Path
    forceUpload: NotRequired[Literal[True] | None]
    user: NotRequired[str | None]
    mode: NotRequired[int | None]
    resolveSymlinks: NotRequired[bool | None]
    gzip: NotRequired[bool | None]
