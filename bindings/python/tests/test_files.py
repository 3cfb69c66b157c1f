"""Files, on both sides."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import oncebox
from oncebox.testing import LocalServer
from sides import Side, do

pytestmark = pytest.mark.usefixtures("local_server")


async def test_there_and_back(side: Side) -> None:
    sandbox = await do(side.Sandbox.create())
    files = sandbox.files
    written = await do(files.write("dir/a.txt", "grün\n"))
    assert written == oncebox.WriteInfo("a.txt", oncebox.FileType.FILE, "/home/user/dir/a.txt", written.metadata)
    assert await do(files.read("dir/a.txt")) == "grün\n"
    assert await do(files.read("dir/a.txt", format="bytes")) == bytearray("grün\n".encode())
    assert await side.stream(await do(files.read("dir/a.txt", "stream"))) == ["grün\n".encode()]
    assert await do(files.exists("dir")) is True
    assert await do(files.exists("nothing")) is False
    info = await do(files.get_info("dir/a.txt"))
    assert (info.type, info.size, info.permissions, info.owner) == (oncebox.FileType.FILE, 6, "-rw-r--r--", "user")
    assert info.modified_time.tzinfo is not None
    moved = await do(files.rename("dir/a.txt", "dir/b.txt"))
    assert moved.path == "/home/user/dir/b.txt"
    assert await do(files.make_dir("dir/c")) is True
    assert await do(files.make_dir("dir/c")) is False
    entries = await do(files.list("dir"))
    assert [(entry.name, entry.type) for entry in sorted(entries, key=lambda entry: entry.name)] == [
        ("b.txt", oncebox.FileType.FILE),
        ("c", oncebox.FileType.DIR),
    ]
    await do(files.remove("dir"))
    with pytest.raises(oncebox.FileNotFoundException):
        await do(files.read("dir/b.txt"))
    with pytest.raises(oncebox.FileNotFoundException):
        await do(files.list("dir"))
    with pytest.raises(oncebox.InvalidArgumentException, match="depth"):
        await do(files.list(".", depth=0))
    await do(sandbox.kill())


async def test_what_is_not_at_hand_is_read_as_it_is_sent(side: Side, tmp_path: Path) -> None:
    sandbox = await do(side.Sandbox.create())
    files = sandbox.files
    closed: list[bool] = []
    pieces = [b"x" * 100_000, b"y" * 7, b"z" * 200_000]
    await do(files.write("pieces", side.source(pieces, closed)))
    assert closed == [True]
    assert await do(files.read("pieces", "bytes")) == b"".join(pieces)
    own = tmp_path / "own"
    own.write_bytes(b"1" * 300_000)
    with own.open("rb") as opened:
        await do(files.write("file", opened, gzip=True))
        assert not opened.closed
    assert await do(files.read("file", "bytes")) == own.read_bytes()
    await do(files.write("text", io.StringIO("über"), use_octet_stream=False))
    assert await do(files.read("text")) == "über"
    got = await side.stream(await do(files.read("pieces", "stream", stream_idle_timeout=30)))
    assert b"".join(got) == b"".join(pieces)
    await do(sandbox.kill())


async def test_a_source_that_fails_leaves_the_file_as_it_was(side: Side) -> None:
    sandbox = await do(side.Sandbox.create())
    await do(sandbox.files.write("kept", "before"))

    def of_sync() -> Any:
        yield b"x" * 200_000
        raise LookupError("mine")

    async def of_async() -> Any:
        yield b"x" * 200_000
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await do(sandbox.files.write("kept", of_async() if side.is_async else of_sync()))
    assert await do(sandbox.files.read("kept")) == "before"
    await do(sandbox.kill())


async def test_many_files(side: Side) -> None:
    sandbox = await do(side.Sandbox.create())
    assert await do(sandbox.files.write_files([])) == []
    entries = [{"path": f"many/{n}", "data": str(n)} for n in range(20)]
    written = await do(sandbox.files.write_files(entries, metadata={"kind": "test"}))
    assert [info.name for info in written] == [str(n) for n in range(20)]
    assert await do(sandbox.files.read("many/7")) == "7"
    mixed = [{"path": "m/a", "data": b"1"}, {"path": "m/b", "data": side.source([b"2", b"3"])}]
    assert len(await do(sandbox.files.write_files(mixed))) == 2
    assert await do(sandbox.files.read("m/b")) == "23"
    await do(sandbox.kill())


async def test_changes_are_seen(side: Side) -> None:
    sandbox = await do(side.Sandbox.create())
    await do(sandbox.files.make_dir("watched"))
    seen: list[oncebox.FilesystemEvent] = []
    ended: list[Exception | None] = []
    if side.is_async:
        watch = await sandbox.files.watch_dir("watched", seen.append, ended.append, include_entry=True)
    else:
        watch = sandbox.files.watch_dir("watched", include_entry=True)
    await do(sandbox.files.write("watched/new", "1"))
    while not any(event.type is oncebox.FilesystemEventType.WRITE for event in seen):
        await side.sleep(0.02)
        if not side.is_async:
            seen += watch.get_new_events()
    assert {event.name for event in seen} == {"new"}
    assert any(event.entry is not None and event.entry.path == "/home/user/watched/new" for event in seen)
    await do(watch.stop())
    # As the official SDK does it.
    assert ended == ([None] if side.is_async else [])
    await do(sandbox.kill())


async def test_a_watch_has_an_end(side: Side) -> None:
    sandbox = await do(side.Sandbox.create())
    if side.is_async:
        ended: list[Exception | None] = []
        await sandbox.files.watch_dir(".", lambda _: None, ended.append, timeout=0.2)
        while not ended:
            await side.sleep(0.02)
        assert isinstance(ended[0], oncebox.TimeoutException)
    with pytest.raises(oncebox.FileNotFoundException):
        await do(sandbox.files.watch_dir("missing", *([print] if side.is_async else [])))
    await do(sandbox.kill())


async def test_a_download_that_is_cut_goes_on(side: Side, local_server: LocalServer) -> None:
    sandbox = await do(side.Sandbox.create())
    await do(sandbox.commands.run("head -c 3000000 /dev/urandom > big; touch -d '1 hour ago' big"))
    whole = await do(sandbox.files.read("big", "bytes"))
    cut = {"cut_answer": {"after": {"bytes": 1_000_000}, "how": "reset"}}
    local_server.set_faults({"rules": [{"on": ["readFile"], "times": 1, "fault": cut}]})
    assert b"".join(await side.stream(await do(sandbox.files.read("big", "stream")))) == whole
    assert local_server.faults()["fired"] == [1]
    await do(sandbox.kill())
