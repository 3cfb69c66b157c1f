"""Templates: built, watched, and looked after."""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import Unpack

from .. import _core
from .._build import (
    BuildInfo,
    LogEntry,
    Progress,
    TemplateBuildStatusResponse,
    TemplateTag,
    TemplateTagInfo,
    build_options,
    build_status,
)
from .._options import client_for
from .._params import ApiParams
from .._run import run_async
from .._template import (
    TemplateBase,
    TemplateClass,
)
from .._types import moment


class AsyncTemplate(TemplateBase):
    """What sandboxes are made from: a recipe, and what a server builds of it.

    .. code-block:: python

        template = AsyncTemplate().from_python_image().pip_install("numpy").set_workdir("/srv")
        built = await AsyncTemplate.build(template, "numbers", on_build_logs=default_build_logger())
        sandbox = await AsyncSandbox.create("numbers")
    """

    @classmethod
    def _client(cls, options: ApiParams) -> _core.Client:
        return client_for(cls._resolved(options))

    @classmethod
    async def build(
        cls,
        template: TemplateClass,
        name: str | None = None,
        *,
        alias: str | None = None,
        tags: list[str] | None = None,
        cpu_count: int | None = None,
        memory_mb: int | None = None,
        min_free_disk_mb: int | None = None,
        skip_cache: bool = False,
        on_build_logs: Callable[[LogEntry], None] | None = None,
        **opts: Unpack[ApiParams],
    ) -> BuildInfo:
        """Builds a template under a name, ``name`` or ``name:tag``, and waits for its end.

        ``alias`` is the old word for ``name``. ``tags`` point to the build. ``cpu_count``, ``memory_mb`` and
        ``min_free_disk_mb`` (MiB) are of its sandboxes; the server's defaults. ``skip_cache`` builds every step anew.
        ``on_build_logs`` is called with each entry of the log.

        A poll that fails is made again: a build goes on whoever watches.

        :raises BuildException: the build failed; the message has the step and the server's reason
        :raises FileUploadException: a file could not be uploaded
        """
        progress = Progress(name, alias, on_build_logs)
        options = build_options(tags, cpu_count, memory_mb, min_free_disk_mb, skip_cache, True)
        return await cls._watch(template, progress, options, opts)

    @classmethod
    async def build_in_background(
        cls,
        template: TemplateClass,
        name: str | None = None,
        *,
        alias: str | None = None,
        tags: list[str] | None = None,
        cpu_count: int | None = None,
        memory_mb: int | None = None,
        min_free_disk_mb: int | None = None,
        skip_cache: bool = False,
        on_build_logs: Callable[[LogEntry], None] | None = None,
        **opts: Unpack[ApiParams],
    ) -> BuildInfo:
        """As :meth:`build`, and does not wait for the build's end: :meth:`get_build_status` tells how far it is."""
        progress = Progress(name, alias, on_build_logs)
        options = build_options(tags, cpu_count, memory_mb, min_free_disk_mb, skip_cache, False)
        return await cls._watch(template, progress, options, opts)

    @classmethod
    async def _watch(
        cls, template: TemplateClass, progress: Progress, options: dict[str, object], opts: ApiParams
    ) -> BuildInfo:
        build = cls._client(opts).build(template._template._recipe, progress.name, options)
        progress.begin()
        try:
            while told := await run_async(build.next()):
                progress.take(told)
        finally:
            progress.end()
        return progress.result()

    @classmethod
    async def get_build_status(
        cls, build_info: BuildInfo, logs_offset: int | None = None, **opts: Unpack[ApiParams]
    ) -> TemplateBuildStatusResponse:
        """How far a build is, and at most 100 entries of its log from the ``logs_offset``-th on.

        :raises BuildException: there is no such build
        """
        client = cls._client(opts)
        told = await run_async(client.build_status(build_info.template_id, build_info.build_id, logs_offset))
        return build_status(told)

    @classmethod
    async def exists(cls, name: str, **opts: Unpack[ApiParams]) -> bool:
        """Whether a template of this name is there, also when it is another team's."""
        return await run_async(cls._client(opts).template_exists(name))

    @classmethod
    async def alias_exists(cls, alias: str, **opts: Unpack[ApiParams]) -> bool:
        """The old name of :meth:`exists`."""
        return await run_async(cls._client(opts).template_exists(alias))

    @classmethod
    async def assign_tags(cls, target_name: str, tags: str | list[str], **opts: Unpack[ApiParams]) -> TemplateTagInfo:
        """Lets tags point to the build that ``target_name`` (``name:tag``) names.

        :raises TemplateException: there is no such build
        """
        told = await run_async(cls._client(opts).assign_tags(target_name, tags))
        return TemplateTagInfo(told["build_id"], told["tags"])

    @classmethod
    async def remove_tags(cls, name: str, tags: str | list[str], **opts: Unpack[ApiParams]) -> None:
        """Removes tags from a template, by its name.

        :raises TemplateException: there is no such template
        """
        await run_async(cls._client(opts).remove_tags(name, tags))

    @classmethod
    async def get_tags(cls, template_id: str, **opts: Unpack[ApiParams]) -> list[TemplateTag]:
        """The tags of a template, by its id or name.

        :raises TemplateException: there is no such template
        """
        told = await run_async(cls._client(opts).template_tags(template_id))
        return [TemplateTag(tag["tag"], tag["build_id"], moment(tag["created_at"])) for tag in told]
