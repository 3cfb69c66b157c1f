"""Git in a sandbox, on both sides."""

from __future__ import annotations

import base64
import contextlib
import logging
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import oncebox
from oncebox.testing import LocalServer
from sides import Side, do

pytestmark = [
    pytest.mark.usefixtures("local_server"),
    pytest.mark.skipif(shutil.which("git") is None, reason="no git"),
]

PASSWORD = "hunter2-of-git"


async def repository(side: Side) -> Any:
    sandbox = await do(side.Sandbox.create())
    git = sandbox.git
    assert (await do(git.init("r", initial_branch="main"))).exit_code == 0
    await do(git.configure_user("Me", "me@example.com"))
    return sandbox


async def test_changes_are_seen_staged_and_committed(side: Side) -> None:
    sandbox = await repository(side)
    git = sandbox.git
    status = await do(git.status("r"))
    assert status == oncebox.GitStatus("main", None, 0, 0, False, [])
    assert status.is_clean
    await do(sandbox.files.write("r/a", "1"))
    await do(sandbox.files.write("r/b", "1"))
    status = await do(git.status("r"))
    assert status.file_status[0] == oncebox.GitFileStatus("a", "untracked", "?", "?", False)
    assert (status.untracked_count, status.has_untracked, status.has_staged) == (2, True, False)
    await do(git.add("r", ["a"]))
    status = await do(git.status("r"))
    assert status.file_status[0] == oncebox.GitFileStatus("a", "added", "A", " ", True)
    assert (status.staged_count, status.unstaged_count, status.total_count) == (1, 1, 2)
    await do(git.add("r"))
    committed = await do(git.commit("r", "first", author_name="You", author_email="you@example.com"))
    assert isinstance(committed, oncebox.CommandResult)
    assert "first" in committed.stdout
    author = await do(sandbox.commands.run("git -C r log --format='%an %ae'"))
    assert author.stdout == "You you@example.com\n"
    await do(sandbox.files.write("r/a", "2"))
    assert (await do(git.status("r"))).file_status == [oncebox.GitFileStatus("a", "modified", " ", "M", False)]
    await do(git.restore("r", ["a"]))
    assert (await do(git.status("r"))).is_clean
    await do(sandbox.files.write("r/a", "3"))
    await do(git.reset("r", "hard"))
    assert (await do(git.status("r"))).is_clean
    await do(sandbox.kill())


async def test_branches_remotes_and_configuration(side: Side) -> None:
    sandbox = await repository(side)
    git = sandbox.git
    await do(git.commit("r", "empty", allow_empty=True))
    await do(git.create_branch("r", "other"))
    await do(git.checkout_branch("r", "main"))
    assert await do(git.branches("r")) == oncebox.GitBranches(["main", "other"], "main")
    await do(git.delete_branch("r", "other", force=True))
    assert await do(git.remote_get("r", "origin")) is None
    await do(git.init("bare", bare=True))
    await do(git.remote_add("r", "origin", "../bare"))
    assert await do(git.remote_get("r", "origin")) == "../bare"
    await do(git.push("r", "origin", "main"))
    await do(git.clone("bare", "copy", branch="main", depth=1))
    assert (await do(git.status("copy"))).upstream == "origin/main"
    await do(git.set_config("pull.rebase", "true", scope="local", path="r"))
    assert await do(git.get_config("pull.rebase", scope="local", path="r")) == "true"
    assert await do(git.get_config("pull.rebase")) is None
    await do(git.pull("copy"))
    await do(sandbox.kill())


async def test_what_git_says_is_an_exception(side: Side) -> None:
    sandbox = await repository(side)
    git = sandbox.git
    with pytest.raises(oncebox.CommandExitException, match="not a git repository") as caught:
        await do(git.status("/tmp"))
    assert caught.value.exit_code == 128
    assert "not a git repository" in caught.value.stderr
    await do(git.commit("r", "empty", allow_empty=True))
    with pytest.raises(oncebox.GitUpstreamException):
        await do(git.pull("r"))
    with pytest.raises(oncebox.InvalidArgumentException, match="belong together"):
        await do(git.push("r", username="me"))
    with pytest.raises(oncebox.InvalidArgumentException, match="scope"):
        await do(git.get_config("a.b", scope="world"))
    with pytest.raises(oncebox.InvalidArgumentException, match="mode"):
        await do(git.reset("r", "harder"))
    with pytest.raises(oncebox.InvalidArgumentException, match="hyphen"):
        await do(git.checkout_branch("r", "--orphan"))
    await do(sandbox.kill())


async def test_credentials_are_in_no_text_and_no_file(side: Side) -> None:
    sandbox = await repository(side)
    with pytest.raises(oncebox.SandboxException) as caught:
        await do(sandbox.git.clone("http://127.0.0.1:9/x.git", username="me", password=PASSWORD))
    assert PASSWORD not in str(caught.value) + repr(caught.value) + str(vars(caught.value))
    found = await do(sandbox.commands.run(f"grep -rl {PASSWORD[:8]} ~ /tmp || true"))
    assert found.stdout == ""
    await do(sandbox.git.dangerously_authenticate("me", PASSWORD, "example.com"))
    found = await do(sandbox.commands.run(f"grep -rl {PASSWORD} ~"))
    assert found.stdout != ""
    await do(sandbox.kill())


class Guarded(BaseHTTPRequestHandler):
    """A git server that wants credentials, and takes down all processes of this machine when it is shown some."""

    shown: list[str] = []  # noqa: RUF012
    processes: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        credentials = self.headers.get("authorization")
        if credentials is not None:
            Guarded.shown.append(credentials)
            Guarded.processes.append(processes())
        self.send_response(401)
        self.send_header("www-authenticate", 'Basic realm="git"')
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def processes() -> str:
    """Arguments and variables of all processes, those of sandboxes included."""
    told: list[bytes] = []
    for file in (file for name in ("cmdline", "environ") for file in Path("/proc").glob(f"[0-9]*/{name}")):
        with contextlib.suppress(OSError):
            told.append(file.read_bytes())
    return b"".join(told).decode(errors="replace")


async def test_credentials_are_in_no_log_and_no_process(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    Guarded.shown, Guarded.processes = [], []
    with ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as git, LocalServer(isolation=False) as server:
        threading.Thread(target=git.serve_forever, daemon=True).start()
        sandbox = await do(side.Sandbox.create(**server.options))
        with pytest.raises(oncebox.GitAuthException) as caught:
            await do(sandbox.git.clone(f"http://127.0.0.1:{git.server_port}/x.git", username="me", password=PASSWORD))
        await do(sandbox.kill())
        git.shutdown()
    encoded = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    assert Guarded.shown[0] == f"Basic {encoded}", "git has them"
    assert "git-remote-http" in Guarded.processes[0], "it is seen while it has them"
    for text in [*Guarded.processes, caplog.text, str(caught.value), repr(caught.value), str(vars(caught.value))]:
        assert PASSWORD not in text
        assert encoded not in text
