"""Options of the HTTP layer, checked before anything is sent. Each error names the option."""

from __future__ import annotations

import os
from typing import Any

from .exceptions import InvalidArgumentException

#: The longest time an option may name: what fits 32 bits of seconds.
_MAX_SECONDS = 2**31 - 1


def whole_number(name: str, value: Any, *, least: int = 0, most: int | None = None) -> int:
    """A whole number. ``True`` is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        up_to = "" if most is None else f" to {most}"
        raise InvalidArgumentException(f"{name}: {value!r} is not a whole number from {least}{up_to}")
    return value


def seconds(name: str, value: Any) -> float:
    """A number of seconds. ``True`` is none."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _MAX_SECONDS:
        raise InvalidArgumentException(f"{name}: {value!r} is not a number of seconds from 0 to {_MAX_SECONDS}")
    return float(value)


def fraction(name: str, value: Any) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidArgumentException(f"{name}: {value!r} is not a fraction from 0 to 1")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """``True`` or ``False`` and nothing else."""
    if not isinstance(value, bool):
        raise InvalidArgumentException(f"{name}: {value!r} is neither True nor False")
    return value


def text(name: str, value: Any) -> str:
    """A ``str``. The value is not shown: it may be a secret."""
    if not isinstance(value, str):
        raise InvalidArgumentException(f"{name}: a str is wanted, not {type(value).__name__}")
    return value


def path(name: str, value: Any) -> str:
    """A path, as a ``str``."""
    if not isinstance(value, (str, os.PathLike)):
        raise InvalidArgumentException(f"{name}: a path is wanted, not {type(value).__name__}")
    return text(name, os.fspath(value))


def one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    """One of these words."""
    if value not in known:
        raise InvalidArgumentException(f"{name}: {value!r} is none of {', '.join(map(repr, known))}")
    found: str = value
    return found
