"""Sandboxes that run code: the names of the package ``e2b_code_interpreter``, so that the import is all that changes.

.. code-block:: python

    from oncebox.code_interpreter import Sandbox

    with Sandbox.create() as sandbox:
        sandbox.run_code("x = 20")
        print(sandbox.run_code("x + 22").text)
"""

from __future__ import annotations

import oncebox

from .. import *  # noqa: F403
from .._async.code_interpreter import AsyncSandbox as AsyncSandbox
from .._sync.code_interpreter import Sandbox as Sandbox
from . import charts as charts
from . import models as models
from ._client import E2B as E2B
from .models import (
    Context,
    Execution,
    ExecutionError,
    Logs,
    MIMEType,
    OutputMessage,
    Result,
    RunCodeLanguage,
)

__all__ = [
    "Context",
    "Execution",
    "ExecutionError",
    "Logs",
    "MIMEType",
    "OutputMessage",
    "Result",
    "RunCodeLanguage",
]
__all__ += oncebox.__all__
