"""The control plane's methods of the official Python SDK, synchronous and asynchronous, on the local server."""

import asyncio
import io
import uuid

import pytest
from e2b import (
    AsyncSandbox,
    AsyncTemplate,
    AsyncVolume,
    BuildException,
    InvalidArgumentException,
    NotFoundException,
    Sandbox,
    SandboxException,
    SandboxQuery,
    SandboxState,
    Template,
    Volume,
)
from e2b.secret import AsyncSecret, Secret


@pytest.fixture()
def sandbox(server):
    sandbox = Sandbox.create(timeout=120, metadata={"suite": "control plane"})
    yield sandbox
    sandbox.kill()


def test_a_sandbox_is_paused_and_resumed(sandbox):
    handle = sandbox.commands.run("sleep 1000", background=True, timeout=0)
    sandbox.files.write("kept.txt", "kept")
    assert sandbox.pause() is True
    assert sandbox.pause() is False
    assert not sandbox.is_running()
    assert sandbox.get_info().state == SandboxState.PAUSED
    paused = Sandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED])).next_items()
    assert sandbox.sandbox_id in [s.sandbox_id for s in paused]
    again = Sandbox.connect(sandbox.sandbox_id, timeout=60)
    assert handle.pid in [p.pid for p in again.commands.list()]
    again.pause()
    rebooted = Sandbox.connect(sandbox.sandbox_id, on_resume="reboot")
    assert rebooted.commands.list() == []
    assert rebooted.files.read("kept.txt") == "kept"


def test_a_sandbox_is_forked(sandbox):
    sandbox.files.write("f", "before")
    forks = sandbox.fork(count=2, timeout=60)
    assert len({fork.sandbox_id for fork in forks} | {sandbox.sandbox_id}) == 3
    sandbox.files.write("f", "after")
    for fork in forks:
        assert fork.files.read("f") == "before"
        assert fork.kill()


def test_snapshots(sandbox):
    sandbox.files.write("f", "kept")
    name = f"snap-{uuid.uuid4().hex[:8]}"
    snapshot = sandbox.create_snapshot(name=name)
    assert snapshot.names == [f"{name}:default"]
    found = sandbox.list_snapshots().next_items()
    assert [s.snapshot_id for s in found] == [snapshot.snapshot_id]
    restored = Sandbox.create(snapshot.snapshot_id, timeout=60)
    assert restored.files.read("f") == "kept"
    restored.kill()
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False


def test_metrics_and_network(sandbox):
    metrics = sandbox.get_metrics()
    assert metrics[0].mem_total > 0 and metrics[0].cpu_count > 0
    sandbox.update_network({"deny_out": ["0.0.0.0/0"], "allow_out": ["example.com"]})
    with pytest.raises(SandboxException):
        sandbox.update_network({"allow_out": ["example.com"]})


def test_an_idempotency_key_makes_one_sandbox(server):
    key = uuid.uuid4().hex
    one = Sandbox.create(timeout=60, idempotency_key=key)
    assert Sandbox.create(timeout=60, idempotency_key=key).sandbox_id == one.sandbox_id
    with pytest.raises(SandboxException):
        Sandbox.create(timeout=61, idempotency_key=key)
    with pytest.raises(InvalidArgumentException):
        Sandbox.create(idempotency_key="Not A Key")
    one.kill()


def test_lists_have_pages(server):
    mark = uuid.uuid4().hex
    made = {Sandbox.create(timeout=60, metadata={"mark": mark}).sandbox_id for _ in range(3)}
    pages, found = Sandbox.list(query=SandboxQuery(metadata={"mark": mark}), limit=2), []
    while pages.has_next:
        found.append([s.sandbox_id for s in pages.next_items()])
    assert [len(page) for page in found] == [2, 1]
    assert {id for page in found for id in page} == made
    for id in made:
        assert Sandbox.kill(id)


def test_a_sandbox_is_paused_at_the_end_of_its_life(server):
    sandbox = Sandbox.create(timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": True})
    info = sandbox.get_info()
    assert info.lifecycle == {"on_timeout": "pause", "auto_resume": True}
    sandbox.pause()
    assert sandbox.commands.run("echo woken").stdout == "woken\n"
    sandbox.kill()


def test_a_template_is_built_and_used(server, tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").write_text("print('hi')\n")
    name = f"app-{uuid.uuid4().hex[:8]}"
    template = (
        Template(file_context_path=tmp_path)
        .from_base_image()
        .set_workdir("/home/user/work")
        .copy("app", "/home/user/work/app")
        .set_envs({"GREETING": "hello"})
        .run_cmd("echo $GREETING > greeting")
        .make_dir("made")
        .set_start_cmd("sleep 1000", "true")
    )
    logs = []
    build = Template.build(template, name, tags=["v1"], on_build_logs=lambda entry: logs.append(entry.message))
    assert any("echo $GREETING" in message for message in logs)
    assert Template.exists(name) and not Template.exists("no-such-template")
    assert Template.get_build_status(build).status.value == "ready"
    assert {tag.tag for tag in Template.get_tags(name)} == {"v1"}
    Template.assign_tags(f"{name}:v1", ["stable", "default"])
    Template.remove_tags(name, ["v1"])
    assert {tag.tag for tag in Template.get_tags(name)} == {"stable", "default"}
    sandbox = Sandbox.create(f"{name}:stable", timeout=60)
    assert sandbox.files.read("/home/user/work/greeting") == "hello\n"
    assert sandbox.files.read("/home/user/work/app/main.py") == "print('hi')\n"
    sandbox.kill()


def test_a_build_that_fails_says_why(server):
    template = Template().from_base_image().run_cmd("echo before; exit 3")
    with pytest.raises(BuildException, match="exit code 3"):
        Template.build(template, f"fails-{uuid.uuid4().hex[:8]}")


def test_volumes(server):
    name = f"vol-{uuid.uuid4().hex[:8]}"
    volume = Volume.create(name)
    assert Volume.get_info(volume.volume_id).name == name
    assert volume.volume_id in [v.volume_id for v in Volume.list()]
    assert volume.write_file("/a.txt", "text").size == 4
    assert volume.write_file("/b.bin", io.BytesIO(bytes(2_000_000)), force=True, uid=1000).uid == 1000
    assert volume.read_file("/a.txt") == "text"
    assert len(volume.read_file("/b.bin", format="bytes")) == 2_000_000
    assert sum(len(chunk) for chunk in volume.read_file("/b.bin", format="stream")) == 2_000_000
    assert volume.make_dir("/x/y", force=True).path == "/x/y"
    assert [e.path for e in volume.list("/", depth=2)] == ["/a.txt", "/b.bin", "/x", "/x/y"]
    assert volume.update_metadata("/a.txt", mode=0o600).mode == 0o600
    assert volume.exists("/a.txt") and not volume.exists("/none")
    sandbox = Sandbox.create(timeout=60, volume_mounts={"/mnt/data": name})
    assert sandbox.files.read("/mnt/data/a.txt") == "text"
    sandbox.files.write("/mnt/data/from-sandbox", "s")
    sandbox.kill()
    assert Volume.connect(volume.volume_id).read_file("/from-sandbox") == "s"
    volume.remove("/x")
    with pytest.raises(NotFoundException):
        volume.list("/x")
    assert Volume.destroy(volume.volume_id) is True
    assert Volume.destroy(volume.volume_id) is False


def test_secrets(server):
    name = f"secret-{uuid.uuid4().hex[:8]}"
    made = Secret.create(name, "value", metadata={"a": "b"})
    assert (made.name, made.version) == (name, 1)
    assert Secret.update(name, "other").version == 2
    assert Secret.get_info(made.secret_id).metadata == {"a": "b"}
    assert name in [secret.name for secret in Secret.list().next_items()]
    assert Secret.exists(name)
    assert Secret.destroy(name) is True
    assert not Secret.exists(name)


def test_the_asynchronous_control_plane(server):
    async def main():
        sandbox = await AsyncSandbox.create(timeout=60, idempotency_key=uuid.uuid4().hex)
        await sandbox.files.write("f", "kept")
        assert await sandbox.pause()
        sandbox = await AsyncSandbox.connect(sandbox.sandbox_id)
        [fork] = await sandbox.fork(timeout=60)
        assert await fork.files.read("f") == "kept"
        snapshot = await sandbox.create_snapshot()
        assert [s.snapshot_id for s in await sandbox.list_snapshots().next_items()] == [snapshot.snapshot_id]
        assert (await sandbox.get_metrics())[0].mem_total > 0
        await sandbox.update_network({"deny_out": ["0.0.0.0/0"]})
        await sandbox.set_timeout(30)
        assert (await sandbox.get_info()).state == SandboxState.RUNNING
        assert await AsyncSandbox.delete_snapshot(snapshot.snapshot_id)
        assert await fork.kill() and await sandbox.kill()

        name = f"async-{uuid.uuid4().hex[:8]}"
        await AsyncTemplate.build(AsyncTemplate().from_template("base").run_cmd("echo x > ~/x"), name)
        assert await AsyncTemplate.exists(name)
        made = await AsyncSandbox.create(name, timeout=60)
        assert await made.files.read("x") == "x\n"
        await made.kill()

        volume = await AsyncVolume.create(name)
        await volume.write_file("/f", b"data")
        assert await volume.read_file("/f") == "data"
        assert [e.name for e in await volume.list("/")] == ["f"]
        assert await AsyncVolume.destroy(volume.volume_id)

        await AsyncSecret.create(name, "v")
        assert await AsyncSecret.exists(name)
        assert await AsyncSecret.destroy(name)

    asyncio.run(main())
