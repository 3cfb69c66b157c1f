# Written by tools/twin.py from _async/filesystem.py: change it there.
"""Files of a sandbox."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Literal, cast, overload

from .. import _core
from .. import _file_types as t
from .._checks import one_of
from .._options import timed
from .._pieces import pieces_sync
from .._run import run_sync
from .._watch_base import WatchBase
from ._reading import Pieces


class Filesystem(WatchBase):
    """The files of a sandbox. Relative paths start at the user's home.

    ``user`` is whose home that is, whose permissions count, and to whom what is written belongs; the sandbox's default
    user by default. ``request_timeout`` is the deadline of a call in seconds.
    """

    def __init__(self, core: _core.Sandbox) -> None:
        self._core = core

    @overload
    def read(
        self,
        path: str,
        format: Literal["text"] = "text",
        user: str | None = None,
        request_timeout: float | None = None,
        gzip: bool = False,
        stream_idle_timeout: float | None = None,
    ) -> str: ...
    @overload
    def read(
        self,
        path: str,
        format: Literal["bytes"],
        user: str | None = None,
        request_timeout: float | None = None,
        gzip: bool = False,
        stream_idle_timeout: float | None = None,
    ) -> bytearray: ...
    @overload
    def read(
        self,
        path: str,
        format: Literal["stream"],
        user: str | None = None,
        request_timeout: float | None = None,
        gzip: bool = False,
        stream_idle_timeout: float | None = None,
    ) -> Iterator[bytes]: ...
    def read(
        self,
        path: str,
        format: Literal["text", "bytes", "stream"] = "text",
        user: str | None = None,
        request_timeout: float | None = None,
        gzip: bool = False,
        stream_idle_timeout: float | None = None,
    ) -> str | bytearray | Iterator[bytes]:
        """Reads a file. A connection that is cut is made up for, where the file is still the same.

        :param format: ``text`` and ``bytes`` are read whole, up to 1 GiB; ``stream`` in bounded memory
        :param gzip: has no effect: what is sent as it is can be resumed
        :param stream_idle_timeout: seconds without a byte after which a stream is given up; 60 by default
        :raises FileNotFoundException: there is no such file
        """
        one_of("format", format, ("text", "bytes", "stream"))
        core = timed(self._core, request_timeout)
        if format == "stream":
            return Pieces(run_sync(core.stream_file(path, user, stream_idle_timeout)))
        read = run_sync(core.read_file(path, user))
        return bytearray(read) if format == "bytes" else read.decode(errors="replace")

    def write(
        self,
        path: str,
        data: t.WriteData,
        user: str | None = None,
        request_timeout: float | None = None,
        gzip: bool = False,
        use_octet_stream: bool | None = None,
        metadata: dict[str, str] | None = None,
    ) -> t.WriteInfo:
        """Writes a file, in place of what was there; parents are made. Its size is checked afterwards.

        :param data: text, bytes, an open file (which stays open), or pieces (which are closed when they are not needed
            any more). What is read as it is sent is sent again only where nothing of it was processed
        :param gzip: compresses what is sent
        :param use_octet_stream: sends it as it is (``True``) or in a form; what the sandbox takes by default
        :param metadata: kept with the file
        :raises NotEnoughSpaceException: the sandbox's disk is full
        """
        core = timed(self._core, request_timeout)
        options = {"user": user, "gzip": gzip, "use_octet_stream": use_octet_stream, "metadata": metadata}
        if isinstance(data, (str, bytes, bytearray, memoryview)):
            whole = data.encode() if isinstance(data, str) else bytes(data)
            return t.write_info(run_sync(core.write_file(path, whole, options)))
        upload = core.upload(path, options)
        try:
            with closing(pieces_sync(data)) as pieces:
                for piece in pieces:
                    if not run_sync(upload.send(piece)):
                        break
        except BaseException:
            # What has come of it must not become the file.
            upload.abort()
            raise
        return t.write_info(run_sync(upload.finish()))

    def write_files(
        self,
        files: Sequence[t.WriteEntry],
        user: str | None = None,
        request_timeout: float | None = None,
        gzip: bool = False,
        use_octet_stream: bool | None = None,
        metadata: dict[str, str] | None = None,
    ) -> builtins.list[t.WriteInfo]:
        """Writes files, in as few requests as they fit into.

        :param files: each a dict of ``path`` and ``data``
        :param metadata: kept with each of them
        :returns: what was written, in the order of ``files``
        """
        if not files:
            return []
        whole = [entry for entry in files if isinstance(entry["data"], (str, bytes, bytearray, memoryview))]
        if len(whole) < len(files) or gzip or use_octet_stream is not None:
            return [
                self.write(entry["path"], entry["data"], user, request_timeout, gzip, use_octet_stream, metadata)
                for entry in files
            ]
        pairs: builtins.list[tuple[str, bytes]] = []
        for entry in files:
            data = cast("str | bytes", entry["data"])
            pairs.append((entry["path"], data.encode() if isinstance(data, str) else bytes(data)))
        core = timed(self._core, request_timeout)
        told = run_sync(core.write_files(pairs, {"user": user, "metadata": metadata}))
        return [t.write_info(one) for one in told]

    def list(
        self, path: str, depth: int | None = 1, user: str | None = None, request_timeout: float | None = None
    ) -> builtins.list[t.EntryInfo]:
        """Lists a directory: its entries and those ``depth - 1`` levels below."""
        core = timed(self._core, request_timeout)
        told = run_sync(core.list_files(path, 1 if depth is None else depth, user))
        return [t.entry_info(one) for one in told]

    def exists(self, path: str, user: str | None = None, request_timeout: float | None = None) -> bool:
        """Whether a path exists."""
        return run_sync(timed(self._core, request_timeout).file_exists(path, user))

    def get_info(self, path: str, user: str | None = None, request_timeout: float | None = None) -> t.EntryInfo:
        """Describes a path.

        :raises FileNotFoundException: it does not exist
        """
        return t.entry_info(run_sync(timed(self._core, request_timeout).file_info(path, user)))

    def remove(self, path: str, user: str | None = None, request_timeout: float | None = None) -> None:
        """Removes a path with all below it. A missing path is a success."""
        run_sync(timed(self._core, request_timeout).remove_file(path, user))

    def rename(
        self, old_path: str, new_path: str, user: str | None = None, request_timeout: float | None = None
    ) -> t.EntryInfo:
        """Renames a path; the parents of the new one are made.

        :raises FileNotFoundException: the old path does not exist
        """
        renamed = timed(self._core, request_timeout).rename_file(old_path, new_path, user)
        return t.entry_info(run_sync(renamed))

    def make_dir(self, path: str, user: str | None = None, request_timeout: float | None = None) -> bool:
        """Makes a directory with its parents.

        :returns: ``False``: it was there already
        """
        return run_sync(timed(self._core, request_timeout).make_dir(path, user))
