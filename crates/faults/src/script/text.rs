//! Which texts are meant.

use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which texts are meant: in JSON a text, or a list of them. A `*` at the end means "begins with".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(Vec<String>);

impl Text {
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => text.starts_with(start.as_bytes()),
            None => pattern.as_bytes() == text,
        })
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(vec![text.to_owned()])
    }
}

impl From<Vec<String>> for Text {
    fn from(texts: Vec<String>) -> Self {
        Self(texts)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [text] => serializer.serialize_str(text),
            texts => texts.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(text.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Text, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element()? {
                    texts.push(text);
                }
                Ok(Text(texts))
            }
        }
        deserializer.deserialize_any(Texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_at_the_end_means_begins_with() {
        assert!(Text::from("/a*").matches(b"/abc"));
        assert!(!Text::from("/a").matches(b"/abc"));
        assert!(Text::from(vec!["x".to_owned(), "y".to_owned()]).matches(b"y"));
    }
}
