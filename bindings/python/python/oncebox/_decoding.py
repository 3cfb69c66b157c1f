"""Decoding of responses for those who do not do it themselves."""

from __future__ import annotations

import zlib
from typing import Protocol


class Decoder(Protocol):
    """Decodes piece by piece."""

    def feed(self, piece: bytes) -> bytes:
        """What a piece gives."""
        ...

    def end(self) -> bytes:
        """What is left at the end.

        :raises ValueError: when the end is missing.
        """
        ...


def decoder_for(encoding: str) -> Decoder | None:
    """The decoder of a `content-encoding`; ``None`` for `identity`, and for what is not known: it is handed on as it is."""
    name = encoding.strip().lower()
    if name in ("gzip", "x-gzip"):
        return _Zlib(16 + zlib.MAX_WBITS)
    if name == "deflate":
        return _Zlib(zlib.MAX_WBITS)
    if name in ("br", "zstd"):
        return _Pyqwest(name)
    return None


class _Zlib:
    def __init__(self, window: int) -> None:
        self._inner = zlib.decompressobj(window)

    def feed(self, piece: bytes) -> bytes:
        return self._inner.decompress(piece)

    def end(self) -> bytes:
        return self._inner.flush()


class _Pyqwest:
    """By pyqwest's own decoders: it is there where these are needed."""

    def __init__(self, name: str) -> None:
        from pyqwest import _pyqwest

        self._inner = _pyqwest._BrotliDecompressor() if name == "br" else _pyqwest._ZstdDecompressor()

    def feed(self, piece: bytes) -> bytes:
        return self._inner.feed(piece, end=False)

    def end(self) -> bytes:
        return self._inner.feed(b"", end=True)
