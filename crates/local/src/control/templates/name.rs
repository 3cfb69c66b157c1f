//! Names of templates: `team/name:tag`, of which only the name must be there.

use crate::refusal::Refusal;

/// A name, taken apart. The one team of a local server is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemplateName {
    pub(crate) name: String,
    pub(crate) tag: Option<String>,
}

/// Longest name, and longest tag.
const MAX_LENGTH: usize = 128;

impl TemplateName {
    /// Takes a name apart, and refuses one that no template can have.
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        let (name, tag) = match text.split_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (text, None),
        };
        let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
        let letters = |text: &str, more: &[u8]| {
            let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || more.contains(&byte);
            (1..=MAX_LENGTH).contains(&text.len()) && text.bytes().all(allowed)
        };
        if !letters(name, b"-_") {
            let text = text.escape_debug();
            return Err(Refusal::bad_request(format!("'{text}' is no template's name: names have a-z, 0-9, - and _")));
        }
        if let Some(tag) = tag {
            check_tag(tag)?;
        }
        Ok(Self { name: name.to_owned(), tag: tag.map(str::to_owned) })
    }
}

/// Refuses what is no tag.
pub(super) fn check_tag(tag: &str) -> Result<(), Refusal> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    if (1..=MAX_LENGTH).contains(&tag.len()) && tag.bytes().all(allowed) {
        return Ok(());
    }
    Err(Refusal::bad_request(format!("'{}' is no tag: tags have a-z, 0-9, -, _ and .", tag.escape_debug())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let parse = |text: &str| TemplateName::parse(text).map(|name| (name.name, name.tag)).ok();
        let named = |name: &str, tag: Option<&str>| Some((name.to_owned(), tag.map(str::to_owned)));
        assert_eq!(parse("base"), named("base", None));
        assert_eq!(parse("team/my-app:v1.2"), named("my-app", Some("v1.2")));
        for bad in ["", ":v", "a b", "A", "x:", "x:Y", "../x/..", "a/"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
