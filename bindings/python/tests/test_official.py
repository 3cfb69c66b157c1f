"""The official SDK's names, arguments, defaults and exceptions, compared with the installed package itself."""

from __future__ import annotations

import dataclasses
import inspect
from enum import Enum
from typing import Any

import pytest
from typing_extensions import is_typeddict

import oncebox
from oncebox import code_interpreter, desktop

e2b = pytest.importorskip("e2b")

#: What is another one on purpose: (class, method, parameter or ``*`` for all of it), and why.
DIFFERENT = {
    ("Commands", "__init__", "*"): "made by the sandbox, from its own",
    ("Sandbox", "__init__", "*"): "private there too: sandboxes are made by create and connect",
    ("DesktopSandbox", "__init__", "*"): "private there too: sandboxes are made by create and connect",
    ("DesktopStream", "__init__", "*"): "made by the sandbox, from its own",
    ("Git", "__init__", "*"): "made by the sandbox, from its own",
    ("TemplateBuilder", "__init__", "*"): "made by the template",
    ("TemplateFinal", "__init__", "*"): "made by the template",
    ("Filesystem", "__init__", "*"): "made by the sandbox, from its own",
    ("Pty", "__init__", "*"): "made by the sandbox, from its own",
    ("CommandHandle", "__init__", "*"): "made by commands, from its own",
    ("CommandInputHandle", "__init__", "*"): "made by commands, from its own",
    ("WatchHandle", "__init__", "*"): "made by files, from its own",
    ("ConnectionConfig", "get_api_params", "*"): "options are merged by the client",
    ("ConnectionConfig", "get_sandbox_url", "*"): "sandbox.envd_api_url has it",
    ("ConnectionConfig", "get_sandbox_direct_url", "*"): "sandbox.envd_direct_url has it",
    ("ConnectionConfig", "set_integration", "*"): "the User-Agent is the client's",
}


def pairs() -> list[tuple[str, Any, Any]]:
    """Classes of both packages: ours, theirs."""
    import e2b.sandbox_async.commands.command as async_commands
    import e2b.sandbox_async.commands.pty as async_pty
    import e2b.sandbox_async.filesystem.filesystem as async_files
    import e2b.sandbox_async.git as async_git
    import e2b.sandbox_sync.commands.command as commands
    import e2b.sandbox_sync.commands.pty as pty
    import e2b.sandbox_sync.filesystem.filesystem as files
    import e2b.template.main as builders

    official_code = pytest.importorskip("e2b_code_interpreter")
    of_code = ["Sandbox", "AsyncSandbox", "Context", "Execution", "ExecutionError", "Logs", "OutputMessage", "Result"]
    official_desktop: Any = pytest.importorskip("e2b_desktop")
    from oncebox._async.commands import AsyncCommands
    from oncebox._async.filesystem import AsyncFilesystem
    from oncebox._async.pty import AsyncPty
    from oncebox._sync.commands import Commands
    from oncebox._sync.filesystem import Filesystem
    from oncebox._sync.pty import Pty

    by_name = [
        *("Sandbox", "SandboxPaginator", "SnapshotPaginator", "CommandHandle", "WatchHandle", "ConnectionConfig"),
        *("AsyncSandbox", "AsyncSandboxPaginator", "AsyncSnapshotPaginator", "AsyncCommandHandle"),
        *("AsyncCommandInputHandle", "AsyncWatchHandle"),
        *("Template", "AsyncTemplate", "TemplateBase", "ReadyCmd", "Volume", "AsyncVolume", "VolumeConnectionConfig"),
        *("Secret", "AsyncSecret", "SecretPaginator", "AsyncSecretPaginator", "E2B", "Git"),
    ]
    return [
        *((name, getattr(oncebox, name), getattr(e2b, name)) for name in by_name),
        ("Commands", Commands, commands.Commands),
        ("AsyncCommands", AsyncCommands, async_commands.Commands),
        ("Filesystem", Filesystem, files.Filesystem),
        ("AsyncFilesystem", AsyncFilesystem, async_files.Filesystem),
        ("Pty", Pty, pty.Pty),
        ("AsyncPty", AsyncPty, async_pty.Pty),
        ("AsyncGit", oncebox.AsyncGit, async_git.Git),
        ("TemplateBuilder", oncebox.TemplateBuilder, builders.TemplateBuilder),
        ("TemplateFinal", oncebox.TemplateFinal, builders.TemplateFinal),
        *((name, getattr(code_interpreter, name), getattr(official_code, name)) for name in of_code),
        ("E2B", code_interpreter.E2B, official_code.E2B),
        ("DesktopSandbox", desktop.Sandbox, official_desktop.Sandbox),
        # There is none in the official package: ours has the same names and arguments.
        ("AsyncDesktopSandbox", desktop.AsyncSandbox, official_desktop.Sandbox),
        ("DesktopStream", desktop.DesktopStream, official_desktop.main._VNCServer),
        ("AsyncDesktopStream", desktop.AsyncDesktopStream, official_desktop.main._VNCServer),
        ("E2B", desktop.E2B, official_desktop.E2B),
    ]


def members(cls: Any) -> list[str]:
    special = ("__init__", "__enter__", "__aenter__", "__iter__", "__aiter__")
    return [name for name in dir(cls) if not name.startswith("_") or (name in special and hasattr(cls, name))]


def parameters(function: Any) -> list[inspect.Parameter]:
    """Those that callers give: without the sandbox itself, which goes by several names."""
    all_ = list(inspect.signature(function).parameters.values())
    return all_[1:] if all_ and all_[0].name in ("self", "target", "cls") else all_


@pytest.mark.parametrize(("name", "ours", "theirs"), pairs(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_method_and_argument_is_there(name: str, ours: Any, theirs: Any) -> None:
    plain = name.removeprefix("Async")
    wrong: list[str] = []
    for member in members(theirs):
        if (plain, member, "*") in DIFFERENT:
            continue
        if not hasattr(ours, member):
            if member == "__enter__" and hasattr(ours, "__aenter__"):
                # What is compared with a class that is not asynchronous.
                continue
            wrong.append(f"{member} is missing")
            continue
        their, our = getattr(theirs, member), getattr(ours, member)
        if not callable(their) or (member == "__init__" and theirs.__init__ is object.__init__):
            continue
        given = {parameter.name: parameter for parameter in parameters(our)}
        positional = [p.name for p in parameters(our) if p.kind is p.POSITIONAL_OR_KEYWORD]
        for place, parameter in enumerate(parameters(their)):
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                if parameter.name not in given:
                    wrong.append(f"{member} takes no {parameter}")
                continue
            own = given.get(parameter.name)
            if own is None:
                wrong.append(f"{member} takes no {parameter.name}")
            elif own.default != parameter.default:
                wrong.append(f"{member}: {parameter.name} is {own.default!r} by default, not {parameter.default!r}")
            elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD and positional[place : place + 1] != [own.name]:
                wrong.append(f"{member}: {parameter.name} is not argument {place + 1}")
    assert wrong == []


@pytest.mark.parametrize("name", ["AsyncCommands", "AsyncFilesystem", "AsyncGit", "AsyncPty"])
def test_what_is_awaited_there_is_awaited_here(name: str) -> None:
    ((ours, theirs),) = [(ours, theirs) for known, ours, theirs in pairs() if known == name]
    awaited = {member for member in members(theirs) if inspect.iscoroutinefunction(getattr(theirs, member))}
    assert len(awaited) >= 3
    assert awaited == {member for member in members(theirs) if inspect.iscoroutinefunction(getattr(ours, member))}


def test_every_name_is_there_or_says_where_it_is() -> None:
    theirs = set(e2b.__all__)
    missing = {name for name in theirs if name not in oncebox.__all__}
    assert missing == oncebox._ELSEWHERE
    for name in missing:
        with pytest.raises(ImportError, match=f"'{name}'.*the official package, e2b"):
            exec(f"from oncebox import {name}")
    assert not hasattr(oncebox, "neither_here_nor_there")


EXCEPTIONS = [name for name in e2b.__all__ if inspect.isclass(getattr(e2b, name)) and "Exception" in name]


def test_exceptions_are_each_others_children_as_there() -> None:
    names = [*EXCEPTIONS, "Exception"]
    theirs = {name: getattr(e2b, name, Exception) for name in names}
    ours = {name: getattr(oncebox, name, Exception) for name in names}
    for child in names:
        for parent in names:
            assert issubclass(ours[child], ours[parent]) == issubclass(theirs[child], theirs[parent]), (child, parent)


def test_our_own_exceptions_are_caught_by_the_official_ones() -> None:
    assert issubclass(oncebox.SandboxUnreachableException, oncebox.TimeoutException)
    assert issubclass(oncebox.OutputLostException, oncebox.TimeoutException)
    for name in oncebox.__all__:
        of = getattr(oncebox, name)
        if inspect.isclass(of) and issubclass(of, Exception):
            assert issubclass(of, oncebox.Evidence), name
            assert name in EXCEPTIONS or issubclass(of, oncebox.SandboxException), name


@pytest.mark.parametrize(
    "name", [n for n in e2b.__all__ if n not in oncebox._ELSEWHERE and dataclasses.is_dataclass(getattr(e2b, n))]
)
def test_dataclasses_have_the_same_fields(name: str) -> None:
    ours, theirs = getattr(oncebox, name), getattr(e2b, name)
    if not dataclasses.is_dataclass(ours) or issubclass(ours, Exception):
        assert {field.name for field in dataclasses.fields(theirs)} <= {"stdout", "stderr", "exit_code", "error"}
        return
    own = {field.name for field in dataclasses.fields(ours)}
    assert {field.name for field in dataclasses.fields(theirs)} <= own


@pytest.mark.parametrize(
    "name", [n for n in e2b.__all__ if inspect.isclass(getattr(e2b, n)) and issubclass(getattr(e2b, n), Enum)]
)
def test_enums_have_the_same_values(name: str) -> None:
    if name in oncebox._ELSEWHERE:
        pytest.skip("not there yet")
    assert {one.name: one.value for one in getattr(oncebox, name)} == {
        one.name: one.value for one in getattr(e2b, name)
    }


@pytest.mark.parametrize(
    "name", [n for n in e2b.__all__ if n not in oncebox._ELSEWHERE and is_typeddict(getattr(e2b, n))]
)
def test_typed_dictionaries_have_the_same_keys_and_want_the_same(name: str) -> None:
    ours, theirs = getattr(oncebox, name), getattr(e2b, name)
    assert theirs.__required_keys__ == ours.__required_keys__
    assert theirs.__optional_keys__ <= ours.__optional_keys__
