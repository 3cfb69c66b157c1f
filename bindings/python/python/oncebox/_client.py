"""A client that binds options, and has all classes with them."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar, cast

from typing_extensions import Unpack

from ._async.sandbox import AsyncSandbox
from ._async.secret import AsyncSecret
from ._async.template import AsyncTemplate
from ._async.volume import AsyncVolume
from ._options import ClientFactory, client_for
from ._params import ApiParams, given
from ._sync.sandbox import Sandbox
from ._sync.secret import Secret
from ._sync.template import Template
from ._sync.volume import Volume

E2BClientParams = ApiParams
"""Options of :class:`E2B`: those of every call."""

C = TypeVar("C", bound=type[ClientFactory])

_CLASSES = (Sandbox, AsyncSandbox, Template, AsyncTemplate, Volume, AsyncVolume, Secret, AsyncSecret)


class E2B:
    """Options for all that is made with this client's classes; what a call is given goes before them.

    .. code-block:: python

        client = E2B(api_key="…", domain="example.com", retries=1)
        sandbox = client.Sandbox.create()
        volume = client.Volume.create("data")

    No connection is opened. Wrong options are refused at once.
    """

    Sandbox: type[Sandbox]
    AsyncSandbox: type[AsyncSandbox]
    Template: type[Template]
    AsyncTemplate: type[AsyncTemplate]
    Volume: type[Volume]
    AsyncVolume: type[AsyncVolume]
    Secret: type[Secret]
    AsyncSecret: type[AsyncSecret]

    #: Its classes, before anything is bound to them.
    _classes: ClassVar[tuple[type[ClientFactory], ...]] = _CLASSES

    def __init__(self, **opts: Unpack[E2BClientParams]) -> None:
        options = given(opts)
        # The key may come with the calls.
        client_for({**options, "keyless": True})
        for base in self._classes:
            setattr(self, base.__name__, _bound(base, options))

    def __repr__(self) -> str:
        return "E2B()"


def with_sandboxes(*sandboxes: type[ClientFactory]) -> tuple[type[ClientFactory], ...]:
    """The classes of a client whose sandboxes are these."""
    names = {sandbox.__name__ for sandbox in sandboxes}
    return (*sandboxes, *(base for base in _CLASSES if base.__name__ not in names))


def _bound(base: C, options: dict[str, Any]) -> C:
    space = {"_bound": options, "__module__": base.__module__, "__doc__": base.__doc__}
    return cast("C", type(base.__name__, (base,), space))
