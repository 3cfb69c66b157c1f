"""A server that misbehaves, and what it counts."""

import contextlib
import json
import os
import subprocess
import urllib.request

import pytest


class Server:
    """A running `oncebox serve`."""

    def __init__(self, url):
        self.url = url

    def effects(self, test_id=None):
        """What really happened."""
        query = f"?test_id={test_id}" if test_id else ""
        with urllib.request.urlopen(f"{self.url}/oncebox/effects{query}", timeout=10) as answer:
            return json.load(answer)


@pytest.fixture()
def misbehaving(tmp_path):
    """Starts servers with a fault document, as text."""
    with contextlib.ExitStack() as running:

        def start(faults):
            document = tmp_path / "faults.json"
            document.write_text(faults)
            command = [os.environ["ONCEBOX_BIN"], "serve", "--port", "0", "--json", "--faults", str(document)]
            server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            running.callback(server.wait, timeout=20)
            running.callback(server.terminate)
            return Server(json.loads(server.stdout.readline())["url"])

        yield start
