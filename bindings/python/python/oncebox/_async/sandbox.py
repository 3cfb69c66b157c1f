"""Sandboxes."""

from __future__ import annotations

import json
import logging
import shlex
import uuid
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Any

from typing_extensions import Self, Unpack

from .. import _create_types as c
from .. import _types as t
from .._core import Sandbox as CoreSandbox
from .._dual import Target, dual, dual_or_all
from .._network import iam_json, is_filesystem_only, lifecycle_options, network_json
from .._options import client_for, is_debug, with_options
from .._params import ApiParams
from .._run import run_async, shielded_async
from .._sandbox_base import SandboxBase
from ..exceptions import SandboxException
from .commands import AsyncCommands
from .filesystem import AsyncFilesystem
from .git import AsyncGit
from .paginator import AsyncSandboxPaginator, AsyncSnapshotPaginator
from .pty import AsyncPty

#: The sandbox of debug mode, where there is no control plane to name one.
_DEBUG_ID = "debugsandboxid"


class AsyncSandbox(SandboxBase):
    """A sandbox: a machine of its own in which commands run and files live.

    Made by :meth:`create`, found by :meth:`connect` or :meth:`list`. As a context manager it is killed at the end::

        async with await AsyncSandbox.create() as sandbox:
            result = await sandbox.commands.run("echo hello")

    It belongs to no event loop and no thread.
    """

    default_template = "base"
    default_mcp_template = "mcp-gateway"
    default_sandbox_timeout = 300

    def __init__(self, **_: Any) -> None:
        raise TypeError(f"use {type(self).__name__}.create() or {type(self).__name__}.connect()")

    @classmethod
    def _of(cls, core: CoreSandbox, options: dict[str, Any]) -> Self:
        sandbox = cls.__new__(cls)
        sandbox._core, sandbox._options = core, options
        sandbox._mcp_token = None
        sandbox._commands = AsyncCommands(core)
        sandbox._pty = AsyncPty(core)
        sandbox._files = AsyncFilesystem(core)
        sandbox._git = AsyncGit(core)
        return sandbox

    _mcp_token: str | None
    _commands: AsyncCommands
    _pty: AsyncPty
    _files: AsyncFilesystem
    _git: AsyncGit

    @classmethod
    async def create(
        cls,
        template: str | None = None,
        timeout: int | None = None,
        metadata: dict[str, str] | None = None,
        envs: dict[str, str] | None = None,
        secure: bool | None = None,
        allow_internet_access: bool | None = None,
        mcp: c.McpServer | None = None,
        network: c.SandboxNetworkOpts | None = None,
        iam: c.SandboxIamOpts | None = None,
        lifecycle: c.SandboxLifecycle | None = None,
        volume_mounts: Mapping[str, Any] | None = None,
        logger: logging.Logger | None = None,
        idempotency_key: str | None = None,
        *,
        intent: str | None = None,
        **opts: Unpack[ApiParams],
    ) -> Self:
        """Makes a sandbox, once.

        :param template: a template's name, ``name:tag``, id, or a snapshot's id; ``base`` unless ``mcp`` is given
        :param timeout: how long it lives, in seconds; the server's default is 300
        :param metadata: labels; names that begin with ``oncebox.`` are ours
        :param envs: environment variables for all commands
        :param secure: has no effect, as in the official SDK
        :param allow_internet_access: whether it may reach the internet
        :param mcp: MCP servers that its gateway offers
        :param network: what it may reach, and who may reach it
        :param iam: identities that it may prove
        :param lifecycle: what happens at the end of its lifetime
        :param volume_mounts: volumes, or their names, by the paths they are mounted at
        :param logger: has no effect: attempts are told to the logger ``oncebox``
        :param idempotency_key: sent as it is with every attempt; by default keys follow from the intent
        :param intent: 32 lower-case hex digits; calls with one intent make one sandbox. Ours
        :raises OutcomeUnknownException: nobody knows whether one was made; its ``intent`` is for :meth:`resolve`
        """
        options = cls._resolved(opts)
        if is_debug(options):
            return cls._of(client_for(options).by_id(_DEBUG_ID), options)
        order: dict[str, Any] = {
            "template": template or (cls.default_template if mcp is None else cls.default_mcp_template),
            "timeout": timeout,
            "metadata": metadata,
            "envs": envs,
            "allow_internet_access": allow_internet_access,
            "idempotency_key": idempotency_key,
            "intent": intent,
        }
        if mcp is not None:
            order["mcp"] = json.dumps(mcp)
        if network is not None:
            order["network"] = network_json(network, iam)
        if iam is not None:
            order["iam"] = iam_json(iam)
        if lifecycle is not None:
            order |= lifecycle_options(lifecycle)
        if volume_mounts is not None:
            order["volume_mounts"] = {path: getattr(of, "name", of) for path, of in volume_mounts.items()}
        sandbox = cls._of(await run_async(client_for(options).create(order)), options)
        if mcp is not None:
            await sandbox._start_mcp(mcp)
        return sandbox

    async def _start_mcp(self, mcp: c.McpServer) -> None:
        self._mcp_token = str(uuid.uuid4())
        result: dict[str, Any] | None = None
        try:
            result = await run_async(
                self._core.run(
                    f"mcp-gateway --config {shlex.quote(json.dumps(mcp))}",
                    {"user": "root", "envs": {"GATEWAY_ACCESS_TOKEN": self._mcp_token}, "timeout": 60},
                )
            )
        finally:
            if result is None or result["exit_code"] != 0:
                with shielded_async():
                    await run_async(self._core.kill())
        if result and result["exit_code"] != 0:
            raise SandboxException(f"the MCP gateway did not start, and the sandbox was killed: {result['stderr']}")

    @classmethod
    async def resolve(cls, intent: str, **opts: Unpack[ApiParams]) -> Self | None:
        """Finds out what became of a create: its sandbox, or ``None`` when none was made. Makes and kills nothing. Ours.

        :param intent: the ``intent`` of an :class:`OutcomeUnknownException`, or the one that was given
        """
        options = cls._resolved(opts)
        core = await run_async(client_for(options).resolve(intent))
        return None if core is None else cls._of(core, options)

    @dual
    @staticmethod
    async def connect(
        target: Target,
        timeout: int | None = None,
        *,
        on_resume: t.SandboxOnResume = "restore",
        **opts: Unpack[ApiParams],
    ) -> AsyncSandbox:
        """Connects to a sandbox, and resumes it where it is paused: ``connect(sandbox_id)``, or on an instance.

        :param timeout: how long it lives at least from now on, in seconds; the server's default is 300
        :param on_resume: ``restore``: it goes on where it was; ``reboot``: it boots anew from its files
        """
        cls: type[AsyncSandbox] = target.owner
        options = target.options(opts)
        if is_debug(options):
            return cls._of(client_for(options).by_id(_DEBUG_ID), options)
        connected = await run_async(
            target.client(opts).connect(target.id, {"timeout": timeout, "on_resume": on_resume})
        )
        return cls._of(connected, options)

    @dual
    @staticmethod
    async def fork(
        target: Target, timeout: int | None = None, count: int | None = None, **opts: Unpack[ApiParams]
    ) -> list[AsyncSandbox | Exception]:
        """Copies a sandbox as it runs: ``fork(sandbox_id)``, or on an instance. Never made twice by one call.

        :param timeout: how long each fork lives, in seconds; the server's default is 15
        :param count: how many, 1 to 100; 1 by default
        :returns: for each, the sandbox, or the exception that tells why it was not made
        """
        cls: type[AsyncSandbox] = target.owner
        options = target.options(opts)
        forks = await run_async(target.core(opts).fork(1 if count is None else count, timeout))
        return [fork if isinstance(fork, Exception) else cls._of(fork, options) for fork in forks]

    @dual
    @staticmethod
    async def kill(target: Target, **opts: Unpack[ApiParams]) -> bool:
        """Ends a sandbox, with all that runs in it: ``kill(sandbox_id)``, or on an instance.

        :returns: ``False``: there was no such running sandbox
        """
        if target.is_debug(opts):
            return True
        return await run_async(target.core(opts).kill())

    @dual
    @staticmethod
    async def set_timeout(target: Target, timeout: int, **opts: Unpack[ApiParams]) -> None:
        """Sets the time that is left of a sandbox's lifetime: ``set_timeout(sandbox_id, timeout)``, or on an instance.

        :param timeout: seconds from now
        """
        if not target.is_debug(opts):
            await run_async(target.core(opts).set_timeout(timeout))

    @dual
    @staticmethod
    async def update_network(target: Target, network: c.SandboxNetworkUpdate, **opts: Unpack[ApiParams]) -> None:
        """Sets what a sandbox may reach, in place of all that was set before: with its id, or on an instance."""
        await run_async(target.core(opts).update_network(network_json(network)))

    @dual
    @staticmethod
    async def get_info(target: Target, **opts: Unpack[ApiParams]) -> t.SandboxInfo:
        """What the control plane knows of a sandbox: ``get_info(sandbox_id)``, or on an instance."""
        return t.sandbox_info(await run_async(target.core(opts).info()))

    @dual
    @staticmethod
    async def get_metrics(
        target: Target, start: datetime | None = None, end: datetime | None = None, **opts: Unpack[ApiParams]
    ) -> list[t.SandboxMetrics]:
        """What a sandbox used over time: with its id, or on an instance. Without bounds, all that the server keeps."""
        told = await run_async(target.core(opts).metrics(t.microseconds(start), t.microseconds(end)))
        return [t.sandbox_metrics(one) for one in told]

    @dual
    @staticmethod
    async def pause(
        target: Target,
        keep_memory: bool | None = None,
        *,
        mode: t.SnapshotMode | None = None,
        strict: bool = False,
        **opts: Unpack[ApiParams],
    ) -> bool:
        """Pauses a sandbox; :meth:`connect` resumes it. With its id, or on an instance.

        :param keep_memory: the old way to say ``mode``
        :param mode: ``full`` keeps memory and files; ``filesystem`` files alone
        :param strict: refuses where the daemon inside does not answer
        :returns: ``False``: it was paused already, or was changing (409)
        :raises GuestUnresponsiveException: a strict pause met a daemon that does not answer
        """
        return await run_async(target.core(opts).pause(is_filesystem_only(mode, keep_memory), strict))

    @dual
    @staticmethod
    async def beta_pause(
        target: Target,
        keep_memory: bool | None = None,
        *,
        mode: t.SnapshotMode | None = None,
        **opts: Unpack[ApiParams],
    ) -> bool:
        """The old name of :meth:`pause`."""
        return await run_async(target.core(opts).pause(is_filesystem_only(mode, keep_memory), False))

    @dual
    @staticmethod
    async def create_snapshot(
        target: Target, name: str | None = None, *, mode: t.SnapshotMode | None = None, **opts: Unpack[ApiParams]
    ) -> t.SnapshotInfo:
        """Takes a snapshot of a sandbox, while it goes on running: with its id, or on an instance.

        :param name: by which it can be used as a template
        :param mode: ``full`` keeps memory and files; ``filesystem`` files alone
        """
        taken = await run_async(target.core(opts).create_snapshot(name, is_filesystem_only(mode, None)))
        return t.SnapshotInfo(**taken)

    @dual_or_all
    @staticmethod
    def list_snapshots(
        target: Target,
        limit: int | None = None,
        next_token: str | None = None,
        name: str | None = None,
        **opts: Unpack[ApiParams],
    ) -> AsyncSnapshotPaginator:
        """Lists snapshots, a page at a time: a sandbox's own on an instance or with its id, else all.

        :param limit: so many a page, 1 to 100
        :param next_token: of the page to begin at
        :param name: only those of this name
        """
        return AsyncSnapshotPaginator(target.id or None, limit, next_token, name, **target.options(opts))

    @classmethod
    async def delete_snapshot(cls, snapshot_id: str, **opts: Unpack[ApiParams]) -> bool:
        """Deletes a snapshot.

        :returns: ``False``: there is no such one
        """
        return await run_async(client_for(cls._resolved(opts)).delete_snapshot(snapshot_id))

    @classmethod
    def list(
        cls,
        query: t.SandboxQuery | None = None,
        limit: int | None = None,
        next_token: str | None = None,
        order: t.SandboxListOrder | None = None,
        **opts: Unpack[ApiParams],
    ) -> AsyncSandboxPaginator:
        """Lists sandboxes, a page at a time.

        :param query: which ones; all by default
        :param limit: so many a page, 1 to 100
        :param next_token: of the page to begin at
        :param order: by their start, ``asc`` or ``desc``; the newest come first by default
        """
        return AsyncSandboxPaginator(query, limit, next_token, order, **cls._resolved(opts))

    async def is_running(self, request_timeout: float | None = None) -> bool:
        """Whether the daemon inside answers. ``False``: the sandbox has ended, or is paused."""
        core = with_options(self._core, self._options, {"request_timeout": request_timeout})
        return await run_async(core.is_running())

    async def get_mcp_token(self) -> str | None:
        """The token of the sandbox's MCP gateway."""
        if self._mcp_token is None:
            self._mcp_token = await self.files.read("/etc/mcp-gateway/.token", user="root")
        return self._mcp_token

    @property
    def commands(self) -> AsyncCommands:
        """Its commands."""
        return self._commands

    @property
    def files(self) -> AsyncFilesystem:
        """Its files."""
        return self._files

    @property
    def git(self) -> AsyncGit:
        """Git."""
        return self._git

    @property
    def pty(self) -> AsyncPty:
        """Its terminals."""
        return self._pty

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with shielded_async():
            await self.kill()
