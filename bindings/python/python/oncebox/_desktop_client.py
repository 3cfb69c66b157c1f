"""The client whose sandboxes have a desktop."""

from __future__ import annotations

from . import _client
from ._async.desktop import AsyncSandbox
from ._sync.desktop import Sandbox

_CLASSES = _client.with_sandboxes(Sandbox, AsyncSandbox)


class E2B(_client.E2B):
    """As :class:`oncebox.E2B`, with the sandboxes that have a desktop."""

    Sandbox: type[Sandbox]  # pyright: ignore[reportIncompatibleVariableOverride]
    AsyncSandbox: type[AsyncSandbox]  # pyright: ignore[reportIncompatibleVariableOverride]
    _classes = _CLASSES
