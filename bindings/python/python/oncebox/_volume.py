"""What is known of volumes: what both sides of the package have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from logging import Logger
from typing import Any, TypedDict

from . import _core
from ._options import client_for
from ._params import given
from ._types import HttpVersion, ProxyTypes, moment
from .exceptions import AuthenticationException


class VolumeApiParams(TypedDict, total=False):
    """Options of calls about the content of a volume, in place of the volume's own."""

    domain: str | None
    """The provider's domain. Default: ``E2B_DOMAIN``, else ``e2b.app``."""
    debug: bool | None
    """Everything is on this machine. Default: ``E2B_DEBUG``."""
    request_timeout: float | None
    """The deadline of a call over all its attempts, in seconds; 0 is none. Default 60, and 3600 for files' content."""
    headers: dict[str, str] | None
    """Headers for requests to the control plane: those about content have none of them."""
    token: str | None
    """What gives access to the content. Default: the volume's."""
    api_url: str | None
    """Where the content of volumes is. Default: ``E2B_VOLUME_API_URL``."""
    proxy: ProxyTypes | None
    """The proxy to all servers. Default: ``HTTP_PROXY`` and its kin."""
    http_version: HttpVersion | None
    """``"1.1"`` or ``"2"``. Default: ``E2B_HTTP_VERSION``, else what the server chooses."""
    logger: Logger | None
    """Has no effect: all of the package's logging is in the logger ``oncebox``."""
    retries: int | None
    """Retries of a call, 0 to 1000; with some of them a file that was cut is written again whole. Default 0. Ours."""
    connection_retries: int | None
    """Repeats after failed connects and refusals, 0 to 1000. Default 3. Ours."""


#: Options that change a call about content alone.
_OF_CONTENT_CALLS = ("request_timeout", "retries", "connection_retries")


class VolumeFileType(str, Enum):
    """What a path of a volume is."""

    UNKNOWN = "unknown"
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"


@dataclass
class VolumeInfo:
    """A volume as its list describes it."""

    volume_id: str
    """Its id."""
    name: str
    """Its name."""


@dataclass
class VolumeAndToken(VolumeInfo):
    """A volume, and what gives access to its content."""

    token: str = field(repr=False)
    """What gives access to its content."""
    domain: str | None = None
    """Where its content is, when that is not for the caller to say."""


@dataclass
class VolumeEntryStat:
    """A file, directory or symbolic link of a volume."""

    name: str
    """The last component of its path."""
    type: VolumeFileType
    """What it is."""
    path: str
    """Its path inside the volume."""
    size: int
    """Size in bytes."""
    mode: int
    """Permission bits."""
    uid: int
    """Owner, by number."""
    gid: int
    """Group, by number."""
    atime: datetime
    """Last access."""
    mtime: datetime
    """Last change of content."""
    ctime: datetime
    """Last change of the entry."""
    target: str | None = None
    """Where a symbolic link leads."""


class VolumeConnectionConfig:
    """Options of calls about the content of a volume, for who wants to look at them."""

    def __init__(
        self,
        domain: str | None = None,
        debug: bool | None = None,
        token: str | None = None,
        api_url: str | None = None,
        request_timeout: float | None = None,
        headers: dict[str, str] | None = None,
        proxy: ProxyTypes | None = None,
        logger: Logger | None = None,
        *,
        http_version: HttpVersion | None = None,
    ) -> None:
        environment = os.environ.get
        self.domain: str = domain or environment("E2B_DOMAIN") or "e2b.app"
        self.debug: bool = (environment("E2B_DEBUG", "").lower() in ("true", "1")) if debug is None else debug
        self.access_token: str | None = token
        local = "http://localhost:8080" if self.debug else f"https://api.{self.domain}"
        self.api_url: str = api_url or environment("E2B_VOLUME_API_URL") or local
        self.request_timeout: float | None = self.get_request_timeout(request_timeout)
        self.headers: dict[str, str] = dict(headers or {})
        self.proxy: ProxyTypes | None = proxy
        self.logger: Logger | None = logger
        self.http_version: HttpVersion | None = http_version

    def get_request_timeout(self, request_timeout: float | None = None) -> float | None:
        """The deadline of a call in seconds; ``None``: there is none."""
        timeout = getattr(self, "request_timeout", 60.0) if request_timeout is None else request_timeout
        return timeout or None

    def get_api_params(self, **opts: Any) -> dict[str, Any]:
        """These options with others over them."""
        own = {"domain": self.domain, "debug": self.debug, "token": self.access_token, "api_url": self.api_url}
        more = {"proxy": self.proxy, "http_version": self.http_version, "headers": self.headers}
        return {**given(own), **given(more), "request_timeout": self.request_timeout, **given(opts)}


class VolumeContent:
    """A volume whose content calls are about: what both classes of volumes are."""

    def __init__(
        self,
        volume_id: str,
        name: str,
        token: str | None = None,
        domain: str | None = None,
        debug: bool | None = None,
        proxy: ProxyTypes | None = None,
        *,
        http_version: HttpVersion | None = None,
    ) -> None:
        self._volume_id = volume_id
        self._name = name
        self._token = token
        self._domain = domain
        self._content_options: dict[str, Any] = given({"debug": debug, "proxy": proxy, "http_version": http_version})

    @property
    def volume_id(self) -> str:
        """Its id."""
        return self._volume_id

    @property
    def name(self) -> str:
        """Its name, by which sandboxes mount it."""
        return self._name

    @property
    def token(self) -> str | None:
        """What gives access to its content."""
        return self._token

    def __repr__(self) -> str:
        return f"{type(self).__name__}(volume_id={self._volume_id!r}, name={self._name!r})"

    def _content(self, opts: VolumeApiParams) -> _core.Volume:
        """The volume, with the options of a call."""
        options: dict[str, Any] = {**self._content_options, **given(opts)}
        options.pop("logger", None)
        token, domain = options.pop("token", self._token), options.get("domain", self._domain)
        if not token:
            raise AuthenticationException("the volume has no token: connect to it, or give the option token")
        if "api_url" in options:
            options["volume_api_url"] = options.pop("api_url")
        # Of the call, in place of what each kind of call has: an upload has an hour, and no retries.
        of_call = {name: options.pop(name) for name in _OF_CONTENT_CALLS if opts.get(name) is not None}
        client = client_for({**options, "keyless": True})
        if of_call:
            client = client.with_options(of_call)
        return client.known_volume(self._volume_id, self._name, token, domain)


def volume_entry(told: Mapping[str, Any]) -> VolumeEntryStat:
    """An entry, as the extension module tells of it."""
    try:
        kind = VolumeFileType(told["type"])
    except ValueError:
        kind = VolumeFileType.UNKNOWN
    fields: dict[str, Any] = {**told, "type": kind}
    fields |= {name: moment(told[name]) for name in ("atime", "mtime", "ctime")}
    return VolumeEntryStat(**fields)
