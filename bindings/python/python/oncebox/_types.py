"""What goes in and comes out, in the official SDK's names.

Annotations are values here and not text: which keys of a dictionary are required is read from them when a class is made.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any, Literal, TypeVar, cast

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

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def moment(microseconds: int) -> datetime:
    """A moment, as the extension module tells it."""
    return EPOCH + timedelta(microseconds=microseconds)


def microseconds(at: datetime | None) -> int | None:
    """A moment, as the extension module takes it. One without a time zone is local, as everywhere in Python."""
    return None if at is None else (at.astimezone(timezone.utc) - EPOCH) // timedelta(microseconds=1)


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
