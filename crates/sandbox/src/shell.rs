//! Words for a POSIX shell.

/// A word that a shell takes as it is.
pub(crate) fn quote(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@%+=:,./-_".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_read_is_quoted_and_the_rest_is_not() {
        for (word, quoted) in [("", "''"), ("a-b/c.d", "a-b/c.d"), ("a b", "'a b'"), ("$x", "'$x'"), ("~", "'~'")] {
            assert_eq!(quote(word), quoted);
        }
        assert_eq!(quote("it's\n"), "'it'\\''s\n'");
    }
}
