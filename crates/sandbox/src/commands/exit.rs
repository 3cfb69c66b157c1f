//! How commands end, and what they wrote until then.

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// Its exit code; -1 when a signal ended it.
    pub code: i32,
    /// Whether it exited by itself, rather than by a signal.
    pub exited: bool,
    /// The same in words, such as "exit status 7" or "signal: killed".
    pub status: String,
    /// What went wrong besides the exit code, if anything did.
    pub error: Option<String>,
    /// It was killed, and not before its `timeout` had passed.
    pub timed_out: bool,
    /// Processes that it started go on, and hold its output open. What they write from now on is not told. Durable commands
    /// only.
    pub left_behind: bool,
}

impl Exit {
    /// Whether it exited with 0.
    pub fn success(&self) -> bool {
        self.exited && self.code == 0
    }

    /// The signal that ended it, from envd's words (protocol fact: those of Go's `ProcessState`).
    pub fn signal(&self) -> Option<u8> {
        let name = self.status.strip_prefix("signal: ").filter(|_| !self.exited)?;
        let name = name.strip_suffix(" (core dumped)").unwrap_or(name);
        match SIGNALS.iter().find(|(_, known)| *known == name) {
            Some((number, _)) => Some(*number),
            // "signal 34" for those without a name.
            None => name.strip_prefix("signal ")?.parse().ok(),
        }
    }

    /// The end of a command, as a shell tells it: 128 + n stands for signal n.
    pub(super) fn of_shell_status(status: u8) -> Self {
        match status.checked_sub(128).filter(|signal| (1..=64).contains(signal)) {
            Some(signal) => {
                let known = SIGNALS.iter().find(|(number, _)| *number == signal);
                let name = known.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned());
                let status = format!("signal: {name}");
                Self { code: -1, error: Some(status.clone()), status, ..Self::default() }
            }
            None => {
                let words = format!("exit status {status}");
                let error = (status != 0).then(|| words.clone());
                Self { code: i32::from(status), exited: true, status: words, error, ..Self::default() }
            }
        }
    }
}

/// Signals by the names that envd gives them.
const SIGNALS: [(u8, &str); 19] = [
    (1, "hangup"),
    (2, "interrupt"),
    (3, "quit"),
    (4, "illegal instruction"),
    (5, "trace/breakpoint trap"),
    (6, "aborted"),
    (7, "bus error"),
    (8, "floating point exception"),
    (9, "killed"),
    (10, "user defined signal 1"),
    (11, "segmentation fault"),
    (12, "user defined signal 2"),
    (13, "broken pipe"),
    (14, "alarm clock"),
    (15, "terminated"),
    (24, "CPU time limit exceeded"),
    (25, "file size limit exceeded"),
    (29, "I/O possible"),
    (31, "bad system call"),
];

/// A command's whole output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutput {
    /// What it wrote to standard output, or to its terminal.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// How it ended.
    pub exit: Exit,
}

impl CommandOutput {
    /// Standard output as text; what is not UTF-8 is replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text; what is not UTF-8 is replaced.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Its exit code; -1 when a signal ended it.
    pub fn exit_code(&self) -> i32 {
        self.exit.code
    }

    /// Whether it exited with 0.
    pub fn success(&self) -> bool {
        self.exit.code == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_words(status: &str) -> Exit {
        Exit { code: -1, status: status.to_owned(), ..Exit::default() }
    }

    #[test]
    fn signals_are_told_by_envds_words_and_by_a_shells_status() {
        assert_eq!(of_words("signal: killed").signal(), Some(9));
        assert_eq!(of_words("signal: segmentation fault (core dumped)").signal(), Some(11));
        assert_eq!(of_words("signal: signal 34").signal(), Some(34));
        assert_eq!(of_words("signal: of another world").signal(), None);
        assert_eq!(
            Exit::of_shell_status(137),
            Exit { error: Some("signal: killed".into()), ..of_words("signal: killed") }
        );
        assert_eq!(Exit::of_shell_status(128 + 34).signal(), Some(34));
        for code in [0, 7, 128, 255] {
            let exit = Exit::of_shell_status(code);
            assert_eq!((exit.code, exit.exited, exit.signal()), (i32::from(code), true, None));
            assert_eq!((exit.success(), exit.status), (code == 0, format!("exit status {code}")));
        }
    }
}
