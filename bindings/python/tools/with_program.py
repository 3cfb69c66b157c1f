"""Puts the ``oncebox`` program into a wheel, as a command that installers place where commands are.

    python tools/with_program.py WHEEL PROGRAM

maturin would do it too, for a folder that has to be there whenever it builds; in a source distribution it is not.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

#: An ordinary file that may be run, in the upper half of a zip entry's attributes.
_EXECUTABLE = 0o100755 << 16


def put(wheel: Path, program: Path) -> None:
    """Writes the wheel anew, with the program and a line for it in its list of files."""
    changed = wheel.with_suffix(".new")
    name, version, _ = wheel.name.split("-", 2)
    script = f"{name}-{version}.data/scripts/oncebox"
    record = f"{name}-{version}.dist-info/RECORD"
    content = program.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if entry.filename in (script, record):
                continue
            new.writestr(entry, old.read(entry))
        entry = zipfile.ZipInfo(script)
        entry.external_attr = _EXECUTABLE
        entry.compress_type = zipfile.ZIP_DEFLATED
        new.writestr(entry, content)
        # By its own rules the list is the last file.
        lines = [line for line in old.read(record).decode().splitlines() if not line.startswith(f"{script},")]
        lines.insert(-1, f"{script},sha256={digest},{len(content)}")
        new.writestr(old.getinfo(record), "\n".join(lines) + "\n")
    changed.replace(wheel)


if __name__ == "__main__":
    put(Path(sys.argv[1]), Path(sys.argv[2]))
