"""The measured faults, three times: the official SDK as installed, with Oncebox beneath it, and `oncebox` in its place.

    python measure.py [--write FILE]

Each scenario is the same lines against the same scripted server: only what `sdk` is differs. Each cell is a process of its own.
Fails when Oncebox does not do what is right, in either of its columns. Needs the command `oncebox`, by ONCEBOX_BIN.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from scenarios import SCENARIOS

COLUMNS = {
    "installed": "e2b as installed",
    "enabled": "with `enable()`",
    "oncebox": "`oncebox`",
}

#: For one scenario of one column.
LIMIT = 120


def cell(column: str, name: str) -> tuple[str, bool]:
    """What happened, and whether that is right."""
    command = [sys.executable, str(Path(__file__).with_name("cell.py")), column, name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"did not end in {LIMIT} s", False
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return f"failed: {lines[-1] if lines else done.returncode}", False
    told = json.loads(done.stdout.splitlines()[-1])
    return told["text"], told["right"]


def main(arguments: list[str]) -> int:
    """Measures, prints, and writes where it is asked to."""
    rows: list[list[str]] = []
    wrong: list[str] = []
    for name, scenario in SCENARIOS.items():
        row = [scenario.title]
        for column in COLUMNS:
            text, right = cell(column, name)
            print(f"{'  ' if right else '! '}{name}, {column}: {text}", flush=True)
            row.append(text)
            if not right and column != "installed":
                wrong.append(f"{name}, {column}: {text}")
        rows.append([*row, scenario.right])
    if arguments[:1] == ["--write"]:
        Path(arguments[1]).write_text(page(rows))
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


def page(rows: list[list[str]]) -> str:
    """The table as a page."""
    from importlib import metadata

    head = ["what happens", *COLUMNS.values(), "what is right"]
    table = [head, ["---"] * len(head), *rows]
    lines = "\n".join("| " + " | ".join(row) + " |" for row in table)
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("e2b", "pyqwest", "httpx"))
    return f"""# What faults do to Python clients

Measured, not claimed: `cargo xtask compat faults --write` runs each scenario and writes this page; without `--write` it prints
what it measures. Each row is the same lines of Python against the same scripted server (HTTP/2 over TLS, as the provider's edge
speaks it), three times: with the official SDK as it is installed ({versions}), with
`oncebox.compat.e2b.enable()` before it, and with `oncebox` imported in its place. *Lost* is a call that raised; *doubled*,
what the server processed beyond the calls that were made: at least so many, where calls were lost. Times are of this machine.
Shares that are lost move with its load, and differ from those of `bench retirement`, which drives the same clients by
themselves: [benchmarks](benchmarks.md) says why.

{lines}
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
