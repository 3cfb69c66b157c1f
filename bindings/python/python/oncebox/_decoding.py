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
        return _Gzip()
    if name == "deflate":
        return _Zlib(zlib.MAX_WBITS)
    if name in ("br", "zstd"):
        return _Pyqwest(name)
    return None


class _Zlib:
    def __init__(self, window: int) -> None:
        self._inner = zlib.decompressobj(window)
        #: An answer without content, as to HEAD, names its encoding too, and has no end.
        self._began = False

    def feed(self, piece: bytes) -> bytes:
        self._began = self._began or bool(piece)
        try:
            return self._decompressed(piece)
        except zlib.error as error:
            raise ValueError(f"the response's content is not what its encoding says: {error}") from None

    def _decompressed(self, piece: bytes) -> bytes:
        return self._inner.decompress(piece)

    def end(self) -> bytes:
        rest = self._inner.flush()
        # zlib itself does not mind, and the part would be taken for the whole.
        if self._began and not self._inner.eof:
            raise ValueError("the response's content ends before its encoding does")
        return rest


class _Gzip(_Zlib):
    """Members one after another (RFC 1952 §2.2), the content of each in its turn."""

    def __init__(self) -> None:
        super().__init__(16 + zlib.MAX_WBITS)

    def _decompressed(self, piece: bytes) -> bytes:
        parts: list[bytes] = []
        while piece:
            if self._inner.eof:
                self._inner = zlib.decompressobj(16 + zlib.MAX_WBITS)
            parts.append(self._inner.decompress(piece))
            piece = self._inner.unused_data
        return b"".join(parts)


class _Pyqwest:
    """By pyqwest's own decoders: it is there where these are needed."""

    def __init__(self, name: str) -> None:
        from pyqwest import _pyqwest

        self._inner = _pyqwest._BrotliDecompressor() if name == "br" else _pyqwest._ZstdDecompressor()

    def feed(self, piece: bytes) -> bytes:
        return self._inner.feed(piece, end=False)

    def end(self) -> bytes:
        return self._inner.feed(b"", end=True)
