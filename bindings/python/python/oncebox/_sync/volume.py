# Written by tools/twin.py from _async/volume.py: change it there.
"""Volumes: folders that outlive sandboxes, can be mounted into several, and be read and written without any."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import closing
from typing import IO, Any, Literal, overload

from typing_extensions import Self, Unpack

from .. import _core
from .._checks import one_of
from .._command_result import encoded
from .._either import either
from .._options import ClientFactory, client_for
from .._params import OF_CONTROL_PLANE, ApiParams
from .._pieces import pieces_sync
from .._run import run_sync
from .._volume import (
    VolumeAndToken,
    VolumeApiParams,
    VolumeContent,
    VolumeEntryStat,
    VolumeInfo,
    volume_entry,
)
from ._reading import Pieces


class Volume(VolumeContent, ClientFactory):
    """A volume. Its files are read and written without a sandbox; sandboxes mount it by its name.

    .. code-block:: python

        volume = Volume.create("data")
        volume.write_file("/in.txt", "hello")
        sandbox = Sandbox.create(volume_mounts={"/mnt/data": volume})

    Calls about its content take :class:`VolumeApiParams`. A call whose answer is lost, and which cannot be repeated without a
    further effect, raises :class:`OutcomeUnknownException`.
    """

    @classmethod
    def _client(cls, options: ApiParams) -> _core.Client:
        return client_for(cls._resolved(options))

    @classmethod
    def _of(cls, core: _core.Volume, options: ApiParams) -> Self:
        volume = cls(core.id, core.name, core.token, core.domain)
        resolved = cls._resolved(options)
        volume._content_options = {name: of for name, of in resolved.items() if name not in OF_CONTROL_PLANE}
        return volume

    @classmethod
    def create(cls, name: str, **opts: Unpack[ApiParams]) -> Self:
        """Makes an empty volume. Its name has letters, digits, ``-`` and ``_``, and is no other volume's.

        Where the answer is lost, a volume that has this name since the call began, and into which nobody has put anything, is
        the answer. When that cannot be told, the exception has :attr:`~Evidence.candidates`.

        :raises VolumeException: the name is taken
        """
        return cls._of(run_sync(cls._client(opts).create_volume(name)), opts)

    @classmethod
    def connect(cls, volume_id: str, **opts: Unpack[ApiParams]) -> Self:
        """Opens a volume by its id.

        :raises VolumeNotFoundException: there is no such one
        """
        return cls._of(run_sync(cls._client(opts).connect_volume(volume_id)), opts)

    @classmethod
    def destroy(cls, volume_id: str, **opts: Unpack[ApiParams]) -> bool:
        """Deletes a volume with all that is in it; ``False``: there is no such one (any more)."""
        return run_sync(cls._client(opts).destroy_volume(volume_id))

    def _info_of_class(_cls: Any, volume_id: str, **opts: Unpack[ApiParams]) -> VolumeAndToken:
        """Describes a volume by its id.

        :raises VolumeNotFoundException: there is no such one
        """
        core = run_sync(_client_of(_cls, opts).connect_volume(volume_id))
        return VolumeAndToken(core.id, core.name, core.token, core.domain)

    def _info_of_path(self, path: str, **opts: Unpack[VolumeApiParams]) -> VolumeEntryStat:
        """Describes a path; of the class: a volume, by its id.

        :raises VolumePathNotFoundException: it does not exist
        """
        return volume_entry(run_sync(self._content(opts).entry(path)))

    get_info = either(_info_of_class, _info_of_path)

    def _list_of_class(_cls: Any, **opts: Unpack[ApiParams]) -> builtins.list[VolumeInfo]:
        """All volumes."""
        told = run_sync(_client_of(_cls, opts).volumes())
        return [VolumeInfo(volume_id, name) for volume_id, name in told]

    def _list_of_path(
        self, path: str, depth: int | None = None, **opts: Unpack[VolumeApiParams]
    ) -> builtins.list[VolumeEntryStat]:
        """The entries of a directory and of ``depth - 1`` levels below; of the class: all volumes.

        :raises VolumePathNotFoundException: there is no such directory
        """
        return [volume_entry(told) for told in run_sync(self._content(opts).list(path, depth))]

    list = either(_list_of_class, _list_of_path)

    def make_dir(
        self,
        path: str,
        uid: int | None = None,
        gid: int | None = None,
        mode: int | None = None,
        force: bool | None = None,
        **opts: Unpack[VolumeApiParams],
    ) -> VolumeEntryStat:
        """Makes a directory. ``force`` makes parents too, and accepts one that is there already.

        :raises VolumeException: it is there already
        :raises VolumePathNotFoundException: its parent is not there
        """
        options = {"uid": uid, "gid": gid, "mode": mode, "force": force}
        return volume_entry(run_sync(self._content(opts).make_dir(path, options)))

    def exists(self, path: str, **opts: Unpack[VolumeApiParams]) -> bool:
        """Whether a path exists."""
        return run_sync(self._content(opts).exists(path))

    def update_metadata(
        self,
        path: str,
        uid: int | None = None,
        gid: int | None = None,
        mode: int | None = None,
        **opts: Unpack[VolumeApiParams],
    ) -> VolumeEntryStat:
        """Changes the owner, group or permissions of a path.

        :raises VolumePathNotFoundException: it does not exist
        """
        options = {"uid": uid, "gid": gid, "mode": mode}
        return volume_entry(run_sync(self._content(opts).update_metadata(path, options)))

    @overload
    def read_file(
        self,
        path: str,
        format: Literal["text"] = "text",
        stream_idle_timeout: float | None = None,
        **opts: Unpack[VolumeApiParams],
    ) -> str: ...
    @overload
    def read_file(
        self,
        path: str,
        format: Literal["bytes"],
        stream_idle_timeout: float | None = None,
        **opts: Unpack[VolumeApiParams],
    ) -> bytes: ...
    @overload
    def read_file(
        self,
        path: str,
        format: Literal["stream"],
        stream_idle_timeout: float | None = None,
        **opts: Unpack[VolumeApiParams],
    ) -> Iterator[bytes]: ...
    def read_file(
        self,
        path: str,
        format: Literal["text", "bytes", "stream"] = "text",
        stream_idle_timeout: float | None = None,
        **opts: Unpack[VolumeApiParams],
    ) -> str | bytes | Iterator[bytes]:
        """Reads a file: as text (UTF-8), as bytes (up to 1 GiB), or as a stream in bounded memory.

        ``stream_idle_timeout``: seconds without a byte after which a stream is given up; 0 is never. Default 60.

        :raises VolumePathNotFoundException: there is no such file
        """
        one_of("format", format, ("text", "bytes", "stream"))
        core = self._content(opts)
        if format == "stream":
            idle = 60 if stream_idle_timeout is None else stream_idle_timeout
            return Pieces(run_sync(core.stream_file(path, idle)))
        data = run_sync(core.read_file(path))
        return data if format == "bytes" else data.decode("utf-8", "replace")

    def write_file(
        self,
        path: str,
        data: str | bytes | IO[str] | IO[bytes],
        uid: int | None = None,
        gid: int | None = None,
        mode: int | None = None,
        force: bool | None = None,
        **opts: Unpack[VolumeApiParams],
    ) -> VolumeEntryStat:
        """Writes a file, which takes the place of what was there. An open file is read in pieces while it is sent, and stays
        open. ``force`` makes parents too.

        :raises VolumePathNotFoundException: its parent is not there
        :raises NotEnoughSpaceException: there is no room
        """
        core, options = self._content(opts), {"uid": uid, "gid": gid, "mode": mode, "force": force}
        if isinstance(data, (str, bytes, bytearray, memoryview)):
            return volume_entry(run_sync(core.write_file(path, encoded(data), options)))
        writing = core.begin_write(path, options)
        try:
            with closing(pieces_sync(data)) as pieces:
                for piece in pieces:
                    if not run_sync(writing.send(piece)):
                        break
        except BaseException:
            writing.cancel()
            raise
        return volume_entry(run_sync(writing.finish()))

    def remove(self, path: str, **opts: Unpack[VolumeApiParams]) -> None:
        """Removes a file, or a directory with all below it.

        :raises VolumePathNotFoundException: it does not exist
        """
        run_sync(self._content(opts).remove(path))


def _client_of(owner: type[Volume], options: ApiParams) -> _core.Client:
    return owner._client(options)
