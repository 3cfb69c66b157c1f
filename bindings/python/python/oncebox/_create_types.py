"""What a sandbox is made with: its lifecycle, network, identities and MCP servers, in the official SDK's names.

Annotations are values here and not text: which keys of a dictionary are required is read from them when a class is made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

# That of Python 3.10 does not know which keys are required.
from typing_extensions import NotRequired, TypedDict

from ._types import SandboxNetworkTransform, SnapshotMode

ALL_TRAFFIC = "0.0.0.0/0"
"""All addresses, for ``allow_out`` and ``deny_out``."""

SandboxIamTokenType = Literal["JWT-SVID"] | str


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
