"""The methods of the official Python SDK that the other tests leave out; one body drives both of its halves."""

import asyncio
import inspect
import types
import urllib.request
import uuid

import e2b
import pytest
from e2b import BuildException, NotFoundException, PtySize, SandboxException
from e2b.secret import AsyncSecret, Secret

SYNC = types.SimpleNamespace(
    asynchronous=False, Sandbox=e2b.Sandbox, Template=e2b.Template, Volume=e2b.Volume, Secret=Secret
)
ASYNC = types.SimpleNamespace(
    asynchronous=True, Sandbox=e2b.AsyncSandbox, Template=e2b.AsyncTemplate, Volume=e2b.AsyncVolume, Secret=AsyncSecret
)
both = pytest.mark.parametrize("sdk", [SYNC, ASYNC], ids=["sync", "async"])


async def done(result):
    """What a method of either half of the SDK gives."""
    return await result if inspect.isawaitable(result) else result


def in_a_sandbox(sdk, use, **options):
    async def main():
        sandbox = await done(sdk.Sandbox.create(timeout=120, **options))
        try:
            await use(sandbox)
        finally:
            await done(sandbox.kill())

    asyncio.run(main())


async def until(check):
    for _ in range(1000):
        if result := await done(check()):
            return result
        await asyncio.sleep(0.02)
    raise AssertionError("it never came")


@both
def test_a_sandbox_and_its_addresses(server, sdk):
    async def use(sandbox):
        assert await done(sandbox.is_running())
        assert sandbox.get_host(3000).startswith(f"3000-{sandbox.sandbox_id}.")
        form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="up.txt"\r\n\r\nup\r\n--b--\r\n'
        request = urllib.request.Request(sandbox.upload_url("up.txt"), form, {"Content-Type": "multipart/form-data; boundary=b"})
        urllib.request.urlopen(request).read()
        with urllib.request.urlopen(sandbox.download_url("up.txt")) as answer:
            assert answer.read() == b"up"
        found = await done(sdk.Sandbox.list().next_items())
        assert sandbox.sandbox_id in [each.sandbox_id for each in found]
        assert await done(sandbox.beta_pause()) is True
        assert not await done(sandbox.is_running())

    in_a_sandbox(sdk, use)


@both
def test_commands_by_their_handles(server, sdk):
    async def use(sandbox):
        cat = await done(sandbox.commands.run("cat", background=True, stdin=True, timeout=0))
        assert [each.pid for each in await done(sandbox.commands.list())] == [cat.pid]
        await done(cat.send_stdin("one\n"))
        again = await done(sandbox.commands.connect(cat.pid, timeout=0))
        await done(again.disconnect())
        if sdk.asynchronous:
            async with sandbox.commands.stream_input(cat.pid) as stream:
                await stream.send("two\n")
            stream = sandbox.commands.stream_input(cat.pid)
            await stream.send("three\n")
            await stream.close()
        else:
            sandbox.commands.stream_input(cat.pid, ["two\n", "three\n"])
        await done(cat.close_stdin())
        assert (await done(cat.wait())).stdout == "one\ntwo\nthree\n"
        for kill in (lambda handle: handle.kill(), lambda handle: sandbox.commands.kill(handle.pid)):
            sleep = await done(sandbox.commands.run("sleep 1000", background=True, timeout=0))
            assert await done(kill(sleep)) is True
            assert await done(kill(sleep)) is False

    in_a_sandbox(sdk, use)


@both
def test_terminals(server, sdk):
    async def use(sandbox):
        shown = []
        told = {"on_data": shown.append} if sdk.asynchronous else {}
        first = await done(sandbox.pty.create(PtySize(rows=24, cols=80), timeout=0, **told))
        terminal = await done(sandbox.pty.connect(first.pid, timeout=0, **told))
        await done(sandbox.pty.resize(first.pid, PtySize(rows=11, cols=44)))
        if sdk.asynchronous:
            async with sandbox.pty.stream_input(first.pid) as stream:
                await stream.send("stty size; exit\n")
            await terminal.wait()
        else:
            sandbox.pty.stream_input(first.pid, [b"stty size; ", b"exit\n"])
            terminal.wait(on_pty=shown.append)
        assert b"11 44" in b"".join(shown)
        other = await done(sandbox.pty.create(PtySize(rows=24, cols=80), timeout=0, **told))
        assert await done(sandbox.pty.kill(other.pid)) is True
        assert await done(sandbox.pty.kill(other.pid)) is False

    in_a_sandbox(sdk, use)


@both
def test_files(server, sdk):
    async def use(sandbox):
        files = sandbox.files
        written = await done(files.write_files([{"path": "d/a", "data": "a"}, {"path": "d/b", "data": b"bb"}]))
        assert [each.name for each in written] == ["a", "b"]
        assert sorted(each.name for each in await done(files.list("d"))) == ["a", "b"]
        assert (await done(files.get_info("d/b"))).size == 2
        assert (await done(files.rename("d/b", "d/c"))).path == "/home/user/d/c"
        await done(files.remove("d/a"))
        assert not await done(files.exists("d/a"))
        assert await done(files.exists("d/c"))

    in_a_sandbox(sdk, use)


@both
def test_git(server, sdk):
    async def use(sandbox):
        git = sandbox.git
        await done(git.configure_user("A B", "a@b.example"))
        assert await done(git.get_config("user.name")) == "A B"
        await done(git.set_config("pull.rebase", "false"))
        await done(git.init("/home/user/hub", bare=True, initial_branch="main"))
        await done(git.init("/home/user/one", initial_branch="main"))
        await done(git.remote_add("/home/user/one", "origin", "/home/user/hub"))
        assert await done(git.remote_get("/home/user/one", "origin")) == "/home/user/hub"
        await done(sandbox.files.write("one/f", "1\n"))
        status = await done(git.status("/home/user/one"))
        assert [each.name for each in status.file_status] == ["f"]
        await done(git.add("/home/user/one"))
        await done(git.commit("/home/user/one", "first"))
        await done(git.push("/home/user/one", remote="origin", branch="main"))
        await done(git.clone("/home/user/hub", "/home/user/two"))
        await done(sandbox.files.write("one/f", "2\n"))
        await done(git.add("/home/user/one", files=["f"]))
        await done(git.commit("/home/user/one", "second"))
        await done(git.push("/home/user/one", remote="origin", branch="main"))
        await done(git.pull("/home/user/two"))
        assert await done(sandbox.files.read("two/f")) == "2\n"
        await done(git.create_branch("/home/user/two", "side"))
        assert (await done(git.branches("/home/user/two"))).current_branch == "side"
        await done(git.checkout_branch("/home/user/two", "main"))
        await done(git.delete_branch("/home/user/two", "side"))
        assert (await done(git.branches("/home/user/two"))).branches == ["main"]
        await done(sandbox.files.write("two/f", "3\n"))
        await done(git.restore("/home/user/two", ["f"]))
        assert await done(sandbox.files.read("two/f")) == "2\n"
        await done(git.reset("/home/user/two", mode="hard", target="HEAD~1"))
        assert await done(sandbox.files.read("two/f")) == "1\n"
        await done(git.dangerously_authenticate("me", "secret", host="git.example"))
        assert "me:secret@git.example" in await done(sandbox.files.read(".git-credentials"))

    in_a_sandbox(sdk, use)


@both
def test_templates(server, sdk, tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    Template, name = sdk.Template, f"every-{uuid.uuid4().hex[:8]}"
    template = (
        Template(file_context_path=tmp_path)
        .skip_cache()
        .from_base_image()
        .run_cmd("git init -q -b main /home/user/hub && cd /home/user/hub && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x")
        .git_clone("/home/user/hub", "/home/user/cloned")
        .skip_cache()
        .copy_items([{"src": "a", "dest": "/home/user/a"}, {"src": "b", "dest": "/home/user/b"}])
        .rename("/home/user/a", "/home/user/c")
        .remove("/home/user/b")
        .make_symlink("/home/user/c", "/home/user/link")
        .set_user("user")
        .set_workdir("/home/user/work")
        .run_cmd("pwd > where")
        .set_ready_cmd("[ -f /home/user/c ]")
    )
    assert "git clone" in Template.to_dockerfile(template)
    assert '"COPY"' in Template.to_json(template)

    async def use():
        build = await done(Template.build_in_background(template, name, tags=["one"]))

        async def finished():
            status = await done(Template.get_build_status(build))
            assert status.status.value != "error", status.reason
            return status.status.value == "ready"

        await until(finished)
        assert await done(Template.exists(name)) and await done(Template.alias_exists(name))
        await done(Template.assign_tags(f"{name}:one", "two"))
        assert "two" in {each.tag for each in await done(Template.get_tags(name))}
        await done(Template.remove_tags(name, "two"))
        other = Template().from_template(f"{name}:one").run_cmd("echo more > /home/user/more")
        await done(Template.build(other, f"{name}-more"))
        parsed = Template().from_dockerfile("FROM e2bdev/base\nWORKDIR /home/user/w\nRUN echo docker > f\n")
        await done(Template.build(parsed, f"{name}-docker"))
        await done(Template.build(Template().from_image("e2bdev/base"), f"{name}-image"))
        for made, file, content in [
            (f"{name}-more", "link", "a"),
            (f"{name}-more", "work/where", "/home/user/work\n"),
            (f"{name}-more", "cloned/.git/HEAD", "ref: refs/heads/main\n"),
            (f"{name}-docker", "w/f", "docker\n"),
        ]:
            sandbox = await done(sdk.Sandbox.create(made, timeout=60))
            assert await done(sandbox.files.read(f"/home/user/{file}")) == content
            await done(sandbox.kill())

    asyncio.run(use())


@pytest.mark.refused
@both
@pytest.mark.parametrize("image", "alpine arch bun debian fedora node python ubuntu aws_registry gcp_registry".split())
def test_images_are_refused_by_name(server, sdk, image):
    options = {
        "aws_registry": ("registry.example/i:1", "key", "secret", "region"),
        "gcp_registry": ("registry.example/i:1", {"type": "service_account"}),
    }
    make = getattr(sdk.Template(), f"from_{image}" if image in options else f"from_{image}_image")

    async def use():
        with pytest.raises(BuildException, match="has no image"):
            await done(sdk.Template.build(make(*options.get(image, ())), f"no-{uuid.uuid4().hex[:8]}"))

    asyncio.run(use())


@both
def test_volumes_and_secrets(server, sdk):
    async def use():
        name = f"every-{uuid.uuid4().hex[:8]}"
        made = await done(sdk.Volume.create(name))
        volume = await done(sdk.Volume.connect(made.volume_id))
        assert (await done(sdk.Volume.get_info(made.volume_id))).name == name
        assert (await done(volume.make_dir("/d"))).path == "/d"
        await done(volume.write_file("/d/f", "f"))
        assert (await done(volume.update_metadata("/d/f", mode=0o640))).mode == 0o640
        assert await done(volume.exists("/d/f"))
        await done(volume.remove("/d"))
        assert not await done(volume.exists("/d/f"))
        with pytest.raises(NotFoundException):
            await done(volume.get_info("/d/f"))
        assert await done(sdk.Volume.destroy(made.volume_id))

        await done(sdk.Secret.create(name, "v"))
        assert (await done(sdk.Secret.update(name, "w"))).version == 2
        assert (await done(sdk.Secret.get_info(name))).name == name
        assert name in [each.name for each in await done(sdk.Secret.list().next_items())]
        assert await done(sdk.Secret.destroy(name))

    asyncio.run(use())


@pytest.mark.refused
@both
def test_a_gateway_is_refused(server, sdk):
    async def use():
        with pytest.raises(SandboxException, match="mcp"):
            await done(sdk.Sandbox.create(mcp={"github": {}}, timeout=60))

    asyncio.run(use())
