"""Puts a file into a wheel.

    python tools/with_file.py WHEEL program|licence NAME FILE

A program becomes a command, which installers place where commands are; a licence lies with the package's own. maturin
would do it too, for folders that have to be there whenever it builds; in a source distribution they are not.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

#: Where each kind lies, below the wheel's own `NAME-VERSION`, and its mode.
_KINDS = {"program": (".data/scripts", 0o100755), "licence": (".dist-info/licenses", 0o100644)}


def put(wheel: Path, kind: str, name: str, file: Path) -> None:
    """Writes the wheel anew, with the file and a line for it in its list of files."""
    changed = wheel.with_suffix(".new")
    package = "-".join(wheel.name.split("-")[:2])
    folder, mode = _KINDS[kind]
    path, record = f"{package}{folder}/{name}", f"{package}.dist-info/RECORD"
    content = file.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if entry.filename not in (path, record):
                new.writestr(entry, old.read(entry))
        entry = zipfile.ZipInfo(path)
        # The mode is in the upper half.
        entry.external_attr = mode << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        new.writestr(entry, content)
        lines = [line for line in old.read(record).decode().splitlines() if not line.startswith(f"{path},")]
        lines.append(f"{path},sha256={digest},{len(content)}")
        # By its own rules the list is the last file.
        new.writestr(old.getinfo(record), "\n".join(lines) + "\n")
    changed.replace(wheel)


if __name__ == "__main__":
    put(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]))
