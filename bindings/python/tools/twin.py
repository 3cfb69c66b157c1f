"""Writes the synchronous half of the package from the asynchronous one.

    python tools/twin.py            write python/oncebox/_sync from python/oncebox/_async
    python tools/twin.py --check    fail if it is not what would be written

A file is changed token by token: `await` and `async` go, and names are put in the place of others by :data:`NAMES`. What
differs on the two sides is in modules of its own. Needs `ruff`, which lays the result out.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "oncebox"
SOURCE, TWIN = PACKAGE / "_async", PACKAGE / "_sync"

HEADER = "# Written by tools/twin.py from _async/{name}: change it there.\n"

#: Names that are others on the synchronous side. A name that begins with `Async` loses that by itself.
NAMES = {
    "run_async": "run_sync",
    "call_async": "call_sync",
    "turn_async": "turn_sync",
    "pieces_async": "pieces_sync",
    "shielded_async": "shielded_sync",
    "_async": "_sync",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
    "aclosing": "closing",
    "AsyncIterable": "Iterable",
    "AsyncIterator": "Iterator",
    "AsyncGenerator": "Generator",
    "StopAsyncIteration": "StopIteration",
    # Of httpx.
    "AsyncByteStream": "SyncByteStream",
    "aread": "read",
    "close_async": "close_sync",
    "handle_async_request": "handle_request",
    "sleep_async": "sleep_sync",
}


def twin(source: str) -> str:
    """The synchronous text of an asynchronous one."""
    text: list[str] = []
    row, column = 1, 0
    skip_space = False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.ENDMARKER:
            break
        if token.start[0] > row:
            # Continued lines: what is between tokens is white space and backslashes.
            row, column = token.start[0], 0
        lines = source.splitlines(keepends=True)
        if token.type not in (tokenize.INDENT, tokenize.DEDENT):
            between = lines[row - 1][column : token.start[1]] if row <= len(lines) else ""
            text.append("" if skip_space else between)
            skip_space = False
            if token.type == tokenize.NAME and token.string in ("async", "await"):
                skip_space = True
            elif token.type == tokenize.NAME:
                text.append(name(token.string))
            elif token.type in (tokenize.STRING, tokenize.COMMENT):
                text.append(words(token.string))
            else:
                text.append(token.string)
            row, column = token.end
            if token.type in (tokenize.NEWLINE, tokenize.NL):
                row, column = token.end[0] + 1, 0
    return "".join(text)


def name(word: str) -> str:
    """A name on the synchronous side."""
    if word in NAMES:
        return NAMES[word]
    if word.startswith("Async") and len(word) > 5 and word[5].isupper():
        return word[5:]
    return word


def words(text: str) -> str:
    """A docstring or comment on the synchronous side."""
    text = re.sub(r"\bawait ", "", text)
    text = re.sub(r"\basync (?=with|for|def)", "", text)
    return re.sub(r"\b\w+\b", lambda word: name(word.group()), text)


def laid_out(text: str, path: Path) -> str:
    """As `ruff` lays it out, imports sorted."""
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"],
            input=text,
            capture_output=True,
            text=True,
            cwd=PACKAGE.parent.parent,
        )
        if done.returncode != 0:
            raise SystemExit(f"ruff {' '.join(command)} of {path.name}: {done.stderr}")
        text = done.stdout
    return text


def main(arguments: list[str]) -> int:
    """What the command does; its exit code."""
    check = arguments == ["--check"]
    if arguments and not check:
        print(__doc__)
        return 2
    wanted = {
        path.name: laid_out(HEADER.format(name=path.name) + twin(path.read_text()), TWIN / path.name)
        for path in sorted(SOURCE.glob("*.py"))
    }
    stale = [path for path in sorted(TWIN.glob("*.py")) if path.name not in wanted]
    wrong = [name for name, text in wanted.items() if not (TWIN / name).exists() or (TWIN / name).read_text() != text]
    if check:
        for name in [*wrong, *(path.name for path in stale)]:
            print(f"_sync/{name} is not what _async/{name} says: run python tools/twin.py")
        return 1 if wrong or stale else 0
    TWIN.mkdir(exist_ok=True)
    for path in stale:
        path.unlink()
    for name, text in wanted.items():
        (TWIN / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
