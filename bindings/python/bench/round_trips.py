"""Sandboxes made, used and killed with one SDK: `round_trips.py MODULE`. Prints the seconds that each took."""

from __future__ import annotations

import importlib
import sys
import time

COUNT = 20


def main(module: str) -> None:
    """Measures and prints."""
    sandbox_of = importlib.import_module(module).Sandbox
    for _ in range(COUNT):
        began = time.monotonic()
        sandbox = sandbox_of.create()
        assert sandbox.commands.run("echo hello").stdout == "hello\n"
        sandbox.kill()
        print(time.monotonic() - began)


if __name__ == "__main__":
    main(sys.argv[1])
