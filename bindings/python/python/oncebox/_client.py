"""A client that binds options, and has all classes with them."""

from __future__ import annotations

from typing import Any, TypeVar, cast

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

    def __init__(self, **opts: Unpack[E2BClientParams]) -> None:
        options = given(opts)
        # The key may come with the calls.
        client_for({**options, "keyless": True})
        for base in (Sandbox, AsyncSandbox, Template, AsyncTemplate, Volume, AsyncVolume, Secret, AsyncSecret):
            setattr(self, base.__name__, _bound(base, options))

    def __repr__(self) -> str:
        return "E2B()"


def _bound(base: C, options: dict[str, Any]) -> C:
    space = {"_bound": options, "__module__": base.__module__, "__doc__": base.__doc__}
    return cast("C", type(base.__name__, (base,), space))
