"""The client whose sandboxes run code."""

from __future__ import annotations

from .. import _client
from .._async.code_interpreter import AsyncSandbox
from .._sync.code_interpreter import Sandbox

_CLASSES = _client.with_sandboxes(Sandbox, AsyncSandbox)


class E2B(_client.E2B):
    """As :class:`oncebox.E2B`, with the sandboxes that run code."""

    Sandbox: type[Sandbox]  # pyright: ignore[reportIncompatibleVariableOverride]
    AsyncSandbox: type[AsyncSandbox]  # pyright: ignore[reportIncompatibleVariableOverride]
    _classes = _CLASSES
