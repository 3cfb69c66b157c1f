"""A scripted server, by the command `oncebox faults serve`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any


class Peer:
    """A server that misbehaves by a script, over HTTP/2 and TLS, and the log of what it saw."""

    def __init__(self, script: dict[str, Any], folder: Path) -> None:
        self.ca, self._report = folder / "ca.pem", folder / "report.json"
        path = folder / "script.json"
        path.write_text(json.dumps(script))
        command = [os.environ.get("ONCEBOX_BIN", "oncebox"), "faults", "serve", str(path), "--json", "--tls"]
        command += ["--ca-out", str(self.ca), "--report", str(self._report)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url: str = json.loads(self._process.stdout.readline())["url"]

    def stop(self) -> None:
        """Ends it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._process.wait(30)

    def report(self) -> dict[str, Any]:
        """Ends it, and tells what it saw."""
        self.stop()
        report: dict[str, Any] = json.loads(self._report.read_text())
        return report

    def tries(self, path: str) -> list[dict[str, Any]]:
        """The tries of requests whose path begins so."""
        return [attempt for attempt in self.report()["without_id"] if attempt["path"].startswith(path)]
