"""What goes in and comes out, in the official SDK's names.

Annotations are values here and not text: which keys of a dictionary are required is read from them when a class is made.
"""

import json
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import IO, Any, Literal, TypeVar, cast

# That of Python 3.10 does not know which keys are required.
from typing_extensions import NotRequired, TypedDict

T = TypeVar("T")

OutputHandler = Callable[[T], None] | Callable[[T], Awaitable[None]]
"""What is called with each piece of output: a function, or a coroutine function where it is awaited."""

Username = str
"""A user of a sandbox, such as ``user`` or ``root``."""

ProxyTypes = Any
"""A proxy: a URL as ``str``, or ``httpx.URL``, or ``httpx.Proxy`` without an SSL context."""

HttpVersion = Literal["1.1", "2"]
SandboxListOrder = Literal["asc", "desc"]
SnapshotMode = Literal["full", "filesystem"]
SandboxOnResume = Literal["restore", "reboot"]
SandboxIamTokenType = Literal["JWT-SVID"] | str

ALL_TRAFFIC = "0.0.0.0/0"
"""All addresses, for ``allow_out`` and ``deny_out``."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def moment(microseconds: int) -> datetime:
    """A moment, as the extension module tells it."""
    return _EPOCH + timedelta(microseconds=microseconds)


def microseconds(at: datetime | None) -> int | None:
    """A moment, as the extension module takes it. One without a time zone is local, as everywhere in Python."""
    return None if at is None else (at.astimezone(timezone.utc) - _EPOCH) // timedelta(microseconds=1)


class Stdout(str):
    """What a command wrote to its standard output."""


class Stderr(str):
    """What a command wrote to its standard error."""


class PtyOutput(bytes):
    """What a command wrote to its terminal."""


@dataclass
class PtySize:
    """The size of a terminal, in characters."""

    rows: int
    """Rows, at least 1."""
    cols: int
    """Columns, at least 1."""


@dataclass
class ProcessInfo:
    """A running command."""

    pid: int
    """Its process id."""
    tag: str | None
    """The name it was started with."""
    cmd: str
    """Its program."""
    args: list[str]
    """Its arguments."""
    envs: dict[str, str]
    """Variables it was started with."""
    cwd: str | None
    """Its working directory, where one was given."""


class SandboxState(str, Enum):
    """Whether a sandbox runs."""

    PAUSED = "paused"
    RUNNING = "running"

    def __str__(self) -> str:
        return self.value


class SandboxInfoLifecycle(TypedDict):
    """What happens at the end of a sandbox's lifetime."""

    on_timeout: Literal["pause", "kill"]
    auto_resume: bool


class SandboxNetworkTransform(TypedDict):
    """What is changed in requests to a host."""

    headers: NotRequired[dict[str, str]]


class SandboxNetworkRuleInfo(TypedDict):
    """A rule for a host."""

    transform: NotRequired[SandboxNetworkTransform]


class SandboxEgressProxyTLSInfo(TypedDict):
    """How a proxy is spoken to."""

    server_name: NotRequired[str]


class SandboxEgressProxyInfo(TypedDict):
    """The proxy that outgoing traffic takes."""

    address: str
    username: NotRequired[str]
    tls: NotRequired[SandboxEgressProxyTLSInfo]


class SandboxNetworkInfo(TypedDict, total=False):
    """What a sandbox may reach, and who may reach it."""

    allow_out: list[str]
    deny_out: list[str]
    rules: dict[str, list[SandboxNetworkRuleInfo]]
    egress_proxy: SandboxEgressProxyInfo
    dns_servers: list[str]
    allow_public_traffic: bool
    mask_request_host: str
    https_ports: list[int]


@dataclass
class SandboxInfo:
    """What the control plane knows of a sandbox."""

    sandbox_id: str
    """Its id."""
    sandbox_domain: str | None
    """The domain below which it is reached; lists do not tell."""
    template_id: str
    """The template it was made from."""
    name: str | None
    """The template's name, where it has one."""
    metadata: dict[str, str]
    """Its labels."""
    started_at: datetime
    """When it started."""
    end_at: datetime
    """When its lifetime ends."""
    state: SandboxState
    """Whether it runs."""
    cpu_count: int
    """CPU cores."""
    memory_mb: int
    """Memory in MiB."""
    envd_version: str
    """The version of the daemon inside."""
    allow_internet_access: bool | None = None
    """Whether outgoing traffic was allowed or denied explicitly; lists do not tell."""
    network: SandboxNetworkInfo | None = None
    """What it may reach, and who may reach it; lists do not tell."""
    lifecycle: SandboxInfoLifecycle | None = None
    """What happens at the end of its lifetime; lists do not tell."""
    volume_mounts: list[dict[str, str]] = field(default_factory=lambda: list[dict[str, str]]())
    """The volumes that are mounted: ``name`` and ``path``."""
    envd_unresponsive_at_pause: bool | None = None
    """Whether the daemon inside did not answer when the sandbox was paused."""


def sandbox_info(told: dict[str, Any]) -> SandboxInfo:
    """A sandbox, as the extension module tells of it."""
    network, lifecycle = told.pop("network"), told.pop("lifecycle")
    told["started_at"], told["end_at"] = moment(told["started_at"]), moment(told["end_at"])
    told["state"] = SandboxState(told["state"])
    info = SandboxInfo(**told)
    if network is not None:
        info.network = cast(SandboxNetworkInfo, _snake(json.loads(network)))
    if lifecycle is not None:
        info.lifecycle = cast(SandboxInfoLifecycle, _snake(json.loads(lifecycle)))
    return info


#: Keys of the protocol, whose words are other than the official SDK's only in their writing.
_SNAKE = {
    "allowOut": "allow_out",
    "denyOut": "deny_out",
    "egressProxy": "egress_proxy",
    "dnsServers": "dns_servers",
    "allowPublicTraffic": "allow_public_traffic",
    "maskRequestHost": "mask_request_host",
    "httpsPorts": "https_ports",
    "serverName": "server_name",
    "onTimeout": "on_timeout",
    "autoResume": "auto_resume",
}


def _snake(told: dict[str, Any]) -> dict[str, Any]:
    named = {_SNAKE.get(key, key): value for key, value in told.items()}
    return {key: _snake(value) if key in ("egress_proxy", "tls") else value for key, value in named.items()}


@dataclass
class SandboxQuery:
    """Which sandboxes to list; what is not given does not matter."""

    metadata: dict[str, str] | None = None
    """Those that have all of these labels."""
    state: list[SandboxState] | None = None
    """Those in one of these states."""
    started_after: datetime | None = None
    """Those that started after this."""
    template: str | None = None
    """Those of this template; without a tag."""


@dataclass
class SandboxMetrics:
    """What a sandbox used at a moment."""

    cpu_count: int
    """CPU cores."""
    cpu_used_pct: float
    """Percent of them."""
    disk_total: int
    """Bytes of disk."""
    disk_used: int
    """Bytes of disk in use."""
    mem_total: int
    """Bytes of memory."""
    mem_used: int
    """Bytes of memory in use."""
    mem_cache: int
    """Bytes of memory that hold files, and can be freed."""
    timestamp: datetime
    """The moment."""


def sandbox_metrics(told: dict[str, Any]) -> SandboxMetrics:
    """What a sandbox used, as the extension module tells of it."""
    told["timestamp"] = moment(told["timestamp"])
    return SandboxMetrics(**told)


@dataclass
class SnapshotInfo:
    """A snapshot, from which sandboxes can be made: its id is a template."""

    snapshot_id: str
    """Its id."""
    names: list[str] = field(default_factory=lambda: list[str]())
    """Its names."""


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
    modified_time: datetime = _EPOCH
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


class SandboxOnTimeoutPause(TypedDict):
    """At the end of its lifetime it is paused."""

    action: Literal["pause"]
    mode: NotRequired[SnapshotMode]
    keep_memory: NotRequired[bool]


class SandboxOnTimeoutKill(TypedDict):
    """At the end of its lifetime it is killed."""

    action: Literal["kill"]


SandboxOnTimeout = Literal["pause", "kill"] | SandboxOnTimeoutPause | SandboxOnTimeoutKill


class SandboxLifecycle(TypedDict):
    """What happens at the end of a sandbox's lifetime, and then."""

    on_timeout: SandboxOnTimeout
    auto_resume: NotRequired[bool]
    """Whether traffic wakes it."""


class SandboxIamToken(TypedDict):
    """An identity that a sandbox may prove."""

    audience: str
    token_type: SandboxIamTokenType


class SandboxIamOpts(TypedDict, total=False):
    """The identities that a sandbox may prove, by the names it knows them by; at most 5."""

    tokens: dict[str, SandboxIamToken]


class SandboxEgressProxyTLSOpts(TypedDict, total=False):
    """How a proxy is spoken to."""

    server_name: str
    ca_cert: str


class SandboxEgressProxyOpts(TypedDict):
    """The proxy that outgoing traffic takes."""

    address: str
    username: NotRequired[str]
    password: NotRequired[str]
    tls: NotRequired[bool | SandboxEgressProxyTLSOpts]


@dataclass(frozen=True)
class SandboxNetworkTransformIam:
    """Placeholders of the sandbox's identity tokens."""

    tokens: Mapping[str, str]
    """By the names of ``iam``: what is replaced by the token where traffic leaves the sandbox."""


@dataclass(frozen=True)
class SandboxNetworkTransformContext:
    """What a rule's resolver is called with."""

    iam: SandboxNetworkTransformIam


SandboxNetworkTransformResolver = Callable[[SandboxNetworkTransformContext], SandboxNetworkTransform]


class SandboxNetworkRule(TypedDict):
    """A rule for a host."""

    transform: NotRequired[SandboxNetworkTransform | SandboxNetworkTransformResolver]


SandboxNetworkRules = dict[str, list[SandboxNetworkRule]]


@dataclass(frozen=True)
class SandboxNetworkSelectorContext:
    """What a selector of ``allow_out`` or ``deny_out`` is called with."""

    all_traffic: str
    """All addresses."""
    rules: Mapping[str, list[SandboxNetworkRule]]
    """The rules that were given."""


SandboxNetworkSelector = list[str] | Callable[[SandboxNetworkSelectorContext], list[str]]


class SandboxNetworkOpts(TypedDict):
    """What a sandbox may reach, and who may reach it."""

    allow_out: NotRequired[SandboxNetworkSelector]
    deny_out: NotRequired[SandboxNetworkSelector]
    rules: NotRequired[SandboxNetworkRules]
    egress_proxy: NotRequired[SandboxEgressProxyOpts]
    dns_servers: NotRequired[list[str]]
    allow_public_traffic: NotRequired[bool]
    mask_request_host: NotRequired[str]
    https_ports: NotRequired[list[int]]


class SandboxNetworkUpdate(TypedDict, total=False):
    """What a sandbox may reach, in place of all that was set before."""

    allow_out: SandboxNetworkSelector
    deny_out: SandboxNetworkSelector
    rules: SandboxNetworkRules
    egress_proxy: SandboxEgressProxyOpts
    dns_servers: list[str]
    allow_internet_access: bool


class GitHubMcpServerConfig(TypedDict):
    """An MCP server from a repository."""

    run_cmd: str
    install_cmd: NotRequired[str]
    envs: NotRequired[dict[str, str]]


GitHubMcpServer = dict[str, GitHubMcpServerConfig | Any]
McpServer = dict[str, Any]
"""MCP servers by their names, with the configuration of each."""


class CopyItem(TypedDict):
    """What :meth:`TemplateBuilder.copy_items` copies."""

    src: str | Path | list[str | Path]
    dest: str | Path
    forceUpload: NotRequired[Literal[True] | None]
    user: NotRequired[str | None]
    mode: NotRequired[int | None]
    resolveSymlinks: NotRequired[bool | None]
    gzip: NotRequired[bool | None]
