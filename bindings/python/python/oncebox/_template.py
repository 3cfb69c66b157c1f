"""Recipes of templates: what both sides of the package have in common."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from typing_extensions import Self

from . import _core
from ._file_types import CopyItem
from ._options import ClientFactory


class ReadyCmd:
    """A command that succeeds once a sandbox is ready; it is run again and again until then."""

    def __init__(self, cmd: str) -> None:
        self._cmd = cmd

    def get_cmd(self) -> str:
        """The command."""
        return self._cmd

    def __repr__(self) -> str:
        return f"ReadyCmd({self._cmd!r})"


def wait_for_port(port: int) -> ReadyCmd:
    """Ready once something listens on this port."""
    return ReadyCmd(_core.ready_command("port", port, 0))


def wait_for_url(url: str, status_code: int = 200) -> ReadyCmd:
    """Ready once this URL answers with this status."""
    return ReadyCmd(_core.ready_command("url", url, status_code))


def wait_for_process(process_name: str) -> ReadyCmd:
    """Ready once a process of this name runs."""
    return ReadyCmd(_core.ready_command("process", process_name, 0))


def wait_for_file(filename: str) -> ReadyCmd:
    """Ready once this file is there."""
    return ReadyCmd(_core.ready_command("file", filename, 0))


def wait_for_timeout(timeout: int) -> ReadyCmd:
    """Ready after so many milliseconds, counted in whole seconds, one at least."""
    return ReadyCmd(_core.ready_command("timeout", timeout, 0))


class TemplateBase(ClientFactory):
    """What a template begins with. Nothing is sent until it is built.

    ``file_context_path``: the directory that files are copied from; the folder of the calling file by default. What its
    ``.dockerignore`` and ``file_ignore_patterns`` name is left out.

    A step that makes no sense raises at once: :class:`TemplateArgumentException`, which is an
    ``InvalidArgumentException`` and a ``TemplateException``.
    """

    def __init__(
        self, file_context_path: str | Path | None = None, file_ignore_patterns: list[str] | None = None
    ) -> None:
        context = _caller_directory() if file_context_path is None else os.fspath(file_context_path)
        self._recipe = _core.Recipe(context, file_ignore_patterns or [])

    def skip_cache(self) -> Self:
        """Builds all of it anew, whatever the server has kept of earlier builds."""
        self._recipe.skip_cache(True)
        return self

    def from_debian_image(self, variant: str = "stable") -> TemplateBuilder:
        """Debian, by its version or name."""
        return self._begin("debian", variant=variant)

    def from_ubuntu_image(self, variant: str = "latest") -> TemplateBuilder:
        """Ubuntu, by its version."""
        return self._begin("ubuntu", variant=variant)

    def from_fedora_image(self, variant: str = "44") -> TemplateBuilder:
        """Fedora, by its version."""
        return self._begin("fedora", variant=variant)

    def from_alpine_image(self, variant: str = "3.24") -> TemplateBuilder:
        """Alpine Linux, by its version."""
        return self._begin("alpine", variant=variant)

    def from_arch_image(self, variant: str = "latest") -> TemplateBuilder:
        """Arch Linux."""
        return self._begin("arch", variant=variant)

    def from_python_image(self, version: str = "3") -> TemplateBuilder:
        """Python, by its version."""
        return self._begin("python", version=version)

    def from_node_image(self, variant: str = "lts") -> TemplateBuilder:
        """Node.js, by its version."""
        return self._begin("node", variant=variant)

    def from_bun_image(self, variant: str = "latest") -> TemplateBuilder:
        """Bun, by its version."""
        return self._begin("bun", variant=variant)

    def from_base_image(self) -> TemplateBuilder:
        """The provider's own base image."""
        return self._begin("base")

    def from_image(self, image: str, username: str | None = None, password: str | None = None) -> TemplateBuilder:
        """An image by its name, such as ``debian:12-slim``; with a login where its registry wants one."""
        return self._begin("image", image=image, username=username, password=password)

    def from_template(self, template: str) -> TemplateBuilder:
        """Another template, by its name, ``name:tag`` or id."""
        return self._begin("template", template=template)

    def from_dockerfile(self, dockerfile_content_or_path: str) -> TemplateBuilder:
        """A Dockerfile: its path, or its text. What has no place in a template is refused with its line:
        :class:`DockerfileSyntaxError`. ``EXPOSE``, ``VOLUME``, ``LABEL``, ``MAINTAINER``, ``HEALTHCHECK`` and
        ``STOPSIGNAL`` are passed over; an ``ADD`` of an archive, which Docker would unpack, is refused.
        """
        text = dockerfile_content_or_path
        if "\n" not in text and os.path.isfile(text):
            text = Path(text).read_text(encoding="utf-8")
        return self._begin("dockerfile", dockerfile=text)

    def from_aws_registry(self, image: str, access_key_id: str, secret_access_key: str, region: str) -> TemplateBuilder:
        """An image of Amazon's registry."""
        keys = {"access_key_id": access_key_id, "secret_access_key": secret_access_key}
        return self._begin("aws", image=image, region=region, **keys)

    def from_gcp_registry(self, image: str, service_account_json: str | dict[str, Any]) -> TemplateBuilder:
        """An image of Google's registry, with a service account: a dict, or the path of a JSON file (one that is not absolute
        starts at the context).
        """
        if isinstance(service_account_json, str):
            account = Path(self._recipe.context, service_account_json).read_text(encoding="utf-8")
        else:
            account = json.dumps(service_account_json)
        return self._begin("gcp", image=image, service_account_json=account)

    @staticmethod
    def to_json(template: TemplateClass) -> str:
        """The recipe as the protocol has it, with the hashes of what it copies, and without what logs in at a registry."""
        return json.dumps(json.loads(template._template._recipe.to_json()), indent=2)

    @staticmethod
    def to_dockerfile(template: TemplateClass) -> str:
        """The recipe as a Dockerfile. Raises for one that begins with a template, which no Dockerfile can name, and for a
        step that none can hold.
        """
        return template._template._recipe.to_dockerfile()

    def _begin(self, kind: str, **options: Any) -> TemplateBuilder:
        self._recipe.begin(kind, options)
        return TemplateBuilder(self)


class TemplateBuilder:
    """The steps of a template. Each method adds one, and returns this."""

    def __init__(self, template: TemplateBase) -> None:
        self._template = template

    def copy(
        self,
        src: str | Path | list[str | Path],
        dest: str | Path,
        force_upload: Literal[True] | None = None,
        user: str | None = None,
        mode: int | None = None,
        resolve_symlinks: bool | None = None,
        gzip: bool | None = None,
    ) -> TemplateBuilder:
        """Copies paths or globs below the context. Of a directory its content is copied.

        ``force_upload`` sends them even if the server has them; ``mode``: their permissions, such as ``0o755``;
        ``resolve_symlinks`` copies what links lead to in place of the links; ``gzip``: whether the upload is compressed (it
        is by default).
        """
        options = {"force_upload": force_upload, "resolve_symlinks": resolve_symlinks, "gzip": gzip}
        return self._step("copy", src=src, dest=dest, user=user, mode=mode, **options)

    def copy_items(self, items: list[CopyItem]) -> TemplateBuilder:
        """Copies several things, each with options of its own."""
        for item in items:
            more = {"force_upload": item.get("forceUpload"), "resolve_symlinks": item.get("resolveSymlinks")}
            rest = {name: item.get(name) for name in ("user", "mode", "gzip")}
            self._step("copy", src=item["src"], dest=item["dest"], **more, **rest)
        return self

    def remove(
        self, path: str | Path | list[str | Path], force: bool = False, recursive: bool = False, user: str | None = None
    ) -> TemplateBuilder:
        """Removes paths. ``force``: missing ones are fine; ``recursive``: directories with all below them."""
        return self._step("remove", path=path, force=force, recursive=recursive, user=user)

    def rename(
        self, src: str | Path, dest: str | Path, force: bool = False, user: str | None = None
    ) -> TemplateBuilder:
        """Renames a path. ``force``: what is there already makes room."""
        return self._step("rename", src=src, dest=dest, force=force, user=user)

    def make_dir(
        self, path: str | Path | list[str | Path], mode: int | None = None, user: str | None = None
    ) -> TemplateBuilder:
        """Makes directories with their parents."""
        return self._step("make_dir", path=path, mode=mode, user=user)

    def make_symlink(
        self, src: str | Path, dest: str | Path, user: str | None = None, force: bool = False
    ) -> TemplateBuilder:
        """Makes a symbolic link at ``dest`` that leads to ``src``."""
        return self._step("make_symlink", src=src, dest=dest, user=user, force=force)

    def run_cmd(self, command: str | list[str], user: str | None = None) -> TemplateBuilder:
        """Runs a line in a shell; of several, each if the one before succeeded."""
        return self._step("run", command=command, user=user)

    def set_workdir(self, workdir: str | Path) -> TemplateBuilder:
        """Where the next steps, and the commands of its sandboxes, run."""
        return self._step("workdir", workdir=workdir)

    def set_user(self, user: str) -> TemplateBuilder:
        """Whom the next steps, and the commands of its sandboxes, run as."""
        return self._step("user", user=user)

    def set_envs(self, envs: dict[str, str]) -> TemplateBuilder:
        """Environment variables of the next steps and of its sandboxes."""
        return self._step("envs", envs=envs)

    def pip_install(self, packages: str | list[str] | None = None, g: bool = True) -> TemplateBuilder:
        """Installs Python packages, for everybody or (``g=False``) for the user; none: the project in the working directory."""
        return self._step("pip", packages=packages, g=g)

    def npm_install(
        self, packages: str | list[str] | None = None, g: bool | None = False, dev: bool | None = False
    ) -> TemplateBuilder:
        """Installs Node packages for the project in the working directory, for its developers, or for everybody."""
        return self._step("npm", packages=packages, g=g, dev=dev)

    def bun_install(
        self, packages: str | list[str] | None = None, g: bool | None = False, dev: bool | None = False
    ) -> TemplateBuilder:
        """Installs packages by Bun for the project in the working directory, for its developers, or for everybody."""
        return self._step("bun", packages=packages, g=g, dev=dev)

    def apt_install(
        self, packages: str | list[str], no_install_recommends: bool = False, fix_missing: bool = False
    ) -> TemplateBuilder:
        """Installs Debian packages."""
        options = {"no_install_recommends": no_install_recommends, "fix_missing": fix_missing}
        return self._step("apt", packages=packages, **options)

    def git_clone(
        self,
        url: str,
        path: str | Path | None = None,
        branch: str | None = None,
        depth: int | None = None,
        user: str | None = None,
    ) -> TemplateBuilder:
        """Clones a repository: a branch, to a path, and no more than ``depth`` commits of it, where these are given. A URL with
        credentials is refused: the template and the build's log would have them.
        """
        return self._step("git_clone", url=url, path=path, branch=branch, depth=depth, user=user)

    def add_mcp_server(self, servers: str | list[str]) -> TemplateBuilder:
        """Adds servers to the MCP gateway of a template that begins with the template ``mcp-gateway``."""
        return self._step("mcp", servers=servers)

    def beta_dev_container_prebuild(self, devcontainer_directory: str | Path) -> TemplateBuilder:
        """Builds a development container. The template must begin with the template ``devcontainer``."""
        return self._step("dev_container", directory=devcontainer_directory)

    def beta_set_dev_container_start(self, devcontainer_directory: str | Path) -> TemplateFinal:
        """Has sandboxes start with a development container."""
        self._template._recipe.start_dev_container(devcontainer_directory)
        return TemplateFinal(self._template)

    def skip_cache(self) -> TemplateBuilder:
        """Builds the steps from here on anew, whatever the server has kept of earlier builds."""
        self._template._recipe.skip_cache(False)
        return self

    def set_start_cmd(self, start_cmd: str, ready_cmd: str | ReadyCmd) -> TemplateFinal:
        """What its sandboxes start with, and what tells that this is ready."""
        self._template._recipe.start(start_cmd, _ready(ready_cmd))
        return TemplateFinal(self._template)

    def set_ready_cmd(self, ready_cmd: str | ReadyCmd) -> TemplateFinal:
        """What tells that a sandbox is ready."""
        self._template._recipe.start(None, _ready(ready_cmd))
        return TemplateFinal(self._template)

    def _step(self, kind: str, **options: Any) -> Self:
        self._template._recipe.step(kind, options)
        return self


class TemplateFinal:
    """A template that is complete."""

    def __init__(self, template: TemplateBase) -> None:
        self._template = template


TemplateClass = TemplateFinal | TemplateBuilder
"""What can be built."""


def _ready(command: str | ReadyCmd) -> str:
    return command.get_cmd() if isinstance(command, ReadyCmd) else command


def _caller_directory() -> str:
    """The folder of the file whose code called this package; the working directory where there is none."""
    frame: FrameType | None = sys._getframe(1)
    package = __name__.partition(".")[0]
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == package:
        frame = frame.f_back
    file = frame.f_code.co_filename if frame is not None else ""
    return os.path.dirname(os.path.abspath(file)) if os.path.isfile(file) else os.getcwd()
