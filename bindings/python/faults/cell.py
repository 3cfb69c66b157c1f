"""One scenario with one SDK: `cell.py COLUMN SCENARIO`. Prints what happened as JSON, in its last line."""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from pathlib import Path

from peer import Peer
from scenarios import SCENARIOS


def main(column: str, name: str) -> None:
    """Starts the server, runs the scenario, and tells of it."""
    scenario = SCENARIOS[name]
    with tempfile.TemporaryDirectory() as folder:
        peer = Peer(scenario.script, Path(folder), is_real=scenario.is_real)
        os.environ.update(SSL_CERT_FILE=str(peer.ca), E2B_API_KEY="key", E2B_API_URL=peer.url, E2B_SANDBOX_URL=peer.url)
        if column == "enabled":
            importlib.import_module("oncebox.compat.e2b").enable()
        try:
            text, right = scenario.run(importlib.import_module("oncebox" if column == "oncebox" else "e2b"), peer)
        finally:
            peer.stop()
    print(json.dumps({"text": text, "right": right}), flush=True)
    # A process that a scenario left hanging is not waited for.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
