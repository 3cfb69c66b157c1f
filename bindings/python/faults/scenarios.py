"""What is done, and what is right."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from peer import Peer

Told = tuple[str, bool]


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    title: str
    right: str
    script: dict[str, Any]
    run: Callable[[Any, Peer], Told]
    #: Whether a local server stands behind the scripted one, and does what it is asked to.
    is_real: bool = False


def answering(path: str, body: object, status: int = 200, **more: Any) -> dict[str, Any]:
    """A rule: this path is processed and answered so."""
    answer = {
        "status": status,
        "headers": {"content-type": "application/json"},
        "body": {"text": "" if body is None else json.dumps(body)},
        **more,
    }
    return {"at": "processed", "when": {"path": path}, "do": [{"answer": answer}]}


ID = "i0123456789abcdefghij"
SANDBOX = {"sandboxID": ID, "templateID": "base", "clientID": "c", "envdVersion": "0.6.13", "envdAccessToken": "token"}
LISTED = {
    **SANDBOX,
    "startedAt": "2026-01-01T00:00:00Z",
    "endAt": "2036-01-01T00:00:00Z",
    "cpuCount": 2,
    "memoryMB": 512,
    "diskSizeMB": 512,
    "state": "running",
}
ORDINARY = [
    answering(f"/v2/sandboxes/{ID}/connect", SANDBOX),
    answering("/files?*", [{"name": "f", "path": "/f", "type": "file"}]),
    # What was written is looked at.
    answering(
        "/filesystem.Filesystem/Stat", {"entry": {"name": "f", "path": "/f", "type": "FILE_TYPE_FILE", "size": "500"}}
    ),
    answering("/process.Process/List", {"processes": []}),
    answering(f"/sandboxes/{ID}", LISTED),
    answering("/v2/sandboxes?*", []),
]


def script(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A server that answers everything, but for these rules."""
    return {"rules": [*rules, *ORDINARY], **more}


CALLS, AT_ONCE = 2000, 64


def many(sdk: Any, peer: Peer, streamed: bool) -> Told:
    """So many calls, of which none may be lost, and none processed twice."""

    async def work() -> int:
        slots = asyncio.Semaphore(AT_ONCE)
        sandbox = await sdk.AsyncSandbox.connect(ID)

        async def one(number: int) -> int:
            async with slots:
                try:
                    if streamed:
                        await sandbox.files.write("/f", io.BytesIO(b"%05d" % number * 100))
                    else:
                        await sandbox.commands.list()
                except Exception:
                    return 1
                return 0

        return sum(await asyncio.gather(*map(one, range(CALLS))))

    lost = asyncio.run(work())
    path = "/files?" if streamed else "/process.Process/List"
    processed = sum(attempt["processed"] for attempt in peer.tries(path))
    doubled = max(0, processed - CALLS)
    return f"{lost / CALLS:.1%} lost, {doubled} doubled", lost == 0 and doubled == 0


def many_bytes(sdk: Any, peer: Peer) -> Told:
    return many(sdk, peer, False)


def many_streams(sdk: Any, peer: Peer) -> Told:
    return many(sdk, peer, True)


def raised(call: Callable[[], object]) -> tuple[BaseException | None, float]:
    """What a call raises, and how long it takes."""
    began = time.monotonic()
    try:
        call()
    except Exception as error:
        return error, time.monotonic() - began
    return None, time.monotonic() - began


def name(error: BaseException | None) -> str:
    return "no error" if error is None else f"`{type(error).__name__}`"


def adversary(sdk: Any, peer: Peer) -> Told:
    error, seconds = raised(lambda: sdk.Sandbox.create())
    report = peer.report()
    posts = [attempt for attempt in report["without_id"] if attempt["method"] == "POST"]
    connections = report["totals"]["connections"]
    listed = len(getattr(error, "attempts", ()))
    told = f"{len(posts)} POSTs on {connections} connections in {seconds:.1f} s; the error lists {listed} attempts"
    return told, len(posts) <= 7 and listed >= len(posts) and error is not None


def created_after_504(sdk: Any, peer: Peer) -> Told:
    error, seconds = raised(lambda: sdk.Sandbox.create(request_timeout=20))
    made = peer.sandboxes()
    posts = [attempt for attempt in peer.report()["without_id"] if attempt["method"] == "POST"]
    return f"{len(posts)} POSTs, {made} sandboxes made, in {seconds:.1f} s; {name(error)}", made <= 1


def retry_after_date(sdk: Any, peer: Peer) -> Told:
    error, seconds = raised(lambda: sdk.Sandbox.kill(ID))
    waited = f"sent again after {seconds:.2f} s" if error is None else f"{name(error)} after {seconds:.2f} s"
    return waited, seconds >= 1.0


def retry_after_hour(sdk: Any, peer: Peer) -> Told:
    error, seconds = raised(lambda: sdk.Sandbox.kill(ID))
    wait = getattr(error, "retry_after", None)
    status = getattr(error, "status_code", None)
    carries = f"carries retry_after {wait}, status {status}"
    text = str(error)
    return f"{name(error)} after {seconds:.2f} s; {carries}", wait == 3600 and (status == 503 or "503" in text)


def lost_get(sdk: Any, peer: Peer) -> Told:
    error, _ = raised(lambda: sdk.Sandbox.get_info(ID))
    tries = len(peer.tries(f"/sandboxes/{ID}"))
    return f"{tries} attempts; {name(error)}", error is None


def lost_delete(sdk: Any, peer: Peer) -> Told:
    error, _ = raised(lambda: sdk.Sandbox.kill(ID))
    tries = len(peer.tries(f"/sandboxes/{ID}"))
    return f"{tries} attempts; {name(error)}", error is None


def retired_with_an_error(sdk: Any, peer: Peer) -> Told:
    sandbox = sdk.Sandbox.connect(ID)
    error, _ = raised(lambda: sandbox.commands.list())
    tries = [attempt["processed"] for attempt in peer.tries("/process.Process/List")]
    return f"{len(tries)} attempts, {sum(tries)} processed; {name(error)}", error is None and sum(tries) == 1


#: How long a child may take.
CHILD = 10.0


def forked(sdk: Any, peer: Peer) -> Told:
    assert sdk.Sandbox.kill(ID) is True
    child = os.fork()
    if child == 0:
        error, _ = raised(lambda: sdk.Sandbox.kill(ID))
        os._exit(0 if error is None else 7)
    ends = time.monotonic() + CHILD
    while time.monotonic() < ends:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return "the child works" if code == 0 else "the child has an error at once", True
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"the child hangs (given up after {CHILD:.0f} s)", False


def timeout(sdk: Any, peer: Peer) -> Told:
    error, seconds = raised(lambda: sdk.Sandbox.kill(ID, request_timeout=2))
    return f"{name(error)} after {seconds:.1f} s", error is not None and 1.9 <= seconds <= 2.5


RETIRING = {"at": "request", "when": {"nth": 20}, "do": [{"goaway": {"debug": "max_age"}}]}
REFUSING = {"at": "request", "when": {"probability": 0.1}, "do": ["refuse"]}
IN_TWO_SECONDS = {"retry_after": {"http_date": 2}, "date": 0}

SCENARIOS = {
    "retired-bytes": Scenario(
        "each connection is retired after 20 streams; 2,000 POSTs of bytes, 64 at once",
        "0 lost, 0 doubled",
        script(RETIRING, service_time_ms=5),
        many_bytes,
    ),
    "retired-streams": Scenario(
        "the same with 2,000 streamed uploads",
        "0 lost, 0 doubled",
        script(RETIRING, service_time_ms=5),
        many_streams,
    ),
    "refused-streams": Scenario(
        "one stream in ten is answered REFUSED_STREAM; 2,000 streamed uploads",
        "0 lost, 0 doubled",
        script(REFUSING, service_time_ms=5, seed=7),
        many_streams,
    ),
    "adversary": Scenario(
        "a create of which three connects in four fail, two streams in three are refused, and the rest is answered 503",
        "at most 1 + 3 + 3 attempts in all; the error lists them",
        script(
            {"at": "connect", "when": {"count": "1,2,3 of 4"}, "do": ["reset"]},
            {"at": "request", "when": {"count": "1,2 of 3"}, "do": ["refuse"]},
            {"at": "answered", "do": ["close"]},
            answering("/v2/sandboxes", {"code": 503, "message": "busy"}, 503),
            answering("/sandboxes", {"code": 503, "message": "busy"}, 503),
        ),
        adversary,
    ),
    "create-504": Scenario(
        "a create is processed and answered 504; no key",
        "one sandbox at most: found again before anything is sent again, or an error that says it is unknown",
        {
            "rules": [
                {
                    "at": "processed",
                    "when": {"method": "POST", "path": ["/v2/sandboxes", "/sandboxes"]},
                    "do": [{"answer": {"status": 504, "body": {"text": '{"code": 504, "message": "late"}'}}}],
                }
            ]
        },
        created_after_504,
        is_real=True,
    ),
    "retry-after-date": Scenario(
        "503 with `Retry-After` as a date two seconds ahead",
        "waits until then",
        script(
            {
                "at": "processed",
                "when": {"path": f"/sandboxes/{ID}", "count": 1},
                "do": [{"answer": {"status": 503, "body": {"text": "{}"}, **IN_TWO_SECONDS}}],
            }
        ),
        retry_after_date,
    ),
    "retry-after-hour": Scenario(
        "503 with `Retry-After: 3600`",
        "fails at once; the error has the wait and the status",
        script(answering(f"/sandboxes/{ID}", {"code": 503, "message": "busy"}, 503, retry_after={"seconds": 3600})),
        retry_after_hour,
    ),
    "lost-get": Scenario(
        "the connection drops after a GET was sent",
        "sent again",
        script({"at": "processed", "when": {"path": f"/sandboxes/{ID}", "count": 1}, "do": ["reset"]}),
        lost_get,
    ),
    "lost-delete": Scenario(
        "the connection drops after a DELETE was sent",
        "sent again",
        script({"at": "processed", "when": {"path": f"/sandboxes/{ID}", "count": 1}, "do": ["reset"]}),
        lost_delete,
    ),
    "goaway-error": Scenario(
        "GOAWAY with INTERNAL_ERROR, the request's stream above its last id",
        "sent again: unprocessed is unprocessed",
        script(
            {
                "at": "request",
                "when": {"path": "/process.Process/List", "count": 1},
                "do": [{"goaway": {"last": "previous", "code": "INTERNAL_ERROR"}}],
            }
        ),
        retired_with_an_error,
    ),
    "fork": Scenario(
        "the process forks after a call was made",
        "the child works, or has an error at once",
        script(),
        forked,
    ),
    "timeout": Scenario(
        "`request_timeout=2`, and the server never answers",
        "fires at 2 s",
        script({"at": "received", "when": {"path": f"/sandboxes/{ID}"}, "do": ["hold"]}),
        timeout,
    ),
}
