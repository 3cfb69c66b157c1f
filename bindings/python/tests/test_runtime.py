"""The IO thread: waiting, cancelling, loops, threads, forks, signals, the interpreter's end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from socket import socket

import pytest
import trio

from oncebox import AuthenticationException, InvalidArgumentException, Outcome, OutcomeUnknownException, _core
from oncebox._run import run_async, run_sync
from oncebox.testing import LocalServer

Run = Callable[[Callable[[], Awaitable[object]]], object]
LOOPS = [pytest.param(lambda work: asyncio.run(work()), id="asyncio"), pytest.param(trio.run, id="trio")]


@pytest.fixture
def silent() -> Iterator[tuple[_core.Client, socket]]:
    """A client of a server that accepts connections and never answers."""
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        port = listener.getsockname()[1]
        yield _core.Client({"api_key": "k", "api_url": f"http://127.0.0.1:{port}", "cleanup_timeout": 0.2}), listener


def test_what_is_waited_for_comes(client: _core.Client) -> None:
    sandbox = run_sync(client.create())
    assert sandbox.id.isalnum()
    assert run_sync(sandbox.kill()) is True
    assert run_sync(sandbox.kill()) is False


@pytest.mark.parametrize("run", LOOPS)
def test_one_client_in_one_loop_after_another(client: _core.Client, run: Run) -> None:
    async def work() -> object:
        sandbox = await run_async(client.create())
        return await run_async(sandbox.kill())

    assert run(work) is True
    assert run(work) is True


def test_the_io_thread_stands_still_while_the_process_forks(client: _core.Client) -> None:
    run_sync(client.close())
    _core.before_fork()
    try:
        operation = client.close()
        time.sleep(0.2)
        assert operation.notify(_core.Completions(), 0) is False
    finally:
        _core.after_fork_in_parent()
    assert run_sync(operation) == []


def test_a_deadline_is_an_error_with_its_history(silent: tuple[_core.Client, socket]) -> None:
    client, _ = silent
    with pytest.raises(OutcomeUnknownException, match="request_timeout") as caught:
        run_sync(client.with_options({"request_timeout": 2}).create())
    assert caught.value.may_have_been_processed
    assert [attempt.outcome for attempt in caught.value.attempts] == [Outcome.TIMED_OUT]
    assert caught.value.intent is not None


def test_a_cancelled_task_gives_its_connection_up(silent: tuple[_core.Client, socket]) -> None:
    client, listener = silent

    async def work() -> None:
        task = asyncio.ensure_future(run_async(client.create()))
        peer, _ = await asyncio.to_thread(listener.accept)
        await asyncio.to_thread(peer.recv, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with peer:
            # Reads to the end: the request's rest, and then that nobody is there any more.
            peer.settimeout(10)
            while await asyncio.to_thread(peer.recv, 65536):
                pass

    asyncio.run(work())


def test_a_cancelled_scope_of_trio_gives_its_connection_up(silent: tuple[_core.Client, socket]) -> None:
    client, listener = silent

    async def work() -> bytes:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run_async, client.create())
                peer, _ = await trio.to_thread.run_sync(listener.accept)
                await trio.to_thread.run_sync(peer.recv, 1)
                scope.cancel()
        assert scope.cancelled_caught
        with peer:
            peer.settimeout(10)
            data = peer.recv(65536)
            while data:
                data = peer.recv(65536)
        return data

    assert trio.run(work) == b""


def test_many_end_in_one_loop(client: _core.Client) -> None:
    async def work() -> list[list[str]]:
        return await asyncio.gather(*(run_async(client.close()) for _ in range(1000)))

    assert asyncio.run(work()) == [[]] * 1000


def test_threads_wait_side_by_side(client: _core.Client) -> None:
    results: list[object] = []

    def work() -> None:
        sandbox = run_sync(client.create())
        results.append(run_sync(sandbox.kill()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4


def test_a_signal_ends_the_wait(silent: tuple[_core.Client, socket]) -> None:
    client, listener = silent

    over = threading.Event()

    def interrupt() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(1)
            os.kill(os.getpid(), signal.SIGINT)
            over.wait(60)

    thread = threading.Thread(target=interrupt)
    thread.start()
    # What is started in the background, as by `nohup … &`, ignores Ctrl-C, and the interpreter leaves it at that.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_sync(client.create())
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGINT, inherited)
    assert time.monotonic() - began < 30, "it waited for its deadline"


@pytest.mark.skipif(sys.platform != "linux", reason="a thread's switches are counted in /proc")
def test_a_thread_waits_undisturbed(silent: tuple[_core.Client, socket]) -> None:
    """Only the main thread has signals to look for: others are not woken before there is something for them."""
    client, listener = silent
    failures: list[BaseException] = []

    def work() -> None:
        try:
            run_sync(client.create())
        except BaseException as error:
            failures.append(error)

    def switches() -> int:
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
        return int(status.split("voluntary_ctxt_switches:")[1].split()[0])

    thread = threading.Thread(target=work)
    thread.start()
    with listener.accept()[0] as peer:
        peer.recv(1)
        ends, before = time.monotonic() + 30, -1
        while (now := switches()) != before and time.monotonic() < ends:
            before = now
            time.sleep(0.5)
        assert now == before, "it is woken again and again"
        peer.sendall(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
        thread.join(60)
    assert [type(failure) for failure in failures] == [AuthenticationException]


@pytest.mark.parametrize("value", [True, -1, 2.0, "3", 1001, [], float("nan")])
@pytest.mark.parametrize("option", ["retries", "connection_retries"])
def test_counts_that_are_none_are_refused(option: str, value: object) -> None:
    with pytest.raises(InvalidArgumentException, match=option):
        _core.Client({"api_key": "k", option: value})


@pytest.mark.parametrize("value", [True, -1, "3", float("nan"), float("inf"), -0.5])
def test_times_that_are_none_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentException, match="request_timeout"):
        _core.Client({"api_key": "k", "request_timeout": value})


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(InvalidArgumentException, match="retrise"):
        _core.Client({"api_key": "k", "retrise": 1})


CHILD = Path(__file__).parent / "child.py"


CASES = [
    *("fork", "fork_busy", "fork_imported", "fork_in_loop", "multiprocessing"),
    *("exit", "exit_in_thread", "exit_with_commands", "exit_with_commands_in_thread"),
    *("os.fork", "fork_process", "spawn", "forkserver", "without_hooks"),
]


@pytest.mark.parametrize("case", CASES)
def test_in_a_process_of_its_own(local_server: LocalServer, case: str) -> None:
    in_process(local_server, case)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted in /proc")
def test_loops_leave_nothing_behind(local_server: LocalServer) -> None:
    # Here, other tests' connections come and go meanwhile.
    in_process(local_server, "loops")


@pytest.mark.parametrize("case", ["exit_after_cancel", "exit_after_cancel_and_others"])
def test_the_end_waits_until_a_create_is_cleared_away(case: str) -> None:
    # A server of its own: another test's process may end late.
    with LocalServer() as server:
        made = {"on": ["create"], "fault": {"stall_answer": {"after": {"bytes": 1}, "seconds": 60}}}
        # So that the end comes before what is to be cleared away is known.
        looked_up = {"on": ["list"], "fault": {"latency": 1}}
        server.set_faults({"rules": [made, looked_up]})
        in_process(server, case)
        assert server.effects()["counts"] == {"createSandbox": 1, "killSandbox": 1}


def in_process(local_server: LocalServer, case: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore::DeprecationWarning", str(CHILD), case, local_server.url],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
