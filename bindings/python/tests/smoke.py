"""The wheel on one Python: imported and used on both sides, without any test tool."""

from __future__ import annotations

import asyncio
import sys

import oncebox
from oncebox import _core
from oncebox._program import find_program
from oncebox._run import run_sync

server = run_sync(_core.Server.start({"program": str(find_program())}))
options = {"api_key": "local", "api_url": server.url, "sandbox_url": server.url, "http_version": "1.1"}

with oncebox.Sandbox.create(**options) as sandbox:
    sandbox.files.write("greeting", "hello")
    assert sandbox.commands.run("cat greeting").stdout == "hello"


async def main() -> None:
    async with await oncebox.AsyncSandbox.create(**options) as sandbox:
        results = await asyncio.gather(*(sandbox.commands.run(f"echo {n}") for n in range(5)))
        assert [result.stdout for result in results] == ["0\n", "1\n", "2\n", "3\n", "4\n"]


asyncio.run(main())
run_sync(server.stop())
print(f"smoke of oncebox {oncebox.__version__} on Python {sys.version.split()[0]}: passed")
