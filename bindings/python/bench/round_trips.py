"""Sandboxes made, used and killed with one SDK: `round_trips.py MODULE`. Prints round trips a second."""

from __future__ import annotations

import importlib
import sys
import time

COUNT = 20


def main(module: str) -> None:
    """Measures and prints."""
    sandbox_of = importlib.import_module(module).Sandbox
    began = time.monotonic()
    for _ in range(COUNT):
        sandbox = sandbox_of.create()
        assert sandbox.commands.run("echo hello").stdout == "hello\n"
        sandbox.kill()
    print(f"{COUNT / (time.monotonic() - began):.1f}")


if __name__ == "__main__":
    main(sys.argv[1])
