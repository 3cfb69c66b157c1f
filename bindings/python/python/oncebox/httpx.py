"""The HTTP layer on its own, for any SDK that takes an httpx transport.

::

    import httpx, oncebox.httpx

    client = httpx.Client(transport=oncebox.httpx.Transport())

:class:`Transport` and :class:`AsyncTransport` are httpx transports over Oncebox's own connections. :class:`RetryTransport` and
:class:`AsyncRetryTransport` put the policy alone over a transport of yours. Needs ``httpx``.
"""

from ._async._retry import AsyncRetryTransport
from ._async._transport import AsyncTransport
from ._http import History, attempts_of
from ._operations import OperationTable
from ._policy import RetryPolicy
from ._sync._retry import RetryTransport
from ._sync._transport import Transport

__all__ = [
    "AsyncRetryTransport",
    "AsyncTransport",
    "History",
    "OperationTable",
    "RetryPolicy",
    "RetryTransport",
    "Transport",
    "attempts_of",
]
