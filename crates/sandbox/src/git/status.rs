//! What a repository is like, read from what git says for programs.

/// A working tree and its branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GitStatus {
    /// The branch that is checked out; `None`: a commit is, and no branch.
    pub current_branch: Option<String>,
    /// The branch that it follows.
    pub upstream: Option<String>,
    /// Commits that the upstream does not have.
    pub ahead: u32,
    /// Commits that only the upstream has.
    pub behind: u32,
    /// Whether no branch is checked out.
    pub detached: bool,
    /// Files that are not as they were committed.
    pub files: Vec<GitFileStatus>,
}

/// A file that is not as it was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GitFileStatus {
    /// Its path in the repository.
    pub path: String,
    /// What is staged, by git's letter: `M` modified, `A` added, `D` deleted, `R` renamed, `C` copied, `T` another type, `U`
    /// in conflict, `.` nothing, `?` not known to git.
    pub index: char,
    /// What is changed and not staged, by the same letters.
    pub working_tree: char,
    /// What it was called before.
    pub renamed_from: Option<String>,
    /// Whether a merge left it in conflict.
    pub conflicted: bool,
}

/// Local branches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GitBranches {
    /// All of them.
    pub branches: Vec<String>,
    /// The one that is checked out, if one is and it has a commit.
    pub current_branch: Option<String>,
}

impl GitStatus {
    /// Whether nothing changed.
    pub fn is_clean(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether something is staged.
    pub fn has_staged(&self) -> bool {
        self.files.iter().any(GitFileStatus::is_staged)
    }

    /// Whether there are files that git does not know.
    pub fn has_untracked(&self) -> bool {
        self.files.iter().any(GitFileStatus::is_untracked)
    }

    /// Whether a merge left conflicts.
    pub fn has_conflicts(&self) -> bool {
        self.files.iter().any(|file| file.conflicted)
    }

    /// Reads `git status --porcelain=v2 --branch -z`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut status = Self::default();
        let mut records = text.split('\0');
        while let Some(record) = records.next() {
            match record.split_once(' ') {
                None => {}
                Some(("#", header)) => status.header(header)?,
                Some(("1", entry)) => {
                    // XY sub mH mI mW hH hI path
                    let mut fields = entry.splitn(8, ' ');
                    status.files.push(GitFileStatus::new(fields.next()?, fields.nth(6)?, None, false)?);
                }
                Some(("2", entry)) => {
                    // XY sub mH mI mW hH hI score path, and the old path in a record of its own.
                    let mut fields = entry.splitn(9, ' ');
                    let (letters, path) = (fields.next()?, fields.nth(7)?);
                    status.files.push(GitFileStatus::new(letters, path, Some(records.next()?), false)?);
                }
                Some(("u", entry)) => {
                    // XY sub m1 m2 m3 mW h1 h2 h3 path
                    let mut fields = entry.splitn(10, ' ');
                    status.files.push(GitFileStatus::new(fields.next()?, fields.nth(8)?, None, true)?);
                }
                Some(("?", path)) => status.files.push(GitFileStatus::new("??", path, None, false)?),
                Some(_) => {}
            }
        }
        Some(status)
    }

    fn header(&mut self, header: &str) -> Option<()> {
        match header.split_once(' ')? {
            ("branch.head", "(detached)") => self.detached = true,
            ("branch.head", name) => self.current_branch = Some(name.to_owned()),
            ("branch.upstream", name) => self.upstream = Some(name.to_owned()),
            ("branch.ab", counts) => {
                let (ahead, behind) = counts.split_once(' ')?;
                self.ahead = ahead.strip_prefix('+')?.parse().ok()?;
                self.behind = behind.strip_prefix('-')?.parse().ok()?;
            }
            _ => {}
        }
        Some(())
    }
}

impl GitFileStatus {
    fn new(letters: &str, path: &str, renamed_from: Option<&str>, conflicted: bool) -> Option<Self> {
        let mut letters = letters.chars();
        let (index, working_tree) = (letters.next()?, letters.next()?);
        let renamed_from = renamed_from.map(str::to_owned);
        Some(Self { path: path.to_owned(), index, working_tree, renamed_from, conflicted })
    }

    /// Whether something of it is staged.
    pub fn is_staged(&self) -> bool {
        !self.conflicted && !matches!(self.index, '.' | '?')
    }

    /// Whether git does not know it.
    pub fn is_untracked(&self) -> bool {
        self.index == '?'
    }
}

impl GitBranches {
    /// Reads a star or a space, and a name, a line.
    pub(super) fn parse(text: &str) -> Self {
        let mut branches = Self::default();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('*') {
                branches.current_branch = Some(name.to_owned());
            }
            branches.branches.push(line.get(1..).unwrap_or_default().to_owned());
        }
        branches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_whatever_files_are_called() {
        let text = "# branch.oid abc\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -1\0\
            1 .M N... 100644 100644 100644 aaa bbb a b.txt\0\
            2 R. N... 100644 100644 100644 aaa bbb R100 new\nname\0old name\0\
            u UU N... 100644 100644 100644 100644 aaa bbb ccc both\0? un tracked\0";
        let status = GitStatus::parse(text).unwrap();
        assert_eq!((status.current_branch.as_deref(), status.upstream.as_deref()), (Some("main"), Some("origin/main")));
        assert_eq!((status.ahead, status.behind, status.detached), (2, 1, false));
        let files: Vec<_> = status.files.iter().map(|f| (f.path.as_str(), f.index, f.working_tree)).collect();
        assert_eq!(
            files,
            [("a b.txt", '.', 'M'), ("new\nname", 'R', '.'), ("both", 'U', 'U'), ("un tracked", '?', '?')]
        );
        assert_eq!(status.files[1].renamed_from.as_deref(), Some("old name"));
        assert!(status.has_staged() && status.has_conflicts() && status.has_untracked() && !status.is_clean());
        assert!(GitStatus::parse("# branch.head (detached)\0").unwrap().detached);
        assert!(GitStatus::parse("1 .M\0").is_none());
    }

    #[test]
    fn branches_are_read_with_the_one_that_is_checked_out() {
        let branches = GitBranches::parse("*main\n other\n");
        assert_eq!(branches.branches, ["main", "other"]);
        assert_eq!(branches.current_branch.as_deref(), Some("main"));
        assert_eq!(GitBranches::parse(""), GitBranches::default());
    }
}
