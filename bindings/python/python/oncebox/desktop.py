"""Sandboxes with a desktop: the names of the package ``e2b_desktop``, so that the import is all that changes.

.. code-block:: python

    from oncebox.desktop import Sandbox

    with Sandbox.create(resolution=(1024, 768)) as desktop:
        desktop.left_click(100, 200)
        desktop.write("hello")
        desktop.press(["ctrl", "s"])
        picture = desktop.screenshot()

The template must have the programs, as E2B's ``desktop`` has. ``AsyncSandbox`` is ours: the official package has none.
"""

from __future__ import annotations

import oncebox

from . import *  # noqa: F403
from ._async.desktop import AsyncDesktopStream as AsyncDesktopStream
from ._async.desktop import AsyncSandbox as AsyncSandbox
from ._desktop_client import E2B as E2B
from ._sync.desktop import DesktopStream as DesktopStream
from ._sync.desktop import Sandbox as Sandbox
from .exceptions import DesktopStreamException as DesktopStreamException

__all__ = ["AsyncDesktopStream", "DesktopStream", "DesktopStreamException"]
__all__ += oncebox.__all__
