"""Desktops: real displays in local sandboxes where their programs are installed, and what goes wrong."""

from __future__ import annotations

import asyncio
import shutil
import struct
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import oncebox
from oncebox import desktop
from oncebox.testing import LocalServer
from sides import Side, do


def need(*programs: str) -> None:
    for program in ("Xvfb", "xdotool", *programs):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer(faults={}) as server:
        yield server


async def sandbox_of(side: Side, server: LocalServer, **options: Any) -> Any:
    return await do(side.of(desktop, "Sandbox").create(resolution=(640, 480), **server.options, **options))


def size(picture: bytes) -> tuple[int, int]:
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


async def eventually(side: Side, look: Any) -> Any:
    """What is looked for, as soon as it is there."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = await look()
        if found:
            return found
        await side.sleep(0.05)
    raise AssertionError("it did not come")


async def window(side: Side, sandbox: Any, script: str, name: str) -> str:
    """The window of a program that is started, and writes to `/tmp/log`. It has the keyboard."""
    await do(sandbox.commands.run(f"exec {script} > /tmp/log 2>&1", background=True, timeout=0))

    async def shown() -> str:
        found = await do(sandbox.commands.run(f"xdotool search --onlyvisible --name '{name}' || true"))
        return str(found.stdout.strip())

    window_id = await eventually(side, shown)
    await do(sandbox.commands.run(f"xdotool windowfocus --sync {window_id}"))
    return str(window_id)


async def test_pictures_and_sizes(side: Side, server: LocalServer) -> None:
    need("scrot")
    sandbox = await sandbox_of(side, server)
    assert await do(sandbox.get_screen_size()) == (640, 480)
    picture = await do(sandbox.screenshot())
    assert isinstance(picture, bytearray)
    assert size(picture) == (640, 480)
    assert size(b"".join(await side.stream(await do(sandbox.screenshot(format="stream"))))) == (640, 480)
    assert (await do(sandbox.commands.run("echo $DISPLAY"))).stdout == ":0\n"
    again = await do(side.of(desktop, "Sandbox").connect(sandbox.sandbox_id, **server.options))
    assert await do(again.get_screen_size()) == (640, 480), "a desktop is one by whichever handle"
    await do(sandbox.kill())


async def test_mouse_and_keyboard(side: Side, server: LocalServer) -> None:
    need("xev")
    sandbox = await sandbox_of(side, server, display=":3")
    events = "stdbuf -oL xev -geometry 400x300+0+0 -event keyboard -event button"
    await window(side, sandbox, events, "^Event Tester$")
    await do(sandbox.move_mouse(12, 34))
    assert await do(sandbox.get_cursor_position()) == (12, 34)
    await do(sandbox.left_click(50, 60))
    assert await do(sandbox.get_cursor_position()) == (50, 60)
    await do(sandbox.middle_click())
    await do(sandbox.right_click(0, 0))
    await do(sandbox.double_click())
    await do(sandbox.scroll())
    await do(sandbox.scroll("up", 2))
    await do(sandbox.mouse_press("right"))
    await do(sandbox.mouse_release("right"))
    await do(sandbox.drag((1, 2), (30, 40)))
    assert await do(sandbox.get_cursor_position()) == (30, 40)
    # `xdotool` binds ü to a key for half as long as this: who looks later what the key was finds none.
    await do(sandbox.write("hü\n", delay_in_ms=1000))
    await do(sandbox.press("f5"))
    await do(sandbox.press(["ctrl", "C"]))
    await do(sandbox.wait(1))

    async def told() -> str:
        log = await do(sandbox.files.read("/tmp/log", format="bytes"))
        text = bytes(log).decode(errors="replace")
        return text if "keysym 0x63, c" in text else ""

    blocks = (await eventually(side, told)).split("\n\n")
    buttons = [block.split("button ")[1][0] for block in blocks if block.lstrip().startswith("ButtonPress")]
    assert buttons == ["1", "2", "3", "1", "1", "5", "4", "4", "3", "1"]
    keys = [block.split("keysym ")[1].split(", ")[1][:-1] for block in blocks if block.lstrip().startswith("KeyPress")]
    assert [key for key in keys if not key.startswith("Shift")] == ["h", "udiaeresis", "Return", "F5", "Control_L", "c"]
    await do(sandbox.kill())


async def test_windows_and_programs(side: Side, server: LocalServer) -> None:
    need("xmessage", "gtk-launch", "xdg-open")
    sandbox = await sandbox_of(side, server)
    shown = await window(side, sandbox, "xmessage -title 'A title' question", "^A title$")
    assert await do(sandbox.get_application_windows("xmessage")) == [shown]
    assert await do(sandbox.get_application_windows("nothing_of_the_kind")) == []
    assert await do(sandbox.get_window_title(shown)) == "A title"
    assert await do(sandbox.get_current_window_id()) == shown
    with pytest.raises(oncebox.CommandExitException, match="BadWindow") as caught:
        await do(sandbox.get_window_title("4095"))
    assert caught.value.exit_code == 1
    entry = "[Desktop Entry]\nType=Application\nName=Mine\nExec=/bin/sh /home/user/mine %u\n"
    handled = "[Default Applications]\nx-scheme-handler/https=mine.desktop\n"
    for path, text in {
        "mine": 'echo "$1" > /tmp/told.new; mv /tmp/told.new /tmp/told',
        ".local/share/applications/mine.desktop": entry,
        ".config/mimeapps.list": handled,
    }.items():
        await do(sandbox.files.write(f"/home/user/{path}", text))

    async def told() -> str:
        if not await do(sandbox.files.exists("/tmp/told")):
            return ""
        text = await do(sandbox.files.read("/tmp/told"))
        await do(sandbox.files.remove("/tmp/told"))
        return str(text)

    await do(sandbox.launch("mine", "https://example.com/1"))
    assert await eventually(side, told) == "https://example.com/1\n"
    await do(sandbox.open("https://example.com/2"))
    assert await eventually(side, told) == "https://example.com/2\n"
    await do(sandbox.kill())


def ask(url: str) -> tuple[int, str]:
    """A page of a sandbox, as a browser asks for it."""
    parts = urlsplit(url)
    direct = f"http://127.0.0.1:{parts.port}{parts.path}?{parts.query}"
    request = urllib.request.Request(direct, headers={"Host": parts.netloc})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


async def test_the_stream(side: Side, server: LocalServer) -> None:
    need("x11vnc", "websockify")
    if not any(Path(folder).exists() for folder in ("/opt/noVNC", "/usr/share/novnc")):
        pytest.skip("noVNC is not installed")
    sandbox = await sandbox_of(side, server)
    with pytest.raises(RuntimeError, match="require_auth"):
        sandbox.stream.get_auth_key()
    url = sandbox.stream.get_url()
    assert ask(url)[0] == 502
    await do(sandbox.stream.start(require_auth=True))
    assert sandbox.stream.get_url() == url
    assert url.endswith("/vnc.html?autoconnect=true&resize=scale")
    status, page = ask(url)
    assert (status, "noVNC" in page) == (200, True)
    key = sandbox.stream.get_auth_key()
    assert sandbox.stream.get_url(auth_key=key, view_only=True).endswith(f"&view_only=true&password={key}")
    assert key not in repr(sandbox.stream) + repr(sandbox)
    with pytest.raises(desktop.DesktopStreamException, match="taken") as caught:
        await do(sandbox.stream.start())
    assert isinstance(caught.value, RuntimeError)
    await do(sandbox.stream.stop())
    await do(sandbox.stream.stop())

    async def is_gone() -> bool:
        return ask(url)[0] == 502

    await eventually(side, is_gone)
    with pytest.raises(desktop.DesktopStreamException):
        sandbox.stream.get_auth_key()
    await do(sandbox.stream.start(vnc_port=5901, port=6081))
    assert "://6081-" in sandbox.stream.get_url()
    assert ask(sandbox.stream.get_url())[0] == 200
    await do(sandbox.kill())


async def test_a_desktop_that_does_not_start_leaves_no_sandbox(side: Side, server: LocalServer) -> None:
    with pytest.raises(oncebox.UnsupportedException, match=r"xdotool.*template"):
        await sandbox_of(side, server, envs={"PATH": "/nowhere"}, metadata={"case": f"missing {side.name}"})
    query = oncebox.SandboxQuery(metadata={"case": f"missing {side.name}"})
    left = side.of(oncebox, "Sandbox").list(query, **server.options)
    assert await do(left.next_items()) == []


def test_a_desktop_that_is_given_up_leaves_no_sandbox() -> None:
    query = oncebox.SandboxQuery(metadata={"case": "given up"})

    async def running() -> list[Any]:
        return await oncebox.AsyncSandbox.list(query, **server.options).next_items()

    async def case() -> None:
        making = asyncio.create_task(desktop.AsyncSandbox.create(metadata={"case": "given up"}, **server.options))
        while not await running():
            assert not making.done()
            await asyncio.sleep(0.01)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        end = time.monotonic() + 30
        while await running():
            assert time.monotonic() < end, "it is left"
            await asyncio.sleep(0.05)

    # A server of its own, since what asks for the display's size is not answered before the test is over.
    with LocalServer() as server:
        server.set_faults({"rules": [{"on": ["start"], "fault": {"latency": 60}}]})
        asyncio.run(case())


async def test_wrong_arguments_are_refused_before_anything_is_sent(side: Side, local_server: LocalServer) -> None:
    server = local_server
    sandboxes = side.of(desktop, "Sandbox")
    for wrong in [
        {"resolution": (640,)},
        {"resolution": "640x480"},
        {"resolution": (0, 480)},
        {"resolution": (640.0, 480)},
        {"dpi": True},
        {"dpi": 0},
        {"display": 7},
    ]:
        with pytest.raises(oncebox.InvalidArgumentException, match=next(iter(wrong))):
            await do(sandboxes.create(**wrong, **server.options))
    assert server.effects()["counts"] == {}
    sandbox = sandboxes._of(oncebox._core.Client(server.options).by_id("i0"), server.options)
    for call in [
        lambda: sandbox.left_click(1),
        lambda: sandbox.left_click(-1, 2),
        lambda: sandbox.move_mouse(1, "2"),
        lambda: sandbox.drag((1, 2), 3),
        lambda: sandbox.drag((1, 2), (3, None)),
        lambda: sandbox.scroll("left"),
        lambda: sandbox.scroll("up", 0),
        lambda: sandbox.mouse_press("fourth"),
        lambda: sandbox.write("x", chunk_size=0),
        lambda: sandbox.write("x", delay_in_ms=0.5),
        lambda: sandbox.write(b"x"),
        lambda: sandbox.press([]),
        lambda: sandbox.press("ctrl+c"),
        lambda: sandbox.wait(-1),
        lambda: sandbox.screenshot(format="blob"),
        lambda: sandbox.open(""),
        lambda: sandbox.launch("--help"),
        lambda: sandbox.get_window_title("-x"),
        lambda: sandbox.stream.start(port=70_000),
        lambda: sandbox.stream.start(vnc_port=0),
        lambda: sandbox.stream.start(window_id="1; reboot"),
    ]:
        with pytest.raises(oncebox.InvalidArgumentException):
            await do(call())
    assert server.effects()["counts"] == {}


def test_the_import_is_all_that_changes() -> None:
    official = pytest.importorskip("e2b_desktop")
    assert desktop.Sandbox.default_template == official.Sandbox.default_template
    assert issubclass(desktop.Sandbox, oncebox.Sandbox)
    assert desktop.TimeoutException is oncebox.TimeoutException
    client = desktop.E2B(api_key="k", domain="example.com")
    assert issubclass(client.Sandbox, desktop.Sandbox)
    assert issubclass(client.AsyncSandbox, desktop.AsyncSandbox)
    assert issubclass(client.Volume, oncebox.Volume)
