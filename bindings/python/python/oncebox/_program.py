"""The ``oncebox`` program that a wheel brings, wherever the installer has put it."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

_NAME = "oncebox.exe" if os.name == "nt" else "oncebox"


def find_program() -> Path | None:
    """The program that was installed with this package. A package that was built from its source has none."""
    try:
        installed = files("oncebox") or []
    except PackageNotFoundError:
        installed = []
    listed = [Path(str(file.locate())) for file in installed if file.name == _NAME]
    # Where `pip install --target` moves it, which its list does not tell.
    beside = Path(__file__).parent.parent / "bin" / _NAME
    return next((path for path in [*listed, beside] if path.is_file()), None)
