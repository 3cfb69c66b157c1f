"""The official Python SDK, unmodified, on the local server.

The test command names the built program in ONCEBOX_BIN.
"""

import json
import os
import subprocess

import pytest
from e2b import CommandExitException, NotFoundException, Sandbox, SandboxQuery


@pytest.fixture(scope="module")
def server():
    program = os.environ.get("ONCEBOX_BIN")
    assert program, "ONCEBOX_BIN names no program; run `cargo xtask test`"
    process = subprocess.Popen([program, "serve", "--port", "0", "--json"], stdout=subprocess.PIPE, text=True)
    try:
        url = json.loads(process.stdout.readline())["url"]
        for name in ("E2B_API_URL", "E2B_SANDBOX_URL"):
            os.environ[name] = url
        os.environ["E2B_API_KEY"] = "any"
        os.environ["NO_PROXY"] = "127.0.0.1,localhost"
        yield url
    finally:
        process.terminate()
        process.wait(timeout=20)


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
