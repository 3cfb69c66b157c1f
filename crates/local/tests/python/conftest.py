"""The local server, for all tests of this folder."""

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def server():
    program = os.environ.get("ONCEBOX_BIN")
    assert program, "ONCEBOX_BIN names no program; run `cargo xtask test`"
    command = [program, "serve", "--port", "0", "--json", "--code-interpreter", sys.executable]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = json.loads(process.stdout.readline())["url"]
        for name in ("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL"):
            os.environ[name] = url
        os.environ["E2B_API_KEY"] = "any"
        os.environ["NO_PROXY"] = "127.0.0.1,localhost"
        yield url
    finally:
        process.terminate()
        process.wait(timeout=20)
