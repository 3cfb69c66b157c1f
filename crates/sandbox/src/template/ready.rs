//! What tells that a sandbox is ready.

use std::time::Duration;

use crate::shell::quote;

/// A command that succeeds once a sandbox is ready; it is run again and again until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready(String);

impl Ready {
    /// A command of one's own.
    pub fn command(command: impl Into<String>) -> Self {
        Self(command.into())
    }

    /// Something listens on this port.
    pub fn port(port: u16) -> Self {
        // The filter is ss's own: a text's `:80` is in `:8080` too.
        Self(format!(r#"[ -n "$(ss -Htuln sport = :{port})" ]"#))
    }

    /// This URL answers with this status.
    pub fn url(url: &str, status: u16) -> Self {
        let url = quote(url);
        Self(format!(r#"curl -s -o /dev/null -w "%{{http_code}}" {url} | grep -q "{status}""#))
    }

    /// A process of this name runs.
    pub fn process(name: &str) -> Self {
        Self(format!("pgrep {} > /dev/null", quote(name)))
    }

    /// This file is there.
    pub fn file(path: &str) -> Self {
        Self(format!("[ -f {} ]", quote(path)))
    }

    /// This much time has passed, in whole seconds, one at least.
    pub fn after(time: Duration) -> Self {
        Self(format!("sleep {}", time.as_secs().max(1)))
    }

    /// The command.
    pub fn as_command(&self) -> &str {
        &self.0
    }

    pub(super) fn into_command(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_quotes() {
        assert_eq!(Ready::file("a b'c").into_command(), r#"[ -f 'a b'\''c' ]"#);
        assert_eq!(Ready::process("x; rm -r /").into_command(), "pgrep 'x; rm -r /' > /dev/null");
        assert_eq!(Ready::after(Duration::from_millis(1)).into_command(), "sleep 1");
    }
}
