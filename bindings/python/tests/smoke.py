"""The wheel on one Python: imported and used, without any test tool."""

from __future__ import annotations

import sys
from pathlib import Path

import oncebox
from oncebox import _core
from oncebox._run import run_sync

server = run_sync(_core.Server.start({"helper": str(Path(oncebox.__file__).parent / "_bin" / "oncebox-envd")}))
client = _core.Client({"api_key": "local", "api_url": server.url, "sandbox_url": server.url, "http_version": "1.1"})
sandbox = run_sync(client.create())
assert run_sync(sandbox.kill())
run_sync(server.stop())
print(f"smoke of oncebox {oncebox.__version__} on Python {sys.version.split()[0]}: passed")
