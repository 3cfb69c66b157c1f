"""The examples of the README do what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from oncebox.testing import LocalServer

README = (Path(__file__).parent.parent / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n+prints `(.*?)`", README, flags=re.DOTALL)


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_an_example(local_server: LocalServer, code: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.returncode) == (printed, 0), done.stderr


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2
    assert len(EXAMPLES[0][0].splitlines()) == 6
