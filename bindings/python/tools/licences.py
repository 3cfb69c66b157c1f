"""Tells the licences of what the package needs when it runs, as JSON: name, version, licence expression."""

from __future__ import annotations

import json
import re
from importlib.metadata import metadata, requires
from pathlib import Path

#: One requirement, up to its version, its marker, or its extras.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def needed(requirements: list[str], known: dict[str, dict[str, str | None]]) -> None:
    """Adds what is required, and what that requires; extras are for those who ask for them."""
    for requirement in requirements:
        name = _NAME.match(requirement)
        if name is None or "extra ==" in requirement or name[0].lower() in known:
            continue
        about = metadata(name[0])
        licence = about["License-Expression"] or about["License"]
        known[name[0].lower()] = {"name": name[0], "version": about["Version"], "license": licence}
        needed(requires(name[0]) or [], known)


def direct() -> list[str]:
    """What pyproject.toml lists, of which there is one line. Python 3.10 has no parser of TOML."""
    text = Path("pyproject.toml").read_text()
    listed = re.search(r"^dependencies = (\[.*\])$", text, re.MULTILINE)
    if listed is None:
        raise SystemExit("pyproject.toml: there is no line of dependencies")
    return list(json.loads(listed[1]))


found: dict[str, dict[str, str | None]] = {}
needed(direct(), found)
print(json.dumps(list(found.values())))
