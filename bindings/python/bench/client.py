"""One client, measured: `client.py CLIENT CONCURRENCY SECONDS PORT`. Prints calls and CPU seconds of this process.

A client is `sdk-…`, `httpx-…` or `pyqwest-…`; see :data:`CLIENTS`. Pinned to one core, where the system can do that.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

CORE = 0
ID = "i0123456789abcdefghij"

Call = Callable[[], Awaitable[object]]
Made = Callable[[str], Awaitable[Call]]


async def sdk(module: str, url: str) -> Call:
    """A unary call to a sandbox: the list of its processes."""
    import importlib

    os.environ.update(E2B_API_KEY="key", E2B_API_URL=url, E2B_SANDBOX_URL=url)
    sandbox = await importlib.import_module(module).AsyncSandbox.connect(ID)
    return sandbox.commands.list


async def sdk_enabled(url: str) -> Call:
    """The official SDK with ours beneath it."""
    import oncebox.compat.e2b

    oncebox.compat.e2b.enable()
    return await sdk("e2b", url)


def over_httpx(transport: Any, url: str) -> Call:
    """A POST through httpx."""
    import httpx

    client = httpx.AsyncClient(transport=transport)

    async def call() -> None:
        assert (await client.post(url, content=b"{}")).status_code == 200

    return call


async def httpx_own(url: str) -> Call:
    import httpx

    limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
    return over_httpx(httpx.AsyncHTTPTransport(limits=limits), url)


async def httpx_pyqwest(url: str) -> Call:
    import pyqwest
    import pyqwest.httpx

    return over_httpx(pyqwest.httpx.AsyncPyqwestTransport(pyqwest.HTTPTransport(pool_max_idle_per_host=200)), url)


async def httpx_oncebox(url: str) -> Call:
    import oncebox.httpx

    return over_httpx(oncebox.httpx.AsyncTransport(), url)


def over_pyqwest(transport: Any, url: str) -> Call:
    """A POST through pyqwest."""
    import pyqwest

    client = pyqwest.Client(transport)

    async def call() -> None:
        assert (await client.post(url, content=b"{}")).status == 200

    return call


async def pyqwest_own(url: str) -> Call:
    import pyqwest

    return over_pyqwest(pyqwest.HTTPTransport(pool_max_idle_per_host=200), url)


async def pyqwest_oncebox(url: str) -> Call:
    import oncebox.pyqwest

    return over_pyqwest(oncebox.pyqwest.Transport(), url)


CLIENTS: dict[str, Made] = {
    "sdk-e2b": lambda url: sdk("e2b", url),
    "sdk-e2b-enabled": sdk_enabled,
    "sdk-oncebox": lambda url: sdk("oncebox", url),
    "httpx-own": httpx_own,
    "httpx-pyqwest": httpx_pyqwest,
    "httpx-oncebox": httpx_oncebox,
    "pyqwest-own": pyqwest_own,
    "pyqwest-oncebox": pyqwest_oncebox,
}

#: Calls that are not counted: connections are made, and code is warm.
WARM = 200


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measured(name: str, concurrency: int, seconds: float, url: str) -> tuple[int, float]:
    """How many calls were made, and what they cost."""
    call = await CLIENTS[name](url)

    async def worker(ends: float, most: int) -> int:
        made = 0
        while made < most and time.monotonic() < ends:
            await call()
            made += 1
        return made

    async def all_workers(ends: float, most: int) -> int:
        return sum(await asyncio.gather(*(worker(ends, most) for _ in range(concurrency))))

    await all_workers(time.monotonic() + 60, max(1, WARM // concurrency))
    before = cpu()
    made = await all_workers(time.monotonic() + seconds, sys.maxsize)
    return made, cpu() - before


def main(name: str, concurrency: str, seconds: str, port: str) -> None:
    """Measures and prints."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {CORE})
    made, used = asyncio.run(measured(name, int(concurrency), float(seconds), f"http://127.0.0.1:{port}"))
    print(made, used, flush=True)
    # Nothing that ends in the background is measured, or waited for.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
