"""Which operations may be repeated: a table from an OpenAPI document."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from urllib.parse import urlsplit

from . import _core
from .exceptions import InvalidArgumentException


class OperationTable:
    """Which requests may be repeated once nobody knows what became of them.

    What the table does not list is decided by its method: GET, HEAD and OPTIONS are safe, PUT and DELETE idempotent, POST and
    PATCH neither.
    """

    def __init__(self, core: _core.OperationTable) -> None:
        self._core = core

    @classmethod
    def from_openapi(cls, document: str | os.PathLike[str], *, base_url: str = "") -> OperationTable:
        """Reads an OpenAPI 3 document, YAML or JSON.

        POST and PATCH are marked in it: ``x-idempotent: true`` or ``false``, with ``x-idempotent-reason``; ``x-mints: true`` on
        what makes one more thing with each call; ``x-idempotency-key: true`` on what honours an ``Idempotency-Key``. What is
        not marked is never repeated after an unknown outcome, and a :class:`UserWarning` lists it.

        :param document: the document's path, or its text.
        :param base_url: the API's base URL, or its path: the document's paths stand below it.
        :raises InvalidArgumentException: when it is no such document, or two of its operations could be meant by one request.
        """
        try:
            core = _core.OperationTable.from_openapi(_read(document), _path_of(base_url))
        except ValueError as error:
            raise InvalidArgumentException(f"operations: {error}") from None
        table = cls(core)
        if table.warnings:
            listed = "".join(f"\n  {warning}" for warning in table.warnings)
            warnings.warn(f"{len(table.warnings)} operations are not marked:{listed}", UserWarning, stacklevel=2)
        return table

    @property
    def warnings(self) -> list[str]:
        """The operations about which the document says nothing, although their method decides nothing."""
        return self._core.warnings

    def permit(self, method: str, path: str) -> str | None:
        """Why a request may be repeated: ``"safe_method"``, ``"idempotent_method"``, ``"operation_table"``; ``None``: it may
        not."""
        return self._core.permit(method, path)

    def __len__(self) -> int:
        return len(self._core)

    def __repr__(self) -> str:
        return f"<OperationTable of {len(self)} operations, {len(self.warnings)} of them not marked>"


def table(given: OperationTable | str | os.PathLike[str] | None) -> OperationTable | None:
    """What an option `operations` means."""
    if given is None or isinstance(given, OperationTable):
        return given
    if isinstance(given, (str, os.PathLike)):
        return OperationTable.from_openapi(given)
    raise InvalidArgumentException(f"operations: an OperationTable or a path is wanted, not {type(given).__name__}")


def _read(document: str | os.PathLike[str]) -> str:
    # A document has lines; a path has none.
    if isinstance(document, str) and ("\n" in document or document.lstrip().startswith("{")):
        return document
    if not isinstance(document, (str, os.PathLike)):
        raise InvalidArgumentException(f"operations: a path or a text is wanted, not {type(document).__name__}")
    try:
        return Path(document).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentException(f"operations: {error}") from None


def _path_of(base_url: str) -> str:
    if "://" in base_url:
        return urlsplit(base_url).path
    return base_url if base_url.startswith("/") or not base_url else f"/{base_url}"
