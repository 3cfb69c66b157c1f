"""Commands, on both sides."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest
import trio

import oncebox
from oncebox.testing import LocalServer
from sides import Side, do

pytestmark = pytest.mark.usefixtures("local_server")


async def make(side: Side) -> Any:
    return await do(side.Sandbox.create())


async def test_results_and_exit_codes(side: Side) -> None:
    sandbox = await make(side)
    result = await do(sandbox.commands.run("echo out; echo err >&2"))
    assert result == oncebox.CommandResult(stdout="out\n", stderr="err\n", exit_code=0, error=None)
    with pytest.raises(oncebox.CommandExitException) as caught:
        await do(sandbox.commands.run("echo no >&2; exit 7", on_stderr=lambda _: None))
    assert (caught.value.exit_code, caught.value.stderr) == (7, "no\n")
    assert "no" in str(caught.value)
    result = await do(sandbox.commands.run("pwd; echo $A; id -un", cwd="/tmp", envs={"A": "1"}, user="root"))
    assert result.stdout.splitlines()[:2] == ["/tmp", "1"]
    await do(sandbox.kill())


async def test_callbacks_get_all_of_it_in_order(side: Side) -> None:
    sandbox = await make(side)
    out: list[str] = []
    err: list[str] = []

    async def wait_for(text: str) -> None:
        await side.sleep(0)
        out.append(text)

    on_stdout = wait_for if side.is_async else out.append
    line = "for i in $(seq 1 200); do echo line $i; done; echo end >&2"
    result = await do(sandbox.commands.run(line, on_stdout=on_stdout, on_stderr=err.append))
    assert "".join(out) == result.stdout == "".join(f"line {n}\n" for n in range(1, 201))
    assert "".join(err) == "end\n"
    await do(sandbox.kill())


async def test_a_callback_that_fails_is_told(side: Side) -> None:
    sandbox = await make(side)

    def fail(_: str) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await do(sandbox.commands.run("echo x", on_stdout=fail))
    await do(sandbox.kill())


async def test_characters_are_whole_however_they_come(side: Side) -> None:
    sandbox = await make(side)
    pieces: list[str] = []
    line = r"printf '\360\237'; sleep 0.2; printf '\230\200'; sleep 0.2; printf '\377\303'"
    result = await do(sandbox.commands.run(line, on_stdout=pieces.append))
    assert result.stdout == "".join(pieces) == "😀\ufffd\ufffd"
    assert pieces[0].startswith("😀")
    await do(sandbox.kill())


async def test_what_is_not_retained_is_only_told(side: Side) -> None:
    sandbox = await make(side)
    pieces: list[str] = []
    result = await do(sandbox.commands.run("echo x", on_stdout=pieces.append, retain_output=False))
    assert (result.stdout, result.stderr, "".join(pieces)) == (None, None, "x\n")
    await do(sandbox.kill())


async def test_a_timeout_kills_and_is_named(side: Side) -> None:
    sandbox = await make(side)
    with pytest.raises(oncebox.TimeoutException, match="`timeout`"):
        await do(sandbox.commands.run("sleep 30", timeout=0.3))
    assert await do(sandbox.commands.list()) == []
    await do(sandbox.kill())


async def test_in_the_background(side: Side) -> None:
    sandbox = await make(side)
    handle = await do(sandbox.commands.run("cat; echo end", background=True, stdin=True, envs={"E": "1"}))
    [process] = await do(sandbox.commands.list())
    assert (process.pid, process.cmd, process.envs["E"]) == (handle.pid, "/bin/bash", "1")
    assert handle.exit_code is None
    await do(handle.send_stdin("one\n"))
    await do(sandbox.commands.send_stdin(handle.pid, b"two\n"))
    await do(handle.close_stdin())
    result = await do(handle.wait())
    assert result.stdout == handle.stdout == "one\ntwo\nend\n"
    assert (handle.exit_code, handle.error) == (0, None)
    # Its end is there for who asks again.
    assert await do(handle.wait()) == result
    await do(sandbox.kill())


async def test_kill_and_disconnect(side: Side) -> None:
    sandbox = await make(side)
    handle = await do(sandbox.commands.run("sleep 60", background=True))
    await do(handle.disconnect())
    with pytest.raises(oncebox.CommandLostException):
        await do(handle.wait())
    again = await do(sandbox.commands.connect(handle.pid))
    assert await do(sandbox.commands.kill(handle.pid)) is True
    with pytest.raises(oncebox.CommandExitException) as caught:
        await do(again.wait())
    assert caught.value.exit_code != 0
    assert await do(again.kill()) is False
    assert await do(sandbox.commands.kill(handle.pid)) is False
    with pytest.raises(oncebox.NotFoundException):
        await do(sandbox.commands.connect(999_999))
    await do(sandbox.kill())


async def test_following_has_a_timeout_of_its_own(side: Side) -> None:
    sandbox = await make(side)
    started = await do(sandbox.commands.run("sleep 60", background=True))
    handle = await do(sandbox.commands.connect(started.pid, timeout=0.2))
    with pytest.raises(oncebox.TimeoutException, match="`timeout`"):
        await do(handle.wait())
    assert [process.pid for process in await do(sandbox.commands.list())] == [started.pid]
    await do(sandbox.kill())


async def test_input_is_streamed(side: Side) -> None:
    sandbox = await make(side)
    handle = await do(sandbox.commands.run("cat", background=True, stdin=True))
    if side.is_async:
        async with sandbox.commands.stream_input(handle.pid) as stream:
            await stream.send("one ")
            await stream.send(b"two")
    else:
        closed: list[bool] = []
        sandbox.commands.stream_input(handle.pid, side.source([b"one ", b"two"], closed))
        assert closed == [True]
    await do(sandbox.commands.close_stdin(handle.pid))
    assert (await do(handle.wait())).stdout == "one two"
    await do(sandbox.kill())


async def test_terminals(side: Side) -> None:
    sandbox = await make(side)
    seen: list[bytes] = []
    size = oncebox.PtySize(rows=11, cols=77)
    if side.is_async:
        terminal = await sandbox.pty.create(size, seen.append, envs={"A": "b"})
    else:
        terminal = sandbox.pty.create(size, envs={"A": "b"})
    await do(sandbox.pty.send_stdin(terminal.pid, b"stty size; echo $A-$TERM\n"))
    await do(sandbox.pty.resize(terminal.pid, oncebox.PtySize(rows=12, cols=78)))
    await do(terminal.send_stdin("stty size; exit 3\n"))
    if not side.is_async:
        seen += [pty for _, _, pty in terminal if pty is not None]
    with pytest.raises(oncebox.CommandExitException) as caught:
        await do(terminal.wait())
    assert caught.value.exit_code == 3
    text = b"".join(seen).decode()
    assert "b-xterm-256color" in text
    assert "12 78" in text
    await do(sandbox.kill())


def test_a_handle_is_iterated(sandbox: oncebox.Sandbox) -> None:
    handle = sandbox.commands.run("echo a; read; echo b >&2", background=True, stdin=True)
    pieces = iter(handle)
    assert next(pieces) == ("a\n", None, None)
    handle.send_stdin("\n")
    assert list(pieces) == [(None, "b\n", None)]
    assert handle.wait().stdout == "a\n"


CUT_OUTPUT = {"on": ["start"], "times": 1, "fault": {"cut_answer": {"after": {"events": 2}, "how": "reset"}}}


async def test_lost_output_is_told(side: Side, local_server: LocalServer) -> None:
    sandbox = await make(side)
    local_server.set_faults({"rules": [CUT_OUTPUT]})
    with pytest.raises(oncebox.OutputLostException) as caught:
        await do(sandbox.commands.run("echo one; sleep 2; echo two"))
    assert isinstance(caught.value, oncebox.TimeoutException)
    assert caught.value.exit_code == 0
    assert [effect["count"] for effect in local_server.effects()["effects"] if "Start" in effect["operation"]] == [1]
    await do(sandbox.kill())


async def test_a_durable_command_loses_nothing(side: Side, local_server: LocalServer) -> None:
    sandbox = await make(side)
    local_server.set_faults({"rules": [CUT_OUTPUT]})
    seen: list[str] = []
    result = await do(
        sandbox.commands.run("for i in 1 2 3; do echo $i; sleep 0.1; done; exit 0", durable=True, on_stdout=seen.append)
    )
    assert result.stdout == "".join(seen) == "1\n2\n3\n"
    local_server.clear_faults()
    handle = await do(sandbox.commands.run("cat; echo end", background=True, durable=True, stdin=True, id="mine"))
    assert handle.id == "mine"
    await do(handle.send_stdin("in\n"))
    await do(handle.close_stdin())
    assert (await do(handle.wait())).stdout == "in\nend\n"
    other = await do(side.Sandbox.connect(sandbox.sandbox_id))
    attached = await do(other.commands.attach("mine", stdout_offset=3))
    assert (await do(attached.wait())).stdout == "end\n"
    assert await do(other.commands.forget("mine")) is True
    with pytest.raises(oncebox.NotFoundException):
        await do(other.commands.attach("mine"))
    await do(sandbox.kill())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": -1}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"request_timeout": "1"}, "request_timeout"),
        ({"envs": {"A=B": "1"}}, "A=B"),
        ({"user": "a b:c"}, "user"),
        ({"stdin": "yes"}, "stdin"),
        ({"durable": True, "id": "Not This"}, "id"),
    ],
)
async def test_wrong_options_start_nothing(
    side: Side, local_server: LocalServer, options: dict[str, Any], words: str
) -> None:
    sandbox = await make(side)
    with pytest.raises(oncebox.InvalidArgumentException, match=words):
        await do(sandbox.commands.run("echo x", **options))
    assert set(local_server.effects()["counts"]) == {"createSandbox"}
    await do(sandbox.kill())


def test_cancelling_leaves_the_command_and_frees_the_stream(local_server: LocalServer) -> None:
    async def work() -> None:
        sandbox = await oncebox.AsyncSandbox.create()
        for _ in range(3):
            task = asyncio.ensure_future(sandbox.commands.run("sleep 60"))
            while not await sandbox.commands.list():
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            [left] = await sandbox.commands.list()
            await sandbox.commands.kill(left.pid)
            # It is one until its end was noticed.
            while await sandbox.commands.list():
                await asyncio.sleep(0.01)
        await sandbox.kill()

    asyncio.run(work())


def test_a_cancelled_create_leaves_no_sandbox(local_server: LocalServer) -> None:
    query = oncebox.SandboxQuery(metadata={"cancelled": "1"})
    # It is made, and the answer does not come.
    stalled = {"stall_answer": {"after": {"bytes": 1}, "seconds": 60}}
    local_server.set_faults({"rules": [{"on": ["create"], "fault": stalled}]})

    async def until(counts: dict[str, int]) -> None:
        with trio.fail_after(60):
            while local_server.effects()["counts"] != counts:
                await trio.sleep(0.02)

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            create = functools.partial(oncebox.AsyncSandbox.create, metadata={"cancelled": "1"}, settle=0.5)
            nursery.start_soon(create)
            await until({"createSandbox": 1})
            nursery.cancel_scope.cancel()
        assert nursery.cancel_scope.cancelled_caught
        await until({"createSandbox": 1, "killSandbox": 1})

    trio.run(work)
    assert oncebox.Sandbox.list(query).next_items() == []
