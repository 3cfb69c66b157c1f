"""A sandbox host for tests, in this process: no account, no network, and faults on demand.

In ``conftest.py``::

    pytest_plugins = ["oncebox.testing"]

and then in a test::

    def test_create_survives_a_lost_answer(local_server):
        local_server.set_faults({"rules": [{"on": ["create"], "times": 1, "fault": {"cut": {"when": "after"}}}]})
        sandbox = oncebox.Sandbox.create()
        assert local_server.effects()["counts"]["createSandbox"] == 1

``local_server`` has one server for all tests; each test finds it without faults, and without sandboxes of other tests in
its effects. Its address is in the environment while the test runs, so that clients find it, the official SDK's too.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import pytest
from typing_extensions import Self

from . import _core
from ._program import find_program
from ._run import run_sync
from ._sync.sandbox import Sandbox

#: Faults and effects are asked for over loopback, whatever the environment says of proxies.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class LocalServer:
    """A local sandbox host in this process. It ends with its sandboxes when it is closed.

    :param faults: those to begin with, as the server's ``PUT /oncebox/faults`` takes them. Faults of connections and
        frames (``frames``) are only possible where this is given; ``{}`` is none to begin with
    :param isolation: ``False``: sandboxes are folders, and their commands run as this user, with all that it may do
    :param helper: the program inside each sandbox; by default ``ONCEBOX_HELPER``, or the package's own ``oncebox``
    :param code_interpreter: a Python that has ``ipykernel``, whose kernels run code in sandboxes; by default none
    :raises UnsupportedException: the kernel does not allow sandboxes to be isolated, or there is no helper
    """

    def __init__(
        self,
        *,
        faults: Mapping[str, Any] | None = None,
        isolation: bool = True,
        helper: str | None = None,
        code_interpreter: str | None = None,
    ) -> None:
        program = find_program() if helper is None and "ONCEBOX_HELPER" not in os.environ else None
        options = {
            "program": None if program is None else str(program),
            "faults": None if faults is None else json.dumps(dict(faults)),
            "isolation": isolation,
            "helper": helper,
            "code_interpreter": code_interpreter,
        }
        self._core = run_sync(_core.Server.start(options))

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._core.url

    @property
    def options(self) -> dict[str, Any]:
        """Options with which clients find it: ``Sandbox.create(**server.options)``."""
        urls = {"api_url": self.url, "sandbox_url": self.url, "volume_api_url": self.url}
        return {"api_key": "local", **urls, "http_version": "1.1"}

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which clients find it, in this process or another."""
        return {
            "E2B_API_KEY": "local",
            "E2B_API_URL": self.url,
            "E2B_SANDBOX_URL": self.url,
            "E2B_VOLUME_API_URL": self.url,
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def set_faults(self, document: Mapping[str, Any]) -> None:
        """Has it misbehave from now on, in place of what was set before: a document with ``rules``, ``seed``, …"""
        self._ask("PUT", "/oncebox/faults", json.dumps(dict(document)).encode())

    def clear_faults(self) -> None:
        """Has it behave."""
        self._ask("DELETE", "/oncebox/faults")

    def faults(self) -> Any:
        """The faults in force, and how often each of them was met."""
        return self._ask("GET", "/oncebox/faults")

    def effects(self) -> Any:
        """What really happened: every effect, the counts by operation, and what was made more than once."""
        return self._ask("GET", "/oncebox/effects")

    def clear_effects(self) -> None:
        """Begins to count anew."""
        self._ask("DELETE", "/oncebox/effects")

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(self.url + path, data=body, method=method)
        with _direct.open(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def close(self) -> None:
        """Ends it with all its sandboxes."""
        run_sync(self._core.stop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@pytest.fixture(scope="session")
def oncebox_server() -> Iterator[LocalServer]:
    """The server of all tests. Override it to start it with other options."""
    with LocalServer(faults={}) as server:
        yield server


@pytest.fixture
def local_server(oncebox_server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """The server, without faults and effects of other tests; clients of this test find it by themselves."""
    for name, value in oncebox_server.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("E2B_DEBUG", "E2B_DOMAIN", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    oncebox_server.clear_faults()
    oncebox_server.clear_effects()
    yield oncebox_server
    oncebox_server.clear_faults()


@pytest.fixture
def sandbox(local_server: LocalServer) -> Iterator[Sandbox]:
    """A sandbox of the test's own, which is killed at its end."""
    made = Sandbox.create(**local_server.options)
    yield made
    local_server.clear_faults()
    made.kill()
