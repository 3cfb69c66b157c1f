"""Calls for a second of the client's CPU.

Every measurement is a process of its own on a core of its own, and so is the server, which answers raw. Clients take turns, so
that whatever else happens on the machine happens to all of them. The median of the runs counts.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from servers import HERE, Failed, Server

#: What is compared, by part: a title, how many calls at once, and the clients, of which the first is ours.
GROUPS: dict[str, list[tuple[str, int, Sequence[str]]]] = {
    "sdk": [
        ("a unary call of the SDK, 64 at once", 64, ("sdk-oncebox", "sdk-e2b", "sdk-e2b-enabled")),
        ("a unary call of the SDK, one at a time", 1, ("sdk-oncebox", "sdk-e2b", "sdk-e2b-enabled")),
    ],
    "httpx": [
        ("a POST through httpx, 64 at once", 64, ("httpx-oncebox", "httpx-own", "httpx-pyqwest")),
        ("a POST through httpx, one at a time", 1, ("httpx-oncebox", "httpx-own", "httpx-pyqwest")),
    ],
    "pyqwest": [
        ("a POST through pyqwest, 64 at once", 64, ("pyqwest-oncebox", "pyqwest-own")),
        ("a POST through pyqwest, one at a time", 1, ("pyqwest-oncebox", "pyqwest-own")),
    ],
}

#: Ours against another's, at a concurrency: at least so many times its calls per CPU second.
BANDS: dict[tuple[str, int, str], float] = {
    ("sdk-oncebox", 64, "sdk-e2b"): 1.5,
    ("sdk-oncebox", 1, "sdk-e2b"): 1.0,
    ("httpx-oncebox", 64, "httpx-own"): 1.0,
    ("httpx-oncebox", 64, "httpx-pyqwest"): 1.0,
    ("httpx-oncebox", 1, "httpx-own"): 1.0,
    ("httpx-oncebox", 1, "httpx-pyqwest"): 1.0,
    ("pyqwest-oncebox", 64, "pyqwest-own"): 0.9,
    ("pyqwest-oncebox", 1, "pyqwest-own"): 0.9,
}


def has(client: str) -> bool:
    """Whether the SDK is there: ours has no sandboxes in a build of the HTTP layer alone."""
    if client != "sdk-oncebox":
        return True
    import oncebox

    try:
        return hasattr(oncebox, "AsyncSandbox")
    except ImportError:
        return False


def measure(client: str, concurrency: int, seconds: float, port: str) -> float:
    """Calls per CPU second."""
    command = [sys.executable, str(HERE / "client.py"), client, str(concurrency), str(seconds), port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 10 * seconds)
    if done.returncode != 0:
        raise Failed(f"{client} at {concurrency}: {done.stderr.strip()}")
    made, used = map(float, done.stdout.split())
    return made / used


def run(part: str, runs: int, seconds: float) -> list[str]:
    """Measures and prints a part, and tells what is outside of its band."""
    outside: list[str] = []
    with Server([os.environ["ONCEBOX_BENCH"], "answers"]) as server:
        port = server.line()
        for title, concurrency, clients in GROUPS[part]:
            there = [client for client in clients if has(client)]
            figures: dict[str, list[float]] = {client: [] for client in there}
            for _ in range(runs):
                for client in there:
                    figures[client].append(measure(client, concurrency, seconds, port))
            medians = {client: statistics.median(values) for client, values in figures.items()}
            print(f"\n{title}: calls per CPU second, median of {runs}")
            for client, median in medians.items():
                spread = f"{min(figures[client]):,.0f} to {max(figures[client]):,.0f}"
                against = f", {medians[clients[0]] / median:.2f} times that for ours" if client != clients[0] else ""
                print(
                    f"  {client:18} {median:10,.0f}  ({spread}){against if clients[0] in medians else ''}", flush=True
                )
            for (ours, at, other), least in BANDS.items():
                if at == concurrency and ours in medians and other in medians:
                    ratio = medians[ours] / medians[other]
                    if ratio < least:
                        outside.append(f"{ours} at {at}: {ratio:.2f} times {other}, less than {least}")
    return outside
