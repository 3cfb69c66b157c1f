"""What went wrong once, each by what a user saw of it."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
import trio
import trio.testing

import oncebox
import oncebox.code_interpreter
from oncebox import InvalidArgumentException, RetryPolicy, _core
from oncebox._async._reading import AsyncPieces
from oncebox._run import Background, run_async, run_sync
from oncebox._sync.commands import Commands
from oncebox._watch_base import AsyncWatchHandle
from oncebox.testing import LocalServer
from sides import Side, do


class Told:
    """An operation that has ended."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def wait(self) -> Any:
        return self.result

    take = wait

    def notify(self, *_: object) -> bool:
        return True


@asynccontextmanager
async def of(side: Side) -> AsyncIterator[Any]:
    """A sandbox, which is killed at the end."""
    sandbox = await do(side.Sandbox.create())
    try:
        yield sandbox
    finally:
        await do(sandbox.kill())


def came_too_late(operation: _core.Pending[Any]) -> None:
    """Has an operation end, and gives it up then: whoever waited had gone in between."""
    completions = _core.Completions()
    if not operation.notify(completions, 0):
        assert select.select([completions.fileno()], [], [], 30)[0]
    operation.cancel()


async def test_a_number_was_written_as_so_many_zeros(side: Side, local_server: LocalServer) -> None:
    async with of(side) as sandbox:
        for data in (5, [1, 2], [b"a", 2]):
            with pytest.raises(TypeError, match="not int"):
                await do(sandbox.files.write("/tmp/numbers", data))
        assert await do(sandbox.files.exists("/tmp/numbers")) is False
        command = await do(sandbox.commands.run("cat", background=True, stdin=True))
        for send in (lambda: sandbox.commands.send_stdin(command.pid, 5), lambda: command.send_stdin(5)):
            with pytest.raises(TypeError, match="not int"):
                await do(send())
        await do(command.send_stdin(bytearray(b"bytes ")))
        await do(command.send_stdin(memoryview(b"and views")))
        await do(command.close_stdin())
        assert (await do(command.wait())).stdout == "bytes and views"


def test_a_page_whose_wait_was_cancelled_was_skipped(local_server: LocalServer) -> None:
    options = local_server.options
    client = _core.Client(options)
    made = [oncebox.Sandbox.create(metadata={"pages": "1"}, **options) for _ in range(3)]
    for number in range(3):
        made[0].create_snapshot(f"page-{number}")
        oncebox.Secret.create(f"page-{number}", "x", **options)
    try:
        lists: list[Any] = [
            client.list_sandboxes({"metadata": {"pages": "1"}, "limit": 1}),
            client.list_snapshots({"sandbox_id": made[0].sandbox_id, "limit": 1}),
            client.secrets(1, None),
        ]
        for pages in lists:
            found: list[Any] = []
            while pages.has_next:
                came_too_late(pages.next(client))
                assert pages.has_next, "the last page was not had"
                found += run_sync(pages.next(client))
            # Other tests keep secrets in the same account.
            others = [one for one in found if "secret_id" in one and not one["name"].startswith("page-")]
            assert len(found) - len(others) == 3
            assert pages.next_token is None
    finally:
        for number in range(3):
            oncebox.Secret.destroy(f"page-{number}", **options)
        for sandbox in made:
            sandbox.kill()


def test_a_piece_of_a_response_was_lost_with_a_cancelled_read() -> None:
    go_on = threading.Event()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n")
                go_on.wait(30)
                peer.sendall(b"abc")
                go_on.clear()
                go_on.wait(30)
                peer.sendall(b"def")

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        transport = _core.HttpTransport(policy=RetryPolicy()._json())
        response = run_sync(transport.send("GET", url, [], None, None, None, None))
        assert isinstance(response, _core.HttpResponse)
        reading = response.next()
        go_on.set()
        came_too_late(reading)
        assert run_sync(response.next()) == b"abc"
        go_on.set()
        assert run_sync(response.next()) == b"def"
        assert run_sync(response.next()) is None
        thread.join()


def test_a_piece_of_a_file_was_lost_with_a_cancelled_read(local_server: LocalServer) -> None:
    with oncebox.Sandbox.create() as sandbox:
        volume = oncebox.Volume.create("cancelled-read")
        sandbox.files.write("/tmp/a", "of a sandbox")
        volume.write_file("/a", "of a volume")
        core = oncebox.Volume._client(local_server.options).known_volume(
            volume.volume_id, volume.name, volume.token, None
        )
        for whole, reading in (
            (b"of a sandbox", run_sync(sandbox._core.stream_file("/tmp/a", None, None))),
            (b"of a volume", run_sync(core.stream_file("/a", None))),
        ):
            came_too_late(reading.next())
            assert run_sync(reading.next()) == whole
            came_too_late(reading.next())
            assert run_sync(reading.next()) is None
        oncebox.Volume.destroy(volume.volume_id)


async def test_a_cancelled_wait_for_a_piece_ended_the_file(side: Side) -> None:
    if not side.is_async:
        return

    class Core:
        """Of which the first piece does not come before it is asked for again."""

        def __init__(self, never: _core.Pending[Any]) -> None:
            self.pieces = [never, Told(b"one"), Told(b"two"), Told(None)]

        def next(self) -> Any:
            return self.pieces.pop(0)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = _core.Client(
            {"api_key": "k", "api_url": f"http://127.0.0.1:{silent.getsockname()[1]}", "cleanup_timeout": 0}
        )
        pieces: Any = AsyncPieces(Core(client.secret_exists("a")))  # type: ignore[arg-type]
        if side.name == "trio":
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(anext, pieces)
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            assert scope.cancelled_caught
        else:
            task = asyncio.ensure_future(anext(pieces))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await side.stream(pieces) == [b"one", b"two"]


def test_forks_whose_caller_had_gone_lived_on() -> None:
    # A server of its own: what is killed for another test may be counted late.
    with LocalServer() as server, oncebox.Sandbox.create(**server.options) as sandbox:
        came_too_late(sandbox._core.fork(2, None))
        end = time.monotonic() + 60
        while server.effects()["counts"].get("killSandbox") != 2:
            assert time.monotonic() < end, "they live on"
            time.sleep(0.02)
        assert sandbox.is_running()


def test_a_source_that_failed_kept_its_stream_into_a_command_open() -> None:
    class Input:
        given_up = False

        def send(self, data: bytes) -> Told:
            return Told(None)

        def give_up(self) -> None:
            self.given_up = True

    class Core:
        def __init__(self, opened: Input) -> None:
            self.opened = opened

        def stream_input(self, *_: object) -> Input:
            return self.opened

    def failing() -> Any:
        yield "a"
        raise ZeroDivisionError

    opened = Input()
    with pytest.raises(ZeroDivisionError):
        Commands(Core(opened)).stream_input(7, failing())  # type: ignore[arg-type]
    assert opened.given_up


def test_what_came_with_the_piece_at_which_a_loop_was_left_was_lost(local_server: LocalServer) -> None:
    with oncebox.Sandbox.create() as sandbox:
        line = "for i in $(seq 100); do echo $i; echo e$i >&2; done"
        command, stdout, stderr = sandbox.commands.run(line, background=True), "", ""
        while True:
            for out, err, _ in command:
                stdout, stderr = stdout + (out or ""), stderr + (err or "")
                break
            else:
                break
        result = command.wait()
        assert (stdout, stderr) == (result.stdout, result.stderr)
        assert stdout.count("\n") == stderr.count("\n") == 100
        # The rest is for the callbacks of `wait` where the loop is not gone on with.
        command, told = sandbox.commands.run(line, background=True), []
        for out, _, _ in command:
            told.append(out or "")
            if len(told) > 2:
                break
        command.wait(on_stdout=told.append)
        assert "".join(told) == result.stdout


async def test_an_unknown_format_was_taken_for_text(side: Side, local_server: LocalServer) -> None:
    async with of(side) as sandbox:
        with pytest.raises(InvalidArgumentException, match="format: 'txt' is none of"):
            await do(sandbox.files.read("/etc/hosts", format="txt"))
        volume = await do(side.Volume.create(f"format-{side.name}"))
        with pytest.raises(InvalidArgumentException, match="format: 'txt' is none of"):
            await do(volume.read_file("/a", format="txt"))
        await do(side.Volume.destroy(volume.volume_id))


async def test_processes_and_ports_that_are_none_were_no_argument_errors(side: Side, local_server: LocalServer) -> None:
    async with of(side) as sandbox:
        for wrong in ("1", True, -1, 2**40, 1.5, None):
            with pytest.raises(InvalidArgumentException, match="pid: "):
                await do(sandbox.commands.kill(wrong))
            with pytest.raises(InvalidArgumentException, match="pid: "):
                await do(sandbox.commands.connect(wrong))
            with pytest.raises(InvalidArgumentException, match="port: "):
                sandbox.get_host(wrong)


async def test_a_durable_command_could_not_be_attached_to_beyond_4_gib(side: Side, local_server: LocalServer) -> None:
    async with of(side) as sandbox:
        with pytest.raises(oncebox.NotFoundException):
            await do(sandbox.commands.attach("none-of-this-id", stdout_offset=2**33, stderr_offset=2**40))


@pytest.mark.parametrize("stops_itself", [False, True])
async def test_a_watch_that_was_stopped_did_not_say_so(
    side: Side, local_server: LocalServer, stops_itself: bool
) -> None:
    if not side.is_async:
        return
    async with of(side) as sandbox:
        told: list[Any] = []

        async def on_event(event: Any) -> None:
            told.append(event.name)
            if stops_itself:
                await handle.stop()
                told.append("stopped")

        async def on_exit(error: Exception | None) -> None:
            await side.sleep(0)
            told.append(error)

        handle = await sandbox.files.watch_dir("/tmp", on_event, on_exit=on_exit)
        await sandbox.files.write("/tmp/first", "x")
        while not told:
            await side.sleep(0.01)
        if not stops_itself:
            await handle.stop()
            assert told[-1] is None
        while None not in told:
            await side.sleep(0.01)
        before = list(told)
        await sandbox.files.write("/tmp/second", "x")
        await handle.stop()
        assert told == before
        assert told.count(None) == 1
        if stops_itself:
            assert told == ["first", "stopped", None]


async def test_code_went_on_being_followed_when_a_callback_had_failed(side: Side) -> None:
    class Core:
        given_up = False

        def run_code(self, *_: object) -> Core:
            return self

        def next(self) -> Told:
            return Told([("stdout", ("x", 1))])

        def give_up(self) -> None:
            self.given_up = True

    def fail(_: object) -> None:
        raise ZeroDivisionError

    owner = side.of(oncebox.code_interpreter, "Sandbox")
    sandbox = owner.__new__(owner)
    sandbox._core = core = Core()
    with pytest.raises(ZeroDivisionError):
        await do(sandbox.run_code("1", on_stdout=fail))
    assert core.given_up


async def test_a_watch_that_was_stopped_at_once_did_not_say_so(side: Side) -> None:
    if not side.is_async:
        return

    class Core:
        def next(self) -> Told:
            return Told([])

        def stop(self) -> Told:
            return Told(None)

    told: list[Exception | None] = []
    handle = AsyncWatchHandle(Core(), lambda _: None, told.append)  # type: ignore[arg-type]
    await handle.stop()
    assert told == [None]
    await handle.stop()
    assert told == [None]


def test_what_was_begun_in_a_cancelled_scope_of_trio_went_on() -> None:
    class Begun:
        given_up = False

        def cancel(self) -> None:
            self.given_up = True

    async def work() -> None:
        operation: Any = Begun()
        with trio.CancelScope() as scope:
            scope.cancel()
            await run_async(operation)
        assert scope.cancelled_caught
        assert operation.given_up

    trio.run(work)


async def test_callbacks_in_trio_did_not_see_their_callers_context_variables(side: Side) -> None:
    if not side.is_async:
        return
    variable: ContextVar[str] = ContextVar("variable", default="none")
    seen: list[str] = []

    async def work() -> None:
        seen.append(variable.get())

    variable.set("the caller's")
    background = Background(work)
    variable.set("a later one")
    await background.join()
    assert seen == ["the caller's"]
