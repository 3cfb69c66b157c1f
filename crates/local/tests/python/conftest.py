"""The local server, for all tests of this folder, and the record of what they drove."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

import e2b
import e2b_code_interpreter
import pytest
from e2b.sandbox_async.commands.command import Commands as AsyncCommands
from e2b.sandbox_async.commands.pty import Pty as AsyncPty
from e2b.sandbox_async.filesystem.filesystem import Filesystem as AsyncFilesystem
from e2b.sandbox_async.git import Git as AsyncGit
from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.commands.pty import Pty
from e2b.sandbox_sync.filesystem.filesystem import Filesystem
from e2b.secret import AsyncSecret, AsyncSecretPaginator, Secret, SecretPaginator
from e2b.template.main import TemplateBuilder

from holes import holes
from record import Recorder

SDK = f"e2b {importlib.metadata.version('e2b')}, Python"
ASYNC_SDK = f"{SDK}, asyncio"
INTERPRETER = f"e2b-code-interpreter {importlib.metadata.version('e2b-code-interpreter')}, Python"

recorder = Recorder()
for name, cls, asynchronous in [
    ("Sandbox", e2b.Sandbox, e2b.AsyncSandbox),
    ("SandboxPaginator", e2b.SandboxPaginator, e2b.AsyncSandboxPaginator),
    ("SnapshotPaginator", e2b.SnapshotPaginator, e2b.AsyncSnapshotPaginator),
    ("commands", Commands, AsyncCommands),
    ("CommandHandle", e2b.CommandHandle, e2b.AsyncCommandHandle),
    ("pty", Pty, AsyncPty),
    ("files", Filesystem, AsyncFilesystem),
    ("WatchHandle", e2b.WatchHandle, e2b.AsyncWatchHandle),
    ("git", e2b.Git, AsyncGit),
    ("Template", e2b.Template, e2b.AsyncTemplate),
    ("Volume", e2b.Volume, e2b.AsyncVolume),
    ("Secret", Secret, AsyncSecret),
    ("SecretPaginator", SecretPaginator, AsyncSecretPaginator),
]:
    recorder.watch(SDK, name, cls)
    recorder.watch(ASYNC_SDK, name, asynchronous)
recorder.watch(ASYNC_SDK, "CommandInputHandle", e2b.AsyncCommandInputHandle)
# What builds a template does no I/O; both SDKs share it.
recorder.watch(SDK, "TemplateBuilder", TemplateBuilder)
recorder.watch(INTERPRETER, "Sandbox", e2b_code_interpreter.Sandbox, inherited=False)
recorder.watch(f"{INTERPRETER}, asyncio", "Sandbox", e2b_code_interpreter.AsyncSandbox, inherited=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    recorder.begin()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        recorder.end(report.passed and item.get_closest_marker("refused") is None)
    return report


def pytest_sessionfinish():
    folder = os.environ.get("ONCEBOX_COMPAT")
    if folder:
        record = {
            sdk: {
                "driven": {method: (sdk, method) in recorder.passed for method in methods},
                "holes": holes(sdk.split(" ")[0], "asyncio" in sdk),
            }
            for sdk, methods in recorder.methods.items()
        }
        pathlib.Path(folder, "python.json").write_text(json.dumps(record))


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
