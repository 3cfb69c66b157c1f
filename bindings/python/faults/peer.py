"""A scripted server, by the command `oncebox faults serve`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any


class Peer:
    """A server that misbehaves by a script, over HTTP/2 and TLS, and the log of what it saw."""

    def __init__(self, script: dict[str, Any], folder: Path, *, is_real: bool) -> None:
        self.ca, self._report = folder / "ca.pem", folder / "report.json"
        path = folder / "script.json"
        path.write_text(json.dumps(script))
        program = os.environ.get("ONCEBOX_BIN", "oncebox")
        self._behind: subprocess.Popen[str] | None = None
        faults = [program, "faults", "serve", str(path)]
        if is_real:
            self._behind, self._real = _started([program, "serve", "--port", "0", "--json"])
            faults = [program, "faults", "proxy", str(path), "--to", self._real]
        output = ["--json", "--tls", "--ca-out", str(self.ca), "--report", str(self._report)]
        self._process, self.url = _started([*faults, *output])

    def stop(self) -> None:
        """Ends it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        if self._behind is not None:
            self._behind.terminate()
            self._behind.wait(30)

    def sandboxes(self) -> int:
        """How many the real server has."""
        request = urllib.request.Request(f"{self._real}/v2/sandboxes", headers={"X-API-KEY": "key"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return len(json.load(answer))

    def report(self) -> dict[str, Any]:
        """Ends it, and tells what it saw."""
        self.stop()
        report: dict[str, Any] = json.loads(self._report.read_text())
        return report

    def tries(self, path: str) -> list[dict[str, Any]]:
        """The tries of requests whose path begins so."""
        return [attempt for attempt in self.report()["without_id"] if attempt["path"].startswith(path)]


def _started(command: list[str]) -> tuple[subprocess.Popen[str], str]:
    """A server, and its URL."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["url"]
