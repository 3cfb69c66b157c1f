"""What is known of a sandbox without asking anybody: what both classes of sandboxes have in common."""

from __future__ import annotations

from typing import Any

from ._connection_config import ConnectionConfig
from ._core import Sandbox as CoreSandbox
from ._options import ClientFactory


class SandboxBase(ClientFactory):
    """A sandbox's addresses, and what it was made with."""

    mcp_port = 50005
    envd_port = 49983

    _core: CoreSandbox
    _options: dict[str, Any]

    def download_url(self, path: str, user: str | None = None, use_signature_expiration: int | None = None) -> str:
        """A URL from which anybody can read one file.

        :param use_signature_expiration: for so many seconds from now; as long as the sandbox lives by default
        """
        return self._core.file_url(False, path, user, use_signature_expiration)

    def upload_url(self, path: str, user: str | None = None, use_signature_expiration: int | None = None) -> str:
        """A URL to which anybody can write one file, by POST.

        :param use_signature_expiration: for so many seconds from now; as long as the sandbox lives by default
        """
        return self._core.file_url(True, path, user, use_signature_expiration)

    def get_host(self, port: int) -> str:
        """The host name under which a port of the sandbox is reached from outside."""
        return self._core.host(port)

    def get_mcp_url(self) -> str:
        """The URL of the sandbox's MCP gateway."""
        return f"https://{self.get_host(self.mcp_port)}/mcp"

    @property
    def sandbox_id(self) -> str:
        """Its id."""
        return self._core.id

    @property
    def sandbox_domain(self) -> str:
        """The domain below which it is reached."""
        return self._core.domain or self.connection_config.domain

    @property
    def traffic_access_token(self) -> str | None:
        """What its ports want as ``E2B-Traffic-Access-Token``, where its traffic is not public."""
        return self._core.traffic_access_token

    @property
    def connection_config(self) -> ConnectionConfig:
        """The options it was made with."""
        return ConnectionConfig(**self._options)

    @property
    def envd_api_url(self) -> str:
        """The base URL of the daemon inside."""
        return self._core.port_url(self.envd_port)

    @property
    def envd_direct_url(self) -> str:
        """The same without headers that say which sandbox is meant, where that can be."""
        return self._core.direct_url(self.envd_port)

    @property
    def intent(self) -> str | None:
        """The intent of the create that made it, where this process made it. Ours."""
        return self._core.intent

    @property
    def superseded_by(self) -> str | None:
        """Where two sandboxes were made for one intent, and this is not the one that stays: the id of the other. Ours."""
        return self._core.superseded_by

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sandbox_id!r})"
