"""Volumes: made, found, read and written."""

from __future__ import annotations

import io
from uuid import uuid4

import pytest

from oncebox import (
    AuthenticationException,
    InvalidArgumentException,
    OutcomeUnknownException,
    SandboxUnreachableException,
    VolumeAndToken,
    VolumeException,
    VolumeFileType,
    VolumeInfo,
    VolumeNotFoundException,
    VolumePathNotFoundException,
)
from oncebox.testing import LocalServer
from sides import Side, do

pytestmark = pytest.mark.usefixtures("local_server")


def fresh() -> str:
    return f"v-{uuid4().hex}"


async def test_a_volume_is_made_and_found(side: Side) -> None:
    name = fresh()
    volume = await do(side.Volume.create(name))
    assert type(volume) is side.Volume
    assert volume.name == name
    assert volume.token
    assert volume.token not in repr(volume)
    assert VolumeInfo(volume.volume_id, name) in await do(side.Volume.list())
    info = await do(side.Volume.get_info(volume.volume_id))
    assert info == VolumeAndToken(volume.volume_id, name, volume.token)
    assert volume.token not in repr(info)
    again = await do(side.Volume.connect(volume.volume_id))
    assert (again.volume_id, again.name, again.token) == (volume.volume_id, name, volume.token)
    with pytest.raises(VolumeException):
        await do(side.Volume.create(name))
    assert await do(side.Volume.destroy(volume.volume_id))
    assert not await do(side.Volume.destroy(volume.volume_id))
    with pytest.raises(VolumeNotFoundException):
        await do(side.Volume.get_info(volume.volume_id))


async def test_its_files(side: Side) -> None:
    volume = await do(side.Volume.create(fresh()))
    made = await do(volume.make_dir("/a", mode=0o750))
    assert (made.name, made.path, made.type, made.mode & 0o777) == ("a", "/a", VolumeFileType.DIRECTORY, 0o750)
    written = await do(volume.write_file("/a/text", "grüße", mode=0o600))
    assert (written.size, written.mode & 0o777, written.type) == (7, 0o600, VolumeFileType.FILE)
    assert await do(volume.read_file("/a/text")) == "grüße"
    assert await do(volume.read_file("/a/text", "bytes")) == "grüße".encode()
    assert await do(volume.exists("/a/text"))
    assert not await do(volume.exists("/a/none"))
    assert [entry.path for entry in await do(volume.list("/", depth=2))] == ["/a", "/a/text"]
    assert [entry.path for entry in await do(volume.list("/"))] == ["/a"]
    stat = await do(volume.get_info("/a/text"))
    assert stat.mtime.tzinfo is not None
    assert (await do(volume.update_metadata("/a/text", mode=0o644))).mode & 0o777 == 0o644
    await do(volume.write_file("/deep/er/file", b"x", force=True))
    await do(volume.remove("/a/text"))
    with pytest.raises(VolumePathNotFoundException):
        await do(volume.read_file("/a/text"))
    with pytest.raises(VolumePathNotFoundException):
        await do(volume.write_file("/none/x", "y"))
    with pytest.raises(VolumeException):
        await do(volume.make_dir("/a"))


async def test_streams_in_both_directions(side: Side) -> None:
    volume = await do(side.Volume.create(fresh()))
    data = bytes(range(256)) * 4096
    source = io.BytesIO(data)
    assert (await do(volume.write_file("/big", source))).size == len(data)
    assert not source.closed
    assert b"".join(await side.stream(await do(volume.read_file("/big", "stream")))) == data
    assert (await do(volume.write_file("/text", io.StringIO("ä" * 70_000)))).size == 140_000


async def test_an_open_file_that_fails_leaves_what_was_there(side: Side) -> None:
    class Failing(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            if self.tell_once:
                self.tell_once = False
                return b"half"
            raise OSError("the disk is gone")

        tell_once = True

    volume = await do(side.Volume.create(fresh()))
    await do(volume.write_file("/kept", "before"))
    with pytest.raises(OSError, match="the disk is gone"):
        await do(volume.write_file("/kept", Failing()))  # type: ignore[arg-type]
    assert await do(volume.read_file("/kept")) == "before"


async def test_a_cut_in_a_file_is_an_error(side: Side, local_server: LocalServer) -> None:
    volume = await do(side.Volume.create(fresh()))
    await do(volume.write_file("/f", "x" * 100_000))
    local_server.set_faults(
        {"rules": [{"on": ["readVolumeFile"], "fault": {"cut_answer": {"after": {"bytes": 1000}}}}]}
    )
    with pytest.raises(SandboxUnreachableException):
        await do(volume.read_file("/f"))
    with pytest.raises(SandboxUnreachableException):
        await side.stream(await do(volume.read_file("/f", "stream")))


async def test_a_lost_create_is_found_and_a_lost_directory_is_unknown(side: Side, local_server: LocalServer) -> None:
    local_server.set_faults({"rules": [{"on": ["createVolume"], "times": 1, "fault": {"cut": {"when": "after"}}}]})
    name = fresh()
    volume = await do(side.Volume.create(name))
    assert [one.volume_id for one in await do(side.Volume.list()) if one.name == name] == [volume.volume_id]
    local_server.set_faults({"rules": [{"on": ["makeVolumeDir"], "fault": {"cut": {"when": "after"}}}]})
    with pytest.raises(OutcomeUnknownException) as caught:
        await do(volume.make_dir("/d"))
    assert caught.value.may_have_been_processed
    local_server.clear_faults()
    assert await do(volume.exists("/d"))


async def test_wrong_arguments_are_refused_before_anything_is_sent(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E2B_API_URL", "http://127.0.0.1:1")
    for name in ["", "a b", "ä"]:
        with pytest.raises(InvalidArgumentException, match="name"):
            await do(side.Volume.create(name))
    volume = side.Volume("id", "name", token="t")
    with pytest.raises(InvalidArgumentException, match="depth"):
        await do(volume.list("/", depth=0))
    with pytest.raises(InvalidArgumentException, match="mode"):
        await do(volume.make_dir("/", mode="0o755"))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentException, match="uid"):
        await do(volume.update_metadata("/a"))
    with pytest.raises(InvalidArgumentException, match="request_timeout"):
        await do(volume.exists("/a", request_timeout=-1))
    with pytest.raises(AuthenticationException, match="token"):
        await do(side.Volume("id", "name").exists("/a"))


async def test_the_token_alone_opens_a_volume(
    side: Side, monkeypatch: pytest.MonkeyPatch, local_server: LocalServer
) -> None:
    volume = await do(side.Volume.create(fresh()))
    await do(volume.write_file("/f", "x"))
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    monkeypatch.setenv("E2B_VOLUME_API_URL", local_server.url)
    alone = side.Volume(volume.volume_id, volume.name, token=volume.token)
    assert await do(alone.read_file("/f")) == "x"
    with pytest.raises(AuthenticationException):
        await do(side.Volume(volume.volume_id, volume.name, token="wrong").read_file("/f"))
