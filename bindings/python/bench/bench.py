"""What the package costs, beside the official SDK, httpx and pyqwest: `bench.py [--only PART]… [--runs N] [--seconds S]`.

Parts: `sdk`, `httpx` and `pyqwest` (calls for a second of CPU), `commands` (very many at once in one event loop), and
`round-trips` (create, run, kill). Each prints what it measured. Fails where a part fails or is outside of its band, once all
were tried. Needs ONCEBOX_BENCH (the raw server) and ONCEBOX_BIN (`oncebox serve` and `oncebox faults serve`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import calls
import many
from servers import HERE, Failed, Server

#: How often sandboxes are made, used and killed by one SDK, before the other has its turn.
TURNS = 3


def round_trips(_: argparse.Namespace) -> list[str]:
    """Create, run and kill on a local server: printed, without a band."""
    with Server([os.environ["ONCEBOX_BIN"], "serve", "--port", "0", "--json"]) as server:
        url = json.loads(server.line())["url"]
        environment = {**os.environ, "E2B_API_KEY": "key", "E2B_API_URL": url, "E2B_SANDBOX_URL": url}
        there = [name for name in ("oncebox", "e2b") if calls.has(f"sdk-{name}")]
        seconds: dict[str, list[float]] = {name: [] for name in there}
        for _turn in range(TURNS):
            for name in there:
                command = [sys.executable, str(HERE / "round_trips.py"), name]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
                if done.returncode != 0:
                    raise Failed(f"{name}: {done.stderr.strip()}")
                seconds[name].extend(map(float, done.stdout.split()))
    count = len(seconds[there[0]])
    print(f"\ncreate, run and kill, one after another: milliseconds, median of {count} (5th to 95th percentile)")
    for name, values in seconds.items():
        twentieths = statistics.quantiles(values, n=20)
        spread = f"{twentieths[0] * 1000:.1f} to {twentieths[-1] * 1000:.1f}"
        print(f"  {name:18} {statistics.median(values) * 1000:10.1f}  ({spread})")
    return []


PARTS: dict[str, Callable[[argparse.Namespace], list[str]]] = {
    **{name: (lambda options, name=name: calls.run(name, options.runs, options.seconds)) for name in calls.GROUPS},
    "commands": lambda options: many.run(options.commands),
    "round-trips": round_trips,
}


def main() -> int:
    """Measures, prints, and says what is outside of its band."""
    parser = argparse.ArgumentParser(prog="cargo xtask bench python", description="What the Python package costs.")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part, and no other that is not named")
    parser.add_argument("--runs", type=int, default=5, help="of each client, of which the median counts (5)")
    parser.add_argument("--seconds", type=float, default=2.5, help="that each client is measured in each run (2.5)")
    parser.add_argument("--commands", type=int, default=10_000, help="how many commands at once (10,000)")
    options = parser.parse_args()
    outside: list[str] = []
    for name, part in PARTS.items():
        if options.only and name not in options.only:
            continue
        began = time.monotonic()
        try:
            outside += part(options)
        except (Failed, subprocess.TimeoutExpired) as error:
            outside.append(f"{name}: {error}")
        print(f"  [{name}: {time.monotonic() - began:.0f} s]", flush=True)
    for line in outside:
        print(f"OUTSIDE: {line}")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
