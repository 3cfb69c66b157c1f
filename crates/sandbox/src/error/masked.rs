//! Secrets that somebody else may have repeated.

use std::collections::HashSet;
use std::error::Error as StdError;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::commands::CommandOutput;

/// What stands where words were cut.
pub(super) const CUT: char = '…';

/// What stands in place of a secret.
const MASK: &str = "…";

/// Secrets of so many characters are taken out wherever they stand.
const TELLING: usize = 4;

/// Parts of a secret of so many bytes are, too: words are cut and escaped on their way, and a server may repeat a line.
const PART: usize = 8;

/// What stands for itself in a URL (RFC 3986 section 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A character as it is shown: what does harm on a terminal is escaped.
pub(super) fn shown(c: char) -> impl Iterator<Item = char> {
    // Marks that turn the direction of writing can make a text say something else.
    let harmful =
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let escaped = harmful.then(|| c.escape_default());
    escaped.into_iter().flatten().chain((!harmful).then_some(c))
}

/// A secret, in every form that it is looked for in.
pub(super) struct Secret<'a> {
    secret: &'a str,
    forms: Vec<String>,
}

impl<'a> Secret<'a> {
    pub(super) fn new(secret: &'a str) -> Self {
        let mut forms = vec![secret.to_owned(), secret.chars().flat_map(shown).collect()];
        forms.extend(literals(secret));
        for kept in [NON_ALPHANUMERIC, UNRESERVED] {
            let encoded = utf8_percent_encode(secret, kept).to_string();
            forms.extend([in_lower_case(&encoded), encoded.replace("%20", "+"), encoded]);
        }
        let entities = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];
        forms.push(entities.iter().fold(secret.to_owned(), |text, (sign, entity)| text.replace(sign, entity)));
        let lines = secret.lines().map(str::trim).filter(|line| line.chars().count() >= TELLING);
        forms.extend(lines.map(str::to_owned));
        let mut known = HashSet::new();
        forms.retain(|form| !form.is_empty() && known.insert(form.clone()));
        Self { secret, forms }
    }

    /// A text without the secret, and without what is left of it where words were cut.
    pub(super) fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for form in &self.forms {
            text = without_whole(&text, form);
            text = without_beginning(&text, form);
        }
        without_parts(&text, self.secret)
    }

    /// What a program wrote without the secret; `None`: it is not there.
    pub(super) fn masked_output(&self, output: &CommandOutput) -> Option<CommandOutput> {
        let (stdout, stderr) = (output.stdout_text(), output.stderr_text());
        let (out, err) = (self.masked(&stdout), self.masked(&stderr));
        let is_told = out != stdout || err != stderr;
        is_told.then(|| CommandOutput { stdout: out.into(), stderr: err.into(), ..output.clone() })
    }

    /// Whether an error, or what it comes of, tells it.
    pub(super) fn is_told(&self, error: &(dyn StdError + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            if [error.to_string(), format!("{error:?}")].iter().any(|text| self.masked(text) != *text) {
                return true;
            }
            next = error.source();
        }
        false
    }
}

/// As JSON has it: plainly, with the signs of HTML escaped, as Go's encoder does, and each of both in a text of JSON again.
fn literals(secret: &str) -> [String; 4] {
    let of = |text: &str| {
        let quoted = serde_json::Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let escaped = |text: &str| text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let plain = of(secret);
    let twice = of(&plain);
    [escaped(&plain), of(&escaped(&plain)), plain, twice]
}

/// What is percent-encoded, with its digits in lower case.
fn in_lower_case(encoded: &str) -> String {
    let mut digits = 0;
    let lower = |c: char| {
        let is_digit = digits > 0;
        digits = if c == '%' {
            2
        } else if is_digit {
            digits - 1
        } else {
            0
        };
        if is_digit { c.to_ascii_lowercase() } else { c }
    };
    encoded.chars().map(lower).collect()
}

/// Of a few letters it is part of many words that have nothing to do with it: it is taken out where it stands for itself, so
/// that the rest can be read.
fn without_whole(text: &str, secret: &str) -> String {
    if secret.chars().count() >= TELLING {
        return text.replace(secret, MASK);
    }
    let (mut out, mut from) = (String::new(), 0);
    for (at, _) in text.match_indices(secret) {
        let before = text[..at].chars().next_back();
        let after = text[at + secret.len()..].chars().next();
        if [before, after].into_iter().flatten().any(char::is_alphanumeric) {
            continue;
        }
        out.push_str(&text[from..at]);
        out.push_str(MASK);
        from = at + secret.len();
    }
    out + &text[from..]
}

/// Where words were cut in the middle of the secret its first characters stand before the cut.
fn without_beginning(text: &str, secret: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(CUT) {
        let ends = secret.char_indices().map(|(at, _)| at).skip(1).take_while(|at| *at <= before.len());
        let cut = ends.filter(|at| before.ends_with(&secret[..*at])).last().unwrap_or(0);
        out.push_str(&before[..before.len() - cut]);
        out.push(CUT);
        rest = after;
    }
    out + rest
}

fn without_parts(text: &str, secret: &str) -> String {
    let all: HashSet<&[u8]> = text.as_bytes().windows(PART).collect();
    let parts: HashSet<&[u8]> = secret.as_bytes().windows(PART).filter(|part| all.contains(part)).collect();
    if parts.is_empty() {
        return text.to_owned();
    }
    let mut hidden = vec![false; text.len()];
    for (at, part) in text.as_bytes().windows(PART).enumerate() {
        if parts.contains(part) {
            hidden[at..at + PART].fill(true);
        }
    }
    let (mut out, mut was_hidden) = (String::new(), false);
    for (at, c) in text.char_indices() {
        let is_hidden = hidden[at..at + c.len_utf8()].contains(&true);
        match is_hidden {
            true if !was_hidden => out.push_str(MASK),
            true => {}
            false => out.push(c),
        }
        was_hidden = is_hidden;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str, secret: &str) -> String {
        Secret::new(secret).masked(text)
    }

    #[test]
    fn a_secret_of_a_few_letters_leaves_the_rest_to_be_read() {
        for (text, secret, shown) in [
            ("could not create a secret: value \"e\" is weak", "e", "could not create a secret: value \"…\" is weak"),
            ("value=ab, not abc", "ab", "value=…, not abc"),
            ("1: 11 1", "1", "…: 11 …"),
            ("its value hunter2hunter2", "hunter2", "its value ……"),
            ("ä?", "ä", "…?"),
            ("any", "", "any"),
        ] {
            assert_eq!(masked(text, secret), shown);
        }
    }

    #[test]
    fn a_secret_is_found_as_it_was_cut_and_escaped() {
        let pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\nab12\n-----END PRIVATE KEY-----\n";
        for (text, secret, shown) in [
            (
                r"bad value -----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\nab12\n-----END PRIVATE KEY-----\n!",
                pem,
                "bad value …!",
            ),
            (r"bad value -----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w…; because", pem, "bad value …; because"),
            ("line 3 (ab12) of MIIEvQIBADANBgkq", pem, "line 3 (…) of …"),
            ("its value is hun… (retries)", "hunter2", "its value is … (retries)"),
            ("pass%3Aw%40rd", "pass:w@rd", "…"),
            ("pass%3aw%40rd", "pass:w@rd", "…"),
            ("pass%3Aw-rd", "pass:w-rd", "…"),
            ("?v=my-key%2F9_x%3D%3D!", "my-key/9_x==", "?v=…!"),
            ("v=A+b%2Bc", "A b+c", "v=…"),
            (r#"{"value":"p4\u003cZ9\u003ekk\u0026Q1!"}"#, "p4<Z9>kk&Q1!", r#"{"value":"…"}"#),
            (r#"body: "{\"value\":\"a\\\"b<c\"}""#, "a\"b<c", r#"body: "{\"value\":\"…\"}""#),
            ("<pre>p&amp;ss&quot;w</pre>", "p&ss\"w", "<pre>…</pre>"),
            (r#"value "a\"b\\c" is weak"#, "a\"b\\c", "value \"…\" is weak"),
            ("it is secret-va and not lue-12345", "secret-value-12345", "it is … and not …"),
            ("ääääää", "xääääää", "…"),
        ] {
            assert_eq!(masked(text, secret), shown, "{text}");
        }
    }

    #[test]
    fn what_a_program_wrote_and_what_an_error_comes_of_are_without_it() {
        use crate::commands::Exit;
        use crate::error::{Error, ErrorKind};

        let output = CommandOutput { stdout: "a hunter2".into(), stderr: vec![b'b', 0xff], exit: Exit::default() };
        let told = Error::new(ErrorKind::CommandFailed, "clone", "git ended with 1").with_output(output);
        let kept = told.clone().without("hunter3");
        assert_eq!(kept.output().unwrap().stdout_text(), "a hunter2");
        let error = told.without("hunter2");
        assert_eq!(error.output().unwrap().stdout_text(), "a …");
        assert!(StdError::source(&error).is_none());
        let cause =
            connectrpc::ConnectError::new(connectrpc::ErrorCode::Internal, format!("{} hunter2", "x".repeat(600)));
        let error = Error::rpc("clone", cause);
        assert!(format!("{:?}", StdError::source(&error)).contains("hunter2") && !error.to_string().contains("hunter"));
        assert!(StdError::source(&error.without("hunter2")).is_none());
    }

    #[test]
    fn what_is_printed_of_options_holds_no_secret() {
        let client = crate::Client::builder().api_key("k").api_url("http://h").sandbox_url("http://h").build().unwrap();
        let servers = serde_json::json!({"github": {"token": "hunter2"}}).as_object().unwrap().clone();
        let create = format!("{:?}", crate::Sandbox::create(&client).mcp(servers).env("A", "hunter2"));
        assert!(create.contains("github") && !create.contains("hunter2"), "{create}");
    }
}
