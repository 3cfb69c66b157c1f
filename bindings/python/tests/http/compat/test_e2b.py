"""Beneath the installed `e2b`: what a server that misbehaves sees, and what the SDK's caller hears."""

from __future__ import annotations

import asyncio
import importlib
import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest

import oncebox.compat.e2b
from oncebox import Outcome, UnsupportedException
from oncebox.httpx import attempts_of

e2b: Any = pytest.importorskip("e2b")

if TYPE_CHECKING:
    from ..conftest import MakePeer, Peer

VERSION = tuple(int(part) for part in metadata.version("e2b").split(".")[:2])


@pytest.fixture
def enabled() -> Iterator[None]:
    oncebox.compat.e2b.enable()
    yield
    oncebox.compat.e2b.disable()


#: What the SDK asks of a sandbox that it connects to.
SANDBOX = {
    "sandboxID": "i0123456789abcdefghij",
    "templateID": "base",
    "clientID": "c",
    "envdVersion": "0.6.13",
    "envdAccessToken": "token",
}


def answering(path: str, body: object, status: int = 200) -> dict[str, Any]:
    headers = {"content-type": "application/json"}
    answer = {"status": status, "headers": headers, "body": {"text": json.dumps(body)}}
    return {"at": "processed", "when": {"path": path}, "do": [{"answer": answer}]}


CONNECT = answering("/v2/sandboxes/i0123456789abcdefghij/connect", SANDBOX)
FILES = answering("/files*", [{"name": "f", "path": "/f", "type": "file"}])
PROCESSES = answering("/process.Process/List", {"processes": []})


@pytest.fixture
def provider(peer: MakePeer, monkeypatch: pytest.MonkeyPatch, enabled: None) -> Any:
    """A provider of sandboxes over HTTP/2 that answers by rules."""

    def start(*rules: dict[str, Any], **script: Any) -> Peer:
        server = peer({"rules": [*rules, CONNECT, FILES, PROCESSES], **script}, tls=True)
        monkeypatch.setenv("SSL_CERT_FILE", str(server.ca))
        monkeypatch.setenv("E2B_API_KEY", "key")
        for variable in ("E2B_API_URL", "E2B_SANDBOX_URL"):
            monkeypatch.setenv(variable, server.url)
        # The pools of one test trust what the next one does not.
        oncebox.compat.e2b.disable()
        oncebox.compat.e2b.enable()
        return server

    return start


def heads(server: Peer) -> int:
    total: int = server.report()["totals"]["heads"]
    return total


# Enabling and disabling.

PLACES = {
    "e2b.api.client_sync": ["SyncHTTPTransport", "ConnectionRetryTransport", "PyqwestTransport", "RetryableTransport"],
    "e2b.api.client_async": ["HTTPTransport", "ConnectionRetryTransport", "AsyncPyqwestTransport", "_transports"],
    "e2b.template_sync.build_api": ["SyncHTTPTransport", "PyqwestTransport"],
    "e2b.template_async.build_api": ["HTTPTransport", "AsyncPyqwestTransport"],
}


def places() -> list[Any]:
    return [getattr(importlib.import_module(module), name) for module, names in PLACES.items() for name in names]


def test_what_is_enabled_is_undone() -> None:
    before = places()
    oncebox.compat.e2b.enable()
    oncebox.compat.e2b.enable()
    assert oncebox.compat.e2b.is_enabled()
    assert all(ours is not theirs for ours, theirs in zip(places(), before, strict=True))
    oncebox.compat.e2b.disable()
    oncebox.compat.e2b.disable()
    assert not oncebox.compat.e2b.is_enabled()
    assert all(now is then for now, then in zip(places(), before, strict=True))


@pytest.mark.parametrize("version", ["2.51.0", "2.64.0", "3.0.0", "1.9.9", "new"])
def test_another_version_is_refused_and_nothing_is_changed(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    before = places()
    monkeypatch.setattr(metadata, "version", lambda name: version)
    with pytest.raises(UnsupportedException, match=r"supported are 2\.52\.0 to 2\.63"):
        oncebox.compat.e2b.enable()
    assert places() == before
    assert not oncebox.compat.e2b.is_enabled()


def test_a_version_that_is_not_what_it_says_is_refused_and_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("e2b.template_async.build_api.HTTPTransport")
    before = importlib.import_module("e2b.api.client_sync").SyncHTTPTransport
    with pytest.raises(UnsupportedException, match=r"build_api\.HTTPTransport is missing"):
        oncebox.compat.e2b.enable()
    assert importlib.import_module("e2b.api.client_sync").SyncHTTPTransport is before


# The control plane.


def test_attempts_add_up_over_all_layers(provider: Any) -> None:
    # Each stream is refused, each second answer is a 503: whatever repeats, repeats here.
    server = provider(
        {"at": "request", "when": {"count": "1,2 of 4"}, "do": ["refuse"]},
        answering("/sandboxes/i1", {"code": 503, "message": "busy"}, 503),
    )
    with pytest.raises(Exception, match=r"REFUSED_STREAM|503") as caught:
        e2b.Sandbox.kill("i1", retries=2)
    assert len(attempts_of(caught.value)) == heads(server) == 6


def test_the_sdks_retries_are_the_policys(provider: Any) -> None:
    server = provider(answering("/sandboxes/i1", {"code": 503, "message": "busy"}, 503))
    with pytest.raises(Exception, match="503"):
        e2b.Sandbox.kill("i1", retries=1)
    with pytest.raises(Exception, match="503"):
        e2b.Sandbox.kill("i1", retries=0)
    with pytest.raises(e2b.InvalidArgumentException, match="retries"):
        e2b.Sandbox.kill("i1", retries=True)
    assert heads(server) == 2 + 1


def test_an_error_of_an_answer_has_its_evidence(provider: Any) -> None:
    busy = answering("/sandboxes/i1", {"code": 503, "message": "busy"}, 503)
    busy["do"][0]["answer"]["retry_after"] = {"seconds": 3600}
    provider(busy)
    with pytest.raises(Exception, match="503") as caught:
        e2b.Sandbox.kill("i1")
    error: Any = caught.value
    assert (error.retry_after, error.outcome, len(error.attempts)) == (3600, Outcome.RESPONDED, 1)


def test_an_empty_hint_is_none(provider: Any) -> None:
    busy = answering("/sandboxes/i1", {"code": 503, "message": "busy"}, 503)
    busy["do"][0]["answer"]["headers"]["retry-after"] = ""
    provider(busy)
    with pytest.raises(Exception, match="503") as caught:
        e2b.Sandbox.kill("i1", retries=0)
    assert caught.value.retry_after is None  # type: ignore[attr-defined]


def test_a_create_is_never_sent_twice_on_a_guess(provider: Any) -> None:
    server = provider(answering("/v2/sandboxes", {"code": 504, "message": "late"}, 504))
    with pytest.raises(e2b.SandboxException, match="504"):
        e2b.Sandbox.create()
    assert heads(server) == 1
    server = provider({"at": "processed", "when": {"path": "/v2/sandboxes"}, "do": ["reset"]})
    with pytest.raises(Exception, match="connection lost") as caught:
        e2b.Sandbox.create()
    assert caught.value.outcome is Outcome.SENT_UNKNOWN  # type: ignore[attr-defined]
    assert len(attempts_of(caught.value)) == 1
    assert heads(server) == 1


def test_the_statuses_are_those_of_the_version(provider: Any) -> None:
    server = provider(answering("/sandboxes/i1", {"code": 429, "message": "slow down"}, 429))
    with pytest.raises(e2b.RateLimitException):
        e2b.Sandbox.kill("i1", retries=1)
    # From 2.60 on a 429 is retried without a hint, too.
    assert heads(server) == (2 if VERSION >= (2, 60) else 1)


def test_what_was_lost_and_may_be_repeated_is_repeated(provider: Any) -> None:
    gone = answering("/sandboxes/i1", {}, 204)
    server = provider({"at": "processed", "when": {"count": 1}, "do": ["reset"]}, gone)
    assert e2b.Sandbox.kill("i1") is True
    assert heads(server) == 2


# Sandboxes.


def test_a_call_to_a_sandbox_is_not_repeated_on_a_guess_but_where_it_was_refused(provider: Any) -> None:
    server = provider({"at": "request", "when": {"path": "/process.Process/List", "count": 1}, "do": ["refuse"]})
    sandbox = e2b.Sandbox.connect(SANDBOX["sandboxID"])
    assert sandbox.commands.list() == []
    assert heads(server) == 1 + 2
    lost = {"at": "processed", "when": {"path": "/process.Process/List"}, "do": ["reset"]}
    server = provider(lost)
    sandbox = e2b.Sandbox.connect(SANDBOX["sandboxID"])
    # As before: a sandbox that is healthy is not blamed, and the RPC library's own error is handed on.
    with pytest.raises(Exception, match="connection lost") as caught:
        sandbox.commands.list()
    assert caught.value.__cause__.outcome is Outcome.SENT_UNKNOWN  # type: ignore[union-attr]
    lists = [path for path in paths(server) if path == "/process.Process/List"]
    assert lists == ["/process.Process/List"]


def paths(server: Peer) -> list[str]:
    return [attempt["path"] for attempt in server.report()["without_id"]]


RETIRING = {"at": "request", "when": {"nth": 20}, "do": [{"goaway": {"debug": "max_age"}}]}


class Streamed(io.BytesIO):
    """A file, whose content is read as it is sent."""


def test_uploads_over_connections_that_retire_in_a_loop(provider: Any) -> None:
    server = provider(RETIRING, service_time_ms=5)

    async def work() -> int:
        slots = asyncio.Semaphore(64)
        sandbox = await e2b.AsyncSandbox.connect(SANDBOX["sandboxID"])

        async def one(number: int) -> int:
            async with slots:
                await sandbox.files.write("/f", Streamed(b"%05d" % number * 100))
                return 1

        return sum(await asyncio.gather(*map(one, range(2000))))

    assert asyncio.run(work()) == 2000
    assert server.report()["totals"]["processed"] == 2000 + 1


def test_uploads_over_connections_that_retire_in_threads(provider: Any) -> None:
    server = provider(RETIRING, service_time_ms=5)
    sandbox = e2b.Sandbox.connect(SANDBOX["sandboxID"])

    def one(number: int) -> int:
        sandbox.files.write("/f", Streamed(b"%05d" % number * 100))
        return 1

    with ThreadPoolExecutor(64) as threads:
        assert sum(threads.map(one, range(2000))) == 2000
    assert server.report()["totals"]["processed"] == 2000 + 1


# The packages on top.


@pytest.mark.on_top
def test_the_code_interpreter_goes_the_same_way(provider: Any) -> None:
    interpreter: Any = pytest.importorskip("e2b_code_interpreter")
    lines = [{"type": "stdout", "text": "4\n", "timestamp": 1}, {"type": "number_of_executions", "execution_count": 1}]
    answer = {"body": {"text": "".join(json.dumps(line) + "\n" for line in lines)}}
    execute = {"at": "processed", "when": {"path": "/execute"}, "do": [{"answer": answer}]}
    server = provider(execute)
    sandbox = interpreter.Sandbox.connect(SANDBOX["sandboxID"])
    assert "".join(sandbox.run_code("print(2 + 2)").logs.stdout) == "4\n"

    async def work() -> str:
        sandbox = await interpreter.AsyncSandbox.connect(SANDBOX["sandboxID"])
        return "".join((await sandbox.run_code("print(2 + 2)")).logs.stdout)

    assert asyncio.run(work()) == "4\n"
    assert paths(server).count("/execute") == 2


@pytest.mark.on_top
def test_desktops_go_the_same_way(provider: Any) -> None:
    desktop: Any = pytest.importorskip("e2b_desktop")
    server = provider({"at": "request", "when": {"path": "/process.Process/List", "count": 1}, "do": ["refuse"]})
    sandbox = desktop.Sandbox.connect(SANDBOX["sandboxID"])
    assert sandbox.commands.list() == []
    assert paths(server).count("/process.Process/List") == 2
