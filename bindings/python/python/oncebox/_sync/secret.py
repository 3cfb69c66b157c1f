# Written by tools/twin.py from _async/secret.py: change it there.
"""Secrets: values that are stored once, used by name, and never shown again."""

from __future__ import annotations

from typing_extensions import Unpack

from .. import _core
from .._options import client_for
from .._params import ApiParams, given
from .._run import run_sync
from .._secret import SecretBase, SecretInfo, secret_info
from ..exceptions import InvalidArgumentException


class SecretPaginator:
    """The pages of all secrets."""

    def __init__(self, limit: int | None = None, next_token: str | None = None, **opts: Unpack[ApiParams]) -> None:
        self._options = given(opts)
        self._pages = client_for(self._options).secrets(limit, next_token)

    @property
    def has_next(self) -> bool:
        """Whether there is another page."""
        return self._pages.has_next

    @property
    def next_token(self) -> str | None:
        """The next page's token; ``None`` before the first page and after the last."""
        return self._pages.next_token

    def next_items(self, **opts: Unpack[ApiParams]) -> list[SecretInfo]:
        """The next page.

        :raises InvalidArgumentException: there is none
        """
        if not self.has_next:
            raise InvalidArgumentException("there is no next page: see has_next")
        page = run_sync(self._pages.next(client_for({**self._options, **given(opts)})))
        return [secret_info(told) for told in page]


class Secret(SecretBase):
    """The secrets of an account.

    A value goes in and never comes out: it is in no text of an object, of an exception, or of a log. Sandboxes use it by the
    placeholder that :meth:`fill` gives, in headers that their network adds to requests.
    """

    @classmethod
    def _client(cls, options: ApiParams) -> _core.Client:
        return client_for(cls._resolved(options))

    @classmethod
    def create(
        cls, name: str, value: str, metadata: dict[str, str] | None = None, **opts: Unpack[ApiParams]
    ) -> SecretInfo:
        """Stores a secret. Names have 1 to 128 letters, digits, ``-`` and ``_``, and are kept in lower case. At most 32 labels.

        Where the answer is lost, a secret that has this name since the call began is the answer. When that cannot be told,
        the exception has :attr:`~Evidence.candidates`.

        :raises SecretException: the name is taken
        """
        return secret_info(run_sync(cls._client(opts).create_secret(name, value, {"metadata": metadata})))

    @classmethod
    def update(
        cls, secret: str, value: str, metadata: dict[str, str] | None = None, **opts: Unpack[ApiParams]
    ) -> SecretInfo:
        """Adds a version to a secret, by id or name, which takes the place of the one in use. ``metadata`` takes the place of
        all its labels.

        :raises SecretNotFoundException: there is no such secret
        """
        return secret_info(run_sync(cls._client(opts).update_secret(secret, value, {"metadata": metadata})))

    @classmethod
    def get_info(cls, secret: str, **opts: Unpack[ApiParams]) -> SecretInfo:
        """Describes a secret, by id or name.

        :raises SecretNotFoundException: there is no such secret
        """
        return secret_info(run_sync(cls._client(opts).secret_info(secret)))

    @classmethod
    def exists(cls, secret: str, **opts: Unpack[ApiParams]) -> bool:
        """Whether there is such a secret, by id or name."""
        return run_sync(cls._client(opts).secret_exists(secret))

    @classmethod
    def destroy(cls, secret: str, **opts: Unpack[ApiParams]) -> bool:
        """Deletes a secret with all its versions, by id or name; ``False``: there is no such one (any more)."""
        return run_sync(cls._client(opts).destroy_secret(secret))

    @classmethod
    def list(
        cls, limit: int | None = None, next_token: str | None = None, **opts: Unpack[ApiParams]
    ) -> SecretPaginator:
        """All secrets, in pages of ``limit`` (1 to 100, by default 100) from the page of ``next_token`` on."""
        resolved = cls._resolved(opts)
        return SecretPaginator(limit, next_token, **resolved)
