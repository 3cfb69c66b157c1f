"""What is told to ``logging``: nothing unless asked for, attempts at DEBUG, and no secret."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from oncebox.testing import LocalServer
from sides import Side, do

BUSY = {"rules": [{"on": ["getSandbox"], "times": 2, "fault": {"status": {"code": 503}}}]}


async def test_attempts_are_a_block_at_debug(
    side: Side, local_server: LocalServer, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox = await do(side.Sandbox.create(api_key="s3cret-key", envs={"TOKEN": "s3cret-env"}, metadata={"a": "b"}))
    local_server.set_faults(BUSY)
    with caplog.at_level(logging.DEBUG, "oncebox"):
        await do(sandbox.get_info(api_headers={"X-Token": "s3cret-header"}))
    # What other tests left to go on in the background may have attempts, too.
    told = [record for record in caplog.records if "attempts" in record.getMessage()]
    [block] = [record for record in told if sandbox.sandbox_id in record.getMessage()]
    lines = block.getMessage().splitlines()
    assert f"GET {local_server.url}/sandboxes/{sandbox.sandbox_id}" in lines[0]
    assert [line.strip()[:2] for line in lines[1:]] == ["1.", "2.", "3."]
    assert "answered 503; sent again" in lines[1]
    assert block.levelno == logging.DEBUG
    assert "s3cret" not in caplog.text
    await do(sandbox.kill())


@pytest.mark.parametrize("level", [None, "INFO", "DEBUG"])
def test_nothing_is_said_unless_asked_for(local_server: LocalServer, level: str | None) -> None:
    # In a process of its own, where nothing goes on but this.
    script = "import oncebox; s = oncebox.Sandbox.create(); s.get_info(); s.kill()"
    if level is not None:
        script = f"import logging; logging.basicConfig(level=logging.{level}); {script}"
    local_server.set_faults(BUSY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    assert ("attempts" in done.stderr) if level == "DEBUG" else (done.stderr == "")
    assert local_server.faults()["fired"] == [2]
