"""What git tells of a repository: what both sides of the package have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ._command_result import CommandResult

GitResetMode = Literal["soft", "mixed", "hard", "merge", "keep"]
"""What a reset does to the index and the working tree."""

#: What a file's letters mean; of two the first one here counts.
_MEANINGS = {
    "U": "conflict",
    "R": "renamed",
    "C": "copied",
    "D": "deleted",
    "A": "added",
    "M": "modified",
    "T": "typechange",
    "?": "untracked",
}


@dataclass
class GitFileStatus:
    """A file that is not as it was committed."""

    name: str
    """Its path in the repository."""
    status: str
    """``modified``, ``added``, ``deleted``, ``renamed``, ``copied``, ``typechange``, ``untracked`` or ``conflict``."""
    index_status: str
    """What is staged, by git's letter; a space is nothing."""
    working_tree_status: str
    """What is changed and not staged, by git's letter."""
    staged: bool
    """Whether something of it is staged."""
    renamed_from: str | None = None
    """What it was called before."""


@dataclass
class GitStatus:
    """A working tree and its branch."""

    current_branch: str | None
    """The branch that is checked out; ``None``: a commit is, and no branch."""
    upstream: str | None
    """The branch that it follows."""
    ahead: int
    """Commits that the upstream does not have."""
    behind: int
    """Commits that only the upstream has."""
    detached: bool
    """Whether no branch is checked out."""
    file_status: list[GitFileStatus]
    """Files that are not as they were committed."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing changed."""
        return not self.file_status

    @property
    def has_changes(self) -> bool:
        """Whether something changed."""
        return bool(self.file_status)

    @property
    def has_staged(self) -> bool:
        """Whether something is staged."""
        return self.staged_count > 0

    @property
    def has_untracked(self) -> bool:
        """Whether there are files that git does not know."""
        return self.untracked_count > 0

    @property
    def has_conflicts(self) -> bool:
        """Whether a merge left conflicts."""
        return self.conflict_count > 0

    @property
    def total_count(self) -> int:
        """How many files changed."""
        return len(self.file_status)

    @property
    def staged_count(self) -> int:
        """How many files have something staged."""
        return sum(file.staged for file in self.file_status)

    @property
    def unstaged_count(self) -> int:
        """How many files have nothing staged."""
        return self.total_count - self.staged_count

    @property
    def untracked_count(self) -> int:
        """How many files git does not know."""
        return self._count("untracked")

    @property
    def conflict_count(self) -> int:
        """How many files a merge left in conflict."""
        return self._count("conflict")

    def _count(self, status: str) -> int:
        return sum(file.status == status for file in self.file_status)


@dataclass
class GitBranches:
    """Local branches."""

    branches: list[str]
    """All of them."""
    current_branch: str | None
    """The one that is checked out."""


def git_status(told: Mapping[str, Any]) -> GitStatus:
    """A status, as the extension module tells of it."""
    files = [_file(file) for file in told["file_status"]]
    return GitStatus(told["current_branch"], told["upstream"], told["ahead"], told["behind"], told["detached"], files)


def _file(told: Mapping[str, Any]) -> GitFileStatus:
    index, tree = told["index_status"], told["working_tree_status"]
    meanings = (meaning for letter, meaning in _MEANINGS.items() if letter in (index, tree))
    status = "conflict" if told["conflicted"] else next(meanings, "unknown")
    return GitFileStatus(told["name"], status, index, tree, told["staged"], told["renamed_from"])


def git_output(told: Mapping[str, Any]) -> CommandResult[str]:
    """What git wrote, as the extension module tells of it."""
    return CommandResult(**told)
