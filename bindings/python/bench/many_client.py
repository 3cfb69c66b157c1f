"""Very many commands at once in one event loop: `many_client.py URL COUNT KIND`. Prints what it saw as JSON.

`KIND` is how each is asked for: `handle` starts it in the background and waits for its end; `callback` has each piece of its
output handed to a function meanwhile. The server is scripted (:func:`script`), since so many real processes would measure the
machine: each command writes a word at a time for so many seconds, over connections that carry 100 streams and are then retired.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

#: Streams of a connection, which is retired once it has carried as many.
STREAMS = 100

#: The length of an event as JSON, filled up: each is one DATA frame.
EVENT = 96

#: What each command writes, word by word.
WORDS = [f"{number};" for number in range(10)]

EXIT_CODE = 3


def script(seconds: float) -> dict[str, Any]:
    """A control plane, and a sandbox whose every command goes on for so long: for `oncebox faults serve`."""
    told = [base64.b64encode(word.encode()).decode() for word in WORDS]
    events: list[Any] = [
        {"event": {"start": {"pid": 7}}},
        *({"event": {"data": {"stdout": word}}} for word in told),
        {"event": {"end": {"exitCode": EXIT_CODE, "exited": True, "status": f"exit status {EXIT_CODE}"}}},
        {},
    ]
    # Connect's envelopes: a byte of flags, of which 2 is the end, and the length in four.
    flags = ["\0"] * (len(events) - 1) + ["\2"]
    stream = "".join(
        f"{flag}\0\0\0{chr(EVENT)}{json.dumps(event):{EVENT}}" for flag, event in zip(flags, events, strict=True)
    )
    sandbox = {"templateID": "base", "sandboxID": "i1", "clientID": "c", "envdVersion": "0.6.13"}

    def answers(path: str, status: int, content: str, text: str, **more: Any) -> dict[str, Any]:
        answer = {"status": status, "headers": {"content-type": content}, "body": {"text": text}, **more}
        return {"at": "processed", "when": {"path": path}, "do": [{"answer": answer}]}

    paced = {"frame_size": EVENT + 5, "pause_ms": int(seconds * 1000 / (len(events) - 1)), "framing": "chunked"}
    return {
        "settings": {"max_concurrent_streams": STREAMS},
        "rules": [
            {"at": "request", "when": {"nth": STREAMS}, "do": [{"goaway": {}}]},
            answers("/v2/sandboxes", 201, "application/json", json.dumps(sandbox)),
            answers("/process.Process/Start", 200, "application/connect+json", stream, **paced),
        ],
    }


class Lag:
    """How much later than asked for a loop comes to what is due, in milliseconds."""

    #: How often it is looked at, in seconds.
    INTERVAL = 0.005

    def __init__(self) -> None:
        self.phase = "starting"
        self._seen: dict[str, list[float]] = {}

    async def watch(self) -> None:
        """Looks, until it is cancelled."""
        while True:
            due = time.perf_counter() + self.INTERVAL
            await asyncio.sleep(self.INTERVAL)
            self._seen.setdefault(self.phase, []).append((time.perf_counter() - due) * 1000)

    def told(self) -> dict[str, dict[str, float]]:
        """The median, the 99th percentile and the most, of each phase."""

        def of(values: list[float]) -> dict[str, float]:
            values = sorted(values)
            return {"p50": values[len(values) // 2], "p99": values[len(values) * 99 // 100], "max": values[-1]}

        return {phase: of(values) for phase, values in self._seen.items()}


def resident() -> int:
    """Memory of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status tells no VmRSS")


def cpu() -> float:
    """What this process used, in seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def measured(url: str, count: int, kind: str) -> dict[str, Any]:
    """Has all of them at once, and tells what became of them."""
    import oncebox

    options: dict[str, Any] = {"api_url": url, "sandbox_url": url, "http_version": "2"}
    sandbox = await oncebox.AsyncSandbox.create(api_key="k", request_timeout=120, **options)
    whole, begun, ended = 0, 0, 0
    wrong: list[str] = []
    at_once: dict[str, Any] = {}
    lag = Lag()
    gc.collect()
    before, cpu_before = resident(), cpu()
    began = time.perf_counter()

    def one_more_runs() -> None:
        nonlocal begun
        begun += 1
        if begun == count:
            at_once.update(
                opened_after=time.perf_counter() - began,
                ended_before=ended,
                descriptors=descriptors(),
                bytes_per_command=(resident() - before) / count,
            )
            lag.phase = "held"

    async def of_handle() -> Any:
        handle = await sandbox.commands.run("true", background=True, timeout=0)
        one_more_runs()
        return await handle.wait()

    async def of_callback() -> Any:
        heard: list[str] = []

        def hear(word: str) -> None:
            if not heard:
                one_more_runs()
            heard.append(word)

        try:
            return await sandbox.commands.run("true", on_stdout=hear, timeout=0)
        finally:
            if "".join(heard) != "".join(WORDS):
                wrong.append(f"its callback heard {heard}")

    async def one() -> None:
        nonlocal whole, ended
        try:
            await (of_callback() if kind == "callback" else of_handle())
            wrong.append("no exit code")
        except oncebox.CommandExitException as error:
            if (error.exit_code, error.stdout, error.stderr) == (EXIT_CODE, "".join(WORDS), ""):
                whole += 1
            else:
                wrong.append(f"{error!r}: {error.stdout!r}")
        except Exception as error:
            wrong.append(repr(error))
        ended += 1
        if begun == count:
            lag.phase = "ending"

    watching = asyncio.ensure_future(lag.watch())
    await asyncio.sleep(0)
    await asyncio.gather(*(one() for _ in range(count)))
    took = time.perf_counter() - began
    watching.cancel()
    used = cpu() - cpu_before
    return {"whole": whole, "wrong": wrong[:3], "took": took, "cpu": used, "lag_ms": lag.told(), **at_once}


def main(url: str, count: str, kind: str) -> None:
    """Measures and prints."""
    print(json.dumps(asyncio.run(measured(url, int(count), kind))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
