"""The official Python SDK, unmodified, on the local server.

The test command names the built program in ONCEBOX_BIN.
"""

import asyncio
import os
import time
import urllib.request

import pytest
from e2b import (
    AsyncSandbox,
    CommandExitException,
    FilesystemEventType,
    NotFoundException,
    PtySize,
    Sandbox,
    SandboxQuery,
    TimeoutException,
)


@pytest.fixture()
def sandbox(server):
    sandbox = Sandbox.create(timeout=120, metadata={"suite": "python sdk"})
    yield sandbox
    sandbox.kill()


def test_a_command_runs(sandbox):
    result = sandbox.commands.run("echo hi; echo oops >&2")
    assert (result.stdout, result.stderr, result.exit_code) == ("hi\n", "oops\n", 0)


def test_a_command_that_fails_says_how(sandbox):
    with pytest.raises(CommandExitException) as failure:
        sandbox.commands.run("echo before; exit 7")
    assert failure.value.exit_code == 7
    assert failure.value.stdout == "before\n"


def test_a_command_in_the_background_takes_input_and_is_killed(sandbox):
    handle = sandbox.commands.run("cat", background=True, stdin=True, timeout=0)
    sandbox.commands.send_stdin(handle.pid, "line\n")
    for stdout, _, _ in handle:
        assert stdout == "line\n"
        break
    assert [p.pid for p in sandbox.commands.list()] == [handle.pid]
    assert sandbox.commands.kill(handle.pid) is True
    assert sandbox.commands.kill(handle.pid) is False


def test_files_round_trip(sandbox):
    data = bytes(range(256)) * 300
    written = sandbox.files.write("dir/all bytes.bin", data)
    assert written.path == "/home/user/dir/all bytes.bin"
    assert bytes(sandbox.files.read("dir/all bytes.bin", format="bytes")) == data
    sandbox.files.write("note.txt", "hällo")
    assert sandbox.files.read("note.txt") == "hällo"
    assert sorted(e.name for e in sandbox.files.list("/home/user")) == ["dir", "note.txt"]
    assert sandbox.files.rename("note.txt", "moved.txt").path == "/home/user/moved.txt"
    assert not sandbox.files.exists("note.txt")
    assert sandbox.files.make_dir("dir/sub") is True
    assert sandbox.files.make_dir("dir/sub") is False
    sandbox.files.remove("dir")
    with pytest.raises(NotFoundException):
        sandbox.files.read("dir/all bytes.bin")


def test_a_sandbox_is_listed_described_connected_to_and_killed(server):
    sandbox = Sandbox.create(timeout=120, metadata={"a b": "c&d"})
    found = Sandbox.list(query=SandboxQuery(metadata={"a b": "c&d"})).next_items()
    assert [(s.sandbox_id, s.metadata) for s in found] == [(sandbox.sandbox_id, {"a b": "c&d"})]
    assert sandbox.get_info().template_id
    assert sandbox.is_running()
    sandbox.set_timeout(60)
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.commands.run("echo again").stdout == "again\n"
    assert sandbox.kill() is True
    assert sandbox.kill() is False
    assert not sandbox.is_running()


def eventually(check):
    until = time.monotonic() + 20
    while not (result := check()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return result


def test_a_command_is_killed_at_its_timeout(sandbox):
    with pytest.raises((TimeoutException, CommandExitException)):
        sandbox.commands.run("sleep 60", timeout=1)
    assert eventually(lambda: sandbox.commands.list() == [])


def test_standard_input_is_streamed_and_closed(sandbox):
    handle = sandbox.commands.run("cat; echo end", background=True, stdin=True, timeout=0)
    sandbox.commands.stream_input(handle.pid, iter([b"one ", b"two\n"]))
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "one two\nend\n"


def test_a_command_is_connected_to_again(sandbox):
    handle = sandbox.commands.run("read line; echo got $line", background=True, stdin=True, timeout=0)
    again = sandbox.commands.connect(handle.pid)
    handle.disconnect()
    sandbox.commands.send_stdin(handle.pid, "it\n")
    assert again.wait().stdout == "got it\n"


def test_users_and_variables(sandbox):
    assert sandbox.commands.run("echo $HOME $USER", user="root").stdout == "/root root\n"
    assert sandbox.commands.run("pwd; echo $A", cwd="/tmp", envs={"A": "b"}).stdout == "/tmp\nb\n"


def test_a_terminal(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=30, cols=100), timeout=0)
    sandbox.pty.resize(terminal.pid, PtySize(rows=11, cols=44))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit 3\n")
    shown = b"".join(pty for _, _, pty in terminal if pty)
    assert b"11 44" in shown, shown
    with pytest.raises(CommandExitException) as failure:
        terminal.wait()
    assert failure.value.exit_code == 3
    other = sandbox.pty.create(PtySize(rows=30, cols=100), timeout=0)
    assert sandbox.pty.kill(other.pid) is True
    assert sandbox.pty.kill(other.pid) is False


def test_files_in_every_form(sandbox):
    data = b"the same again " * 10_000
    sandbox.files.write("gzip.txt", data, gzip=True)
    assert bytes(sandbox.files.read("gzip.txt", format="bytes", gzip=True)) == data
    assert b"".join(sandbox.files.read("gzip.txt", format="stream")) == data
    written = sandbox.files.write("meta.txt", "x", metadata={"author": "me"}, use_octet_stream=True)
    assert written.metadata == {"author": "me"}
    assert sandbox.files.get_info("meta.txt").metadata == {"author": "me"}
    sandbox.files.write("iterable.txt", iter([b"a", b"b"]))
    assert sandbox.files.read("iterable.txt") == "ab"
    many = sandbox.files.write_files([{"path": f"many/{n}", "data": str(n)} for n in range(20)])
    assert [info.path for info in many] == [f"/home/user/many/{n}" for n in range(20)]
    sandbox.commands.run("ln -s gzip.txt link")
    assert sandbox.files.get_info("link").symlink_target == "/home/user/gzip.txt"
    assert len(sandbox.files.list("/", depth=2)) > len(sandbox.files.list("/"))


def test_signed_urls(sandbox):
    sandbox.files.write("signed.txt", "signed")
    with urllib.request.urlopen(sandbox.download_url("signed.txt", use_signature_expiration=60)) as answer:
        assert answer.read() == b"signed"


def test_a_directory_is_watched(sandbox):
    sandbox.files.make_dir("watched/sub")
    watch = sandbox.files.watch_dir("watched", recursive=True)
    sandbox.files.write("watched/sub/file", "x")
    seen = []

    def told():
        seen.extend((event.name, event.type) for event in watch.get_new_events())
        return ("sub/file", FilesystemEventType.WRITE) in seen

    eventually(told)
    assert ("sub/file", FilesystemEventType.CREATE) in seen
    watch.stop()


def test_a_program_listens_on_a_port(sandbox):
    handle = sandbox.commands.run("/usr/bin/python3 -m http.server 3000", background=True, timeout=0)
    host = sandbox.get_host(3000)
    assert host.startswith(f"3000-{sandbox.sandbox_id}.")
    # Not every system resolves names below localhost.
    request = urllib.request.Request(os.environ["E2B_API_URL"], headers={"Host": host})

    def answered():
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            assert error.code == 502 and b"port is not open" in error.read()

    assert b"Directory listing" in eventually(answered)
    handle.kill()


def test_the_asynchronous_sdk(server):
    async def use():
        sandbox = await AsyncSandbox.create(timeout=120)
        try:
            assert (await sandbox.commands.run("echo hi")).stdout == "hi\n"
            handle = await sandbox.commands.run("cat", background=True, stdin=True, timeout=0)
            await sandbox.commands.send_stdin(handle.pid, "x")
            await sandbox.commands.close_stdin(handle.pid)
            assert (await handle.wait()).stdout == "x"

            shown = []
            terminal = await sandbox.pty.create(PtySize(rows=24, cols=80), on_data=shown.append, timeout=0)
            await sandbox.pty.send_stdin(terminal.pid, b"echo ter''minal; exit\n")
            await terminal.wait()
            assert b"terminal" in b"".join(shown)

            await sandbox.files.make_dir("watched")
            written = asyncio.Event()

            def told(event):
                if (event.name, event.type) == ("file", FilesystemEventType.WRITE):
                    written.set()

            watch = await sandbox.files.watch_dir("watched", on_event=told, timeout=0)
            await sandbox.files.write("watched/file", "x")
            await asyncio.wait_for(written.wait(), 20)
            await watch.stop()
            assert await sandbox.files.read("watched/file") == "x"
        finally:
            await sandbox.kill()

    asyncio.run(use())
