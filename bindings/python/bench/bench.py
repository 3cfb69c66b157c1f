"""What a call costs from Python, beside the official SDK, httpx and pyqwest: `bench.py [RUNS [SECONDS]]`.

Every measurement is a process of its own on a core of its own, and so is the server, which answers raw. Clients take turns, so
that whatever else happens on the machine happens to all of them. The figures are calls per second of the client's CPU, the
median of the runs. Fails outside of the bands. Needs ONCEBOX_BENCH (the raw server) and ONCEBOX_BIN (`oncebox serve`).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent

#: What is compared at which concurrency; the first is ours.
GROUPS: list[tuple[str, int, Sequence[str]]] = [
    ("a unary call of the SDK, 64 at once", 64, ("sdk-oncebox", "sdk-e2b", "sdk-e2b-enabled")),
    ("a unary call of the SDK, one at a time", 1, ("sdk-oncebox", "sdk-e2b", "sdk-e2b-enabled")),
    ("a POST through httpx, 64 at once", 64, ("httpx-oncebox", "httpx-own", "httpx-pyqwest")),
    ("a POST through httpx, one at a time", 1, ("httpx-oncebox", "httpx-own", "httpx-pyqwest")),
    ("a POST through pyqwest, 64 at once", 64, ("pyqwest-oncebox", "pyqwest-own")),
    ("a POST through pyqwest, one at a time", 1, ("pyqwest-oncebox", "pyqwest-own")),
]

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
        raise SystemExit(f"{client}: {done.stderr.strip().splitlines()[-1:]}")
    made, used = map(float, done.stdout.split())
    return made / used


def main(runs: int, seconds: float) -> int:
    """Measures, prints, and says what is outside of its band."""
    server = subprocess.Popen([os.environ["ONCEBOX_BENCH"], "answers"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    outside: list[str] = []
    try:
        port = server.stdout.readline().strip()
        for title, concurrency, clients in GROUPS:
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
                print(f"  {client:18} {median:10,.0f}  ({spread}){against if clients[0] in medians else ''}")
            for (ours, at, other), least in BANDS.items():
                if at == concurrency and ours in medians and other in medians:
                    ratio = medians[ours] / medians[other]
                    if ratio < least:
                        outside.append(f"{ours} at {at}: {ratio:.2f} times {other}, less than {least}")
    finally:
        server.kill()
        server.wait()
    round_trips()
    for line in outside:
        print(f"OUTSIDE: {line}")
    return 1 if outside else 0


def round_trips() -> None:
    """Create, run, kill on a local server: printed, without a band."""
    program = os.environ.get("ONCEBOX_BIN")
    if not program:
        return
    server = subprocess.Popen([program, "serve", "--port", "0", "--json"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = json.loads(server.stdout.readline())["url"]
        environment = {**os.environ, "E2B_API_KEY": "key", "E2B_API_URL": url, "E2B_SANDBOX_URL": url}
        print("\ncreate, run and kill, one after another: round trips a second")
        for name in ("oncebox", "e2b"):
            if not has(f"sdk-{name}"):
                continue
            done = subprocess.run(
                [sys.executable, str(HERE / "round_trips.py"), name], env=environment, capture_output=True, text=True
            )
            print(f"  {name:18} {done.stdout.strip() or done.stderr.strip().splitlines()[-1:]}")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(int(arguments[0]) if arguments else 5, float(arguments[1]) if len(arguments) > 1 else 3.0))
