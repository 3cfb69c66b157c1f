# Written by tools/twin.py from _async/paginator.py: change it there.
"""Lists that come in pages."""

from __future__ import annotations

from typing import Any

from typing_extensions import Unpack

from .. import _core
from .. import _types as t
from .._options import client_for
from .._params import ApiParams, given
from .._run import run_sync
from ..exceptions import InvalidArgumentException


class SandboxPaginator:
    """The pages of a list of sandboxes: ask while :attr:`has_next`."""

    def __init__(
        self,
        query: t.SandboxQuery | None = None,
        limit: int | None = None,
        next_token: str | None = None,
        order: t.SandboxListOrder | None = None,
        **opts: Unpack[ApiParams],
    ) -> None:
        self._options: dict[str, Any] = given(opts)
        query = query or t.SandboxQuery()
        self._pages: _core.SandboxPages = client_for(self._options).list_sandboxes(
            {
                "metadata": query.metadata,
                "state": None if query.state is None else [str(state) for state in query.state],
                "started_after": t.microseconds(query.started_after),
                "template": query.template,
                "limit": limit,
                "next_token": next_token,
                "order": order,
            }
        )

    @property
    def has_next(self) -> bool:
        """Whether there is a page to be asked for."""
        return self._pages.has_next

    @property
    def next_token(self) -> str | None:
        """The token of the next page; ``None`` before the first and after the last."""
        return self._pages.next_token

    def next_items(self, **opts: Unpack[ApiParams]) -> list[t.SandboxInfo]:
        """The next page.

        :raises InvalidArgumentException: there is none
        """
        if not self.has_next:
            raise InvalidArgumentException("there is no next page: look at has_next first")
        page = run_sync(self._pages.next(client_for({**self._options, **given(opts)})))
        return [t.sandbox_info(one) for one in page]


class SnapshotPaginator:
    """The pages of a list of snapshots: ask while :attr:`has_next`."""

    def __init__(
        self,
        sandbox_id: str | None = None,
        limit: int | None = None,
        next_token: str | None = None,
        name: str | None = None,
        **opts: Unpack[ApiParams],
    ) -> None:
        self._options: dict[str, Any] = given(opts)
        self._pages: _core.SnapshotPages = client_for(self._options).list_snapshots(
            {"sandbox_id": sandbox_id, "limit": limit, "next_token": next_token, "name": name}
        )

    @property
    def has_next(self) -> bool:
        """Whether there is a page to be asked for."""
        return self._pages.has_next

    @property
    def next_token(self) -> str | None:
        """The token of the next page; ``None`` before the first and after the last."""
        return self._pages.next_token

    def next_items(self, **opts: Unpack[ApiParams]) -> list[t.SnapshotInfo]:
        """The next page.

        :raises InvalidArgumentException: there is none
        """
        if not self.has_next:
            raise InvalidArgumentException("there is no next page: look at has_next first")
        page = run_sync(self._pages.next(client_for({**self._options, **given(opts)})))
        return [t.SnapshotInfo(**one) for one in page]
