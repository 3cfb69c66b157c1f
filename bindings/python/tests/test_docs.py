"""The examples of docs/python.md, as they stand there, each in a process and a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oncebox.testing import LocalServer

PAGE = (Path(__file__).parents[3] / "docs" / "python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
(TABLE,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)

#: What the example of desktops needs.
DESKTOP = ("Xvfb", "xdotool", "scrot", "x11vnc", "websockify")


def run(code: str, folder: Path) -> str:
    """What it printed. A key in the environment is what each of these programs has."""
    (folder / "openapi.yaml").write_text(f"openapi: 3.1.0\ninfo: {{title: jobs, version: '1'}}\n{TABLE}")
    (folder / "app").mkdir()
    (folder / "app" / "index.html").write_text("hello")
    environment = {**os.environ, "OPENAI_API_KEY": "any"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert "UserWarning" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("code", [pytest.param(code, id=str(number)) for number, code in enumerate(BLOCKS, 1)])
def test_an_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    runs_code = "code_interpreter" in code
    if "oncebox.desktop" in code:
        missing = [program for program in DESKTOP if shutil.which(program) is None]
        if missing or not Path("/usr/share/novnc").exists():
            pytest.skip(f"a desktop's programs are not installed: {missing or ['noVNC']}")
        # Every machine that tests has the others, and not this browser.
        launch = '    desktop.launch("google-chrome", "https://example.com")\n'
        assert launch in code
        code = code.replace(launch, "")
    if runs_code:
        pytest.importorskip("ipykernel")
    if "run_fleet" in code:
        # A hundred are for a machine with nothing else to do.
        assert "run_fleet(100, work, concurrency=20" in code
        code = code.replace("run_fleet(100, work, concurrency=20", "run_fleet(3, work, concurrency=3")
    with LocalServer(code_interpreter=os.path.normpath(sys.executable) if runs_code else None) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        printed = run(code, tmp_path)
    if runs_code:
        assert printed == "42\n"


def test_the_operation_table_says_what_may_be_repeated(tmp_path: Path) -> None:
    yaml = "from oncebox.httpx import OperationTable; OperationTable.from_openapi('openapi.yaml')"
    run(yaml, tmp_path)
