"""The Python of docs/GUIDE.md and of the README, as it stands there, with our package against a server that does nothing wrong."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[4]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in ("README.md", "docs/GUIDE.md")
    for number, block in enumerate(BLOCK.findall((ROOT / page).read_text()), 1)
]


@pytest.mark.skipif(os.environ.get("ONCEBOX_RECIPES") != "oncebox", reason="needs the package oncebox")
@pytest.mark.parametrize("block", BLOCKS)
def test_block(block, misbehaving):
    server = misbehaving("{}")
    names = ("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
    environment |= dict.fromkeys(names, server.url) | {"E2B_API_KEY": "any", "NO_PROXY": "127.0.0.1"}
    ran = subprocess.run(
        [sys.executable, "-c", block], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
