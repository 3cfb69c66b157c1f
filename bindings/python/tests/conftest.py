"""What the tests share. They test the package that is installed, never the folder beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import oncebox
import pytest
from oncebox import _core
from oncebox._run import run_sync


def pytest_sessionstart() -> None:
    wanted = os.environ.get("ONCEBOX_TEST_INSTALLED_IN")
    found = Path(oncebox.__file__).resolve()
    if wanted and not found.is_relative_to(Path(wanted).resolve()):
        raise pytest.UsageError(f"the tests are for the package in {wanted}, and Python found {found}")


HELPER = Path(oncebox.__file__).parent / "_bin" / "oncebox-envd"


@pytest.fixture(scope="session")
def server() -> Iterator[_core.Server]:
    """A local server in this process."""
    server = run_sync(_core.Server.start({"helper": str(HELPER)}))
    yield server
    run_sync(server.stop())


@pytest.fixture
def client(server: _core.Server) -> _core.Client:
    """A client of it."""
    return _core.Client({"api_key": "local", "api_url": server.url, "sandbox_url": server.url, "http_version": "1.1"})
