"""Git in a sandbox, over its commands."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._command_result import CommandResult
from .._git import GitBranches, GitResetMode, GitStatus, git_output, git_status
from .._options import timed
from .._run import run_async


class AsyncGit:
    """Git in a sandbox. The sandbox's template must have it.

    Credentials go to git through a pipe that it alone reads from, and only to the server that they are meant for. They are in
    no argument, no environment variable, no file and no text of an exception, unless a method or option whose name begins
    with ``dangerously_`` is asked for.

    All methods take ``envs``, ``user`` (whom git runs as), ``cwd`` (where relative paths begin; the user's home), ``timeout``
    (seconds after which the sandbox kills git; 0 is never, default 60), and ``request_timeout`` (the deadline of each
    request, in seconds).

    :raises GitAuthException: the server wants other credentials
    :raises CommandExitException: whatever else git says, in its own words
    :raises UnsupportedException: there is no git in the sandbox
    """

    def __init__(self, core: _core.Sandbox) -> None:
        self._core = core

    async def _run(self, operation: str, request_timeout: float | None, **options: Any) -> Any:
        return await run_async(timed(self._core, request_timeout).git(operation, options))

    async def clone(
        self,
        url: str,
        path: str | None = None,
        branch: str | None = None,
        depth: int | None = None,
        username: str | None = None,
        password: str | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
        dangerously_store_credentials: bool = False,
    ) -> CommandResult[str]:
        """Clones a repository: a branch, to a path, and no more than ``depth`` commits of it, where these are given.

        Credentials go to git through a pipe that it alone reads from, for this call and this server alone; with
        ``dangerously_store_credentials`` they are stored in the sandbox, in plain text.
        """
        options = {
            "url": url,
            "path": path,
            "branch": branch,
            "depth": depth,
            "username": username,
            "password": password,
            "dangerously_store_credentials": dangerously_store_credentials,
        }
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("clone", request_timeout, **options, **common))

    async def init(
        self,
        path: str,
        bare: bool = False,
        initial_branch: str | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> CommandResult[str]:
        """Makes a repository."""
        options = {"path": path, "bare": bare, "initial_branch": initial_branch}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("init", request_timeout, **options, **common))

    async def remote_add(
        self,
        path: str,
        name: str,
        url: str,
        fetch: bool = False,
        overwrite: bool = False,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> CommandResult[str]:
        """Adds a remote. ``overwrite``: also where there is one of this name; ``fetch``: fetches from it at once."""
        options = {"path": path, "name": name, "url": url, "fetch": fetch, "overwrite": overwrite}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("remote_add", request_timeout, **options, **common))

    async def remote_get(
        self,
        path: str,
        name: str,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> str | None:
        """The URL of a remote; ``None``: there is no such one."""
        options = {"path": path, "name": name}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        text: str | None = await self._run("remote_get", request_timeout, **options, **common)
        return text

    async def status(
        self,
        path: str,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> GitStatus:
        """What the working tree and its branch are like."""
        options = {"path": path}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_status(await self._run("status", request_timeout, **options, **common))

    async def branches(
        self,
        path: str,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> GitBranches:
        """The local branches, and which one is checked out."""
        options = {"path": path}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return GitBranches(**await self._run("branches", request_timeout, **options, **common))

    async def create_branch(
        self,
        path: str,
        branch: str,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> CommandResult[str]:
        """Makes a branch at the commit that is checked out, and checks it out."""
        options = {"path": path, "branch": branch}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("create_branch", request_timeout, **options, **common))

    async def checkout_branch(
        self,
        path: str,
        branch: str,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> CommandResult[str]:
        """Checks a branch out."""
        options = {"path": path, "branch": branch}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("checkout_branch", request_timeout, **options, **common))

    async def delete_branch(
        self,
        path: str,
        branch: str,
        force: bool = False,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> CommandResult[str]:
        """Deletes a branch; ``force``: also one that is not merged."""
        options = {"path": path, "branch": branch, "force": force}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("delete_branch", request_timeout, **options, **common))

    async def add(
        self,
        path: str,
        files: list[str] | None = None,
        all: bool = True,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> CommandResult[str]:
        """Stages files, relative to the repository. Without ``files``: all changes, with ``all=False`` those of ``path``."""
        options = {"path": path, "files": files, "all": all}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("add", request_timeout, **options, **common))

    async def commit(
        self,
        path: str,
        message: str,
        author_name: str | None = None,
        author_email: str | None = None,
        allow_empty: bool = False,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> CommandResult[str]:
        """Commits what is staged. The author's name and address belong together."""
        options = {
            "path": path,
            "message": message,
            "author_name": author_name,
            "author_email": author_email,
            "allow_empty": allow_empty,
        }
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("commit", request_timeout, **options, **common))

    async def reset(
        self,
        path: str,
        mode: GitResetMode | None = None,
        target: str | None = None,
        paths: list[str] | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> CommandResult[str]:
        """Resets the branch to ``target``, or takes ``paths`` out of what is staged."""
        options = {"path": path, "mode": mode, "target": target, "paths": paths}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("reset", request_timeout, **options, **common))

    async def restore(
        self,
        path: str,
        paths: list[str],
        staged: bool | None = None,
        worktree: bool | None = None,
        source: str | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> CommandResult[str]:
        """Restores files: in the working tree, or with ``staged`` in what is staged."""
        options = {"path": path, "paths": paths, "staged": staged, "worktree": worktree, "source": source}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("restore", request_timeout, **options, **common))

    async def push(
        self,
        path: str,
        remote: str | None = None,
        branch: str | None = None,
        set_upstream: bool = True,
        username: str | None = None,
        password: str | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> CommandResult[str]:
        """Pushes a branch.

        :raises GitUpstreamException: the branch has no upstream, and nobody said where to push to
        """
        options = {
            "path": path,
            "remote": remote,
            "branch": branch,
            "set_upstream": set_upstream,
            "username": username,
            "password": password,
        }
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("push", request_timeout, **options, **common))

    async def pull(
        self,
        path: str,
        remote: str | None = None,
        branch: str | None = None,
        username: str | None = None,
        password: str | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> CommandResult[str]:
        """Pulls a branch.

        :raises GitUpstreamException: the branch has no upstream, and nobody said where to pull from
        """
        options = {"path": path, "remote": remote, "branch": branch, "username": username, "password": password}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("pull", request_timeout, **options, **common))

    async def set_config(
        self,
        key: str,
        value: str,
        scope: str = "global",
        path: str | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> CommandResult[str]:
        """Sets a key of the configuration, such as ``pull.rebase``. ``scope``: global, system, or local with ``path``."""
        options = {"key": key, "value": value, "scope": scope, "path": path}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        return git_output(await self._run("set_config", request_timeout, **options, **common))

    async def get_config(
        self,
        key: str,
        scope: str = "global",
        path: str | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> str | None:
        """Reads a key of the configuration; ``None``: it is not set there."""
        options = {"key": key, "scope": scope, "path": path}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        text: str | None = await self._run("get_config", request_timeout, **options, **common)
        return text

    async def dangerously_authenticate(
        self,
        username: str,
        password: str,
        host: str = "github.com",
        protocol: str = "https",
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> None:
        """Stores credentials in the sandbox, in plain text, for all later calls of git to this host. Whatever runs there can
        read them.
        """
        options = {"username": username, "password": password, "host": host, "protocol": protocol}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        await self._run("dangerously_authenticate", request_timeout, **options, **common)

    async def configure_user(
        self,
        name: str,
        email: str,
        scope: str = "global",
        path: str | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> None:
        """Sets the name and address that commits carry."""
        options = {"name": name, "email": email, "scope": scope, "path": path}
        common = {"envs": envs, "user": user, "cwd": cwd, "timeout": timeout}
        await self._run("configure_user", request_timeout, **options, **common)
