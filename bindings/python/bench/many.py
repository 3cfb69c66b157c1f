"""Very many commands at once, each in a task of one event loop: nothing may be lost or doubled; what each costs is printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from many_client import STREAMS, script
from servers import HERE, Failed, Server

#: How long each command goes on, in seconds: so long that all are under way before the first ends.
SECONDS = 30.0

#: How they are asked for.
KINDS = {"handle": "started in the background, then waited for", "callback": "each piece of output to a function"}

#: Descriptors that the client may have open for 10,000: a connection has a hundred streams.
DESCRIPTORS = 300


def run(count: int) -> list[str]:
    """Measures and prints, and tells what is outside of its band."""
    outside: list[str] = []
    for kind, how in KINDS.items():
        seen, totals = measure(count, kind)
        # One more made the sandbox.
        doubled = totals["processed"] - 1 - count
        lost = count - seen["whole"]
        print(f"\n{count:,} commands at once in one event loop, {how}: {lost} lost, {max(doubled, 0)} doubled")
        if seen.get("ended_before") == 0:
            print(
                f"  all under way after {seen['opened_after']:.1f} s, with {seen['descriptors']} descriptors; "
                f"over after {seen['took']:.1f} s; CPU {seen['cpu'] / count * 1e6:.0f} us for each"
            )
            print(f"  memory for each: {seen['bytes_per_command'] / 1024:.1f} KiB")
            if seen["descriptors"] > DESCRIPTORS:
                outside.append(f"commands, {kind}: {seen['descriptors']} descriptors, more than {DESCRIPTORS}")
        else:
            outside.append(f"commands, {kind}: {seen.get('ended_before', 'some')} had ended before all were under way")
        for phase, lag in seen["lag_ms"].items():
            told = ", ".join(f"{name} {milliseconds:.1f} ms" for name, milliseconds in lag.items())
            print(f"  the loop's lag while {phase:9} {told}")
        sys.stdout.flush()
        if lost or doubled:
            outside.append(f"commands, {kind}: {lost} lost and {doubled} doubled; the first: {seen['wrong'][:1]}")
        if totals["connections"] * STREAMS < count:
            outside.append(f"commands, {kind}: only {totals['connections']} connections: none was retired")
    return outside


def measure(count: int, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the client saw, and what the server did."""
    with tempfile.TemporaryDirectory() as folder:
        path, report = Path(folder, "script.json"), Path(folder, "report.json")
        path.write_text(json.dumps(script(SECONDS)))
        serve = ["faults", "serve", str(path), "--json", "--report", str(report)]
        with Server([os.environ["ONCEBOX_BIN"], *serve]) as server:
            url = json.loads(server.line())["url"]
            command = [sys.executable, str(HERE / "many_client.py"), url, str(count), kind]
            done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        if done.returncode != 0:
            raise Failed(f"{kind}: {done.stderr.strip()}")
        return json.loads(done.stdout), json.loads(report.read_text())["totals"]
