"""The failures of docs/testing.md, each as it stands there: what a program does under a fault, and what the server counts.

`ONCEBOX_RECIPES` says whose outcomes are tried: `e2b` (if absent) or `oncebox`, in the Python that has that package.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

WHOSE = os.environ.get("ONCEBOX_RECIPES", "e2b")
PAGE = pathlib.Path(__file__).parents[4] / "docs" / "testing.md"
BLOCK = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def recipes():
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    for section in sections:
        title = section.splitlines()[0]
        blocks = {(kind, whose): text for kind, whose, text in BLOCK.findall(section)}
        program = blocks["python", ""]
        if WHOSE == "oncebox":
            program = blocks.get(("python", "oncebox"), program.replace("from e2b import", "from oncebox import"))
        yield pytest.param(blocks["json", ""], program, blocks["text", WHOSE], id=title)


def test_there_are_ten():
    assert len(list(recipes())) == 10


@pytest.mark.parametrize(("faults", "program", "expected"), list(recipes()))
def test_recipe(faults, program, expected, misbehaving):
    server = misbehaving(faults)
    names = ("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
    environment |= dict.fromkeys(names, server.url) | {"E2B_API_KEY": "any", "NO_PROXY": "127.0.0.1"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    counts = server.effects()["counts"]
    if "durable=True" in program:
        # How many readers it took is up to the network.
        counts.pop("processStart")
    done = ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "nothing"
    assert f"{ran.stdout}really done: {done}\n" == expected, ran.stderr
