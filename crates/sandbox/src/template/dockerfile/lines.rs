//! The lines of a Dockerfile, joined as Docker joins them (Dockerfile reference: "escape", "Comments").

/// What a line ends with that goes on, unless the file's first lines say otherwise.
const ESCAPE: char = '\\';

/// The other directives (Dockerfile reference: "Parser directives").
const DIRECTIVES: [&str; 2] = ["syntax", "check"];

/// Each instruction on one line: without the ends of the lines that go on, and the comments and empty lines among them.
/// Empty lines follow it in place of those that it took, so that each instruction stays on the line where it began.
///
/// # Errors
///
/// The number of a line that ends with two escape characters: to Docker that is its end, to the parser it goes on.
pub(super) fn join(text: &str) -> Result<String, usize> {
    let escape = escape_of(text);
    let mut joined = String::with_capacity(text.len());
    let mut lines = text.lines();
    let mut number = 1;
    while let Some(line) = lines.next() {
        if is_comment(line) {
            joined.push_str(line);
            joined.push('\n');
            number += 1;
            continue;
        }
        let (mut rest, mut goes_on) = without_escape(line, escape);
        joined.push_str(rest);
        let mut taken = 1;
        while goes_on {
            let Some(line) = lines.next() else { break };
            taken += 1;
            if is_comment(line) || line.trim().is_empty() {
                continue;
            }
            (rest, goes_on) = without_escape(line, escape);
            joined.push_str(rest);
        }
        if !goes_on && rest.trim_end().ends_with(escape) {
            return Err(number + taken - 1);
        }
        joined.extend(std::iter::repeat_n('\n', taken));
        number += taken;
    }
    Ok(joined)
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// The line without what says that it goes on, and whether it does. One escape behind another is a character.
fn without_escape(line: &str, escape: char) -> (&str, bool) {
    match line.trim_end_matches([' ', '\t']).strip_suffix(escape) {
        Some(rest) if !rest.ends_with(escape) => (rest, true),
        _ => (line, false),
    }
}

/// What the directives say that stand before all else. What is none ends them.
pub(super) fn escape_of(text: &str) -> char {
    for line in text.lines() {
        let directive = line.trim_start().strip_prefix('#').and_then(|directive| directive.split_once('='));
        let Some((name, value)) = directive else { break };
        match name.trim() {
            name if name.eq_ignore_ascii_case("escape") => return value.trim().chars().next().unwrap_or(ESCAPE),
            name if DIRECTIVES.iter().any(|known| name.eq_ignore_ascii_case(known)) => {}
            _ => break,
        }
    }
    ESCAPE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_as_docker_joins_them() {
        for (text, joined) in [
            ("RUN a \\\n  b\nRUN c", "RUN a   b\n\nRUN c\n"),
            ("RUN a && \\\n  # why\n\n  b\n", "RUN a &&   b\n\n\n\n"),
            ("RUN a \\\n  # not the end \\\n  b \\\n#\n  c\n", "RUN a   b   c\n\n\n\n\n"),
            ("RUN a \\ \t\r\n  b\r\n", "RUN a   b\n\n"),
            ("RUN a \\\n", "RUN a \n"),
            ("RUN 'a\\\nb'", "RUN 'ab'\n\n"),
            ("RUN echo a # b \\\n c", "RUN echo a # b  c\n\n"),
            ("# a comment \\\nRUN a", "# a comment \\\nRUN a\n"),
            ("# escape=`\nRUN a\\\nRUN b `\n c", "# escape=`\nRUN a\\\nRUN b  c\n\n"),
            (
                "# syntax=docker/dockerfile:1\n# Escape = `\nRUN b `\n c",
                "# syntax=docker/dockerfile:1\n# Escape = `\nRUN b  c\n\n",
            ),
            ("# comment\n# escape=`\nRUN b `\nRUN c", "# comment\n# escape=`\nRUN b `\nRUN c\n"),
            // What is no directive ends them, as in the parser.
            ("# see a=b\n# escape=`\nRUN b `\nRUN c", "# see a=b\n# escape=`\nRUN b `\nRUN c\n"),
            ("# no=one\n# escape=`\nRUN b `\nRUN c", "# no=one\n# escape=`\nRUN b `\nRUN c\n"),
            ("#check=skip=all\n#escape=`\nRUN b `\n c", "#check=skip=all\n#escape=`\nRUN b  c\n\n"),
        ] {
            assert_eq!(join(text).as_deref(), Ok(joined), "{text:?}");
        }
        assert_eq!(join("# a\nRUN a \\\n\n# b\n c\\\\ \nRUN b"), Err(5));
    }
}
