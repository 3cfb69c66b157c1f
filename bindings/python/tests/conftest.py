"""What the tests share. They test the package that is installed, never the folder beside them."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import oncebox
from oncebox import _core
from sides import Side

if TYPE_CHECKING:
    from oncebox.testing import LocalServer

pytest_plugins = ["oncebox.testing"]


def pytest_sessionstart() -> None:
    wanted = os.environ.get("ONCEBOX_TEST_INSTALLED_IN")
    found = Path(oncebox.__file__).resolve()
    if wanted and not found.is_relative_to(Path(wanted).resolve()):
        raise pytest.UsageError(f"the tests are for the package in {wanted}, and Python found {found}")


@pytest.fixture(params=["sync", "asyncio", "trio"])
def side(request: pytest.FixtureRequest) -> Side:
    return Side(request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a case on its side."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    if "side" not in pyfuncitem.funcargs:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    pyfuncitem.funcargs["side"].run(lambda: pyfuncitem.obj(**arguments))
    return True


@pytest.fixture
def client(local_server: LocalServer) -> _core.Client:
    """A client of the local server."""
    return _core.Client(local_server.options)
