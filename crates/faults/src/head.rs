//! A request's head, whichever protocol carried it.

use std::fmt;

use bytes::Bytes;

/// A header field. Its value is bytes: a proxy must pass on what it does not understand.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// In lower case.
    pub(crate) name: Bytes,
    pub(crate) value: Bytes,
}

impl Field {
    pub(crate) fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into().to_ascii_lowercase().into(), value: value.into().into() }
    }

    pub(crate) fn from_static(name: &'static str, value: &'static str) -> Self {
        Self { name: Bytes::from_static(name.as_bytes()), value: Bytes::from_static(value.as_bytes()) }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", String::from_utf8_lossy(&self.name), String::from_utf8_lossy(&self.value))
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Method, path and fields of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) authority: String,
    /// Without the pseudo-header fields.
    pub(crate) fields: Vec<Field>,
}

impl Head {
    /// From the fields of an HTTP/2 HEADERS block. The error names the rule that is broken.
    pub(crate) fn from_h2(fields: Vec<Field>) -> Result<Self, &'static str> {
        let mut head = Self::default();
        for field in fields {
            if !field.name.starts_with(b":") {
                if field.name.iter().any(u8::is_ascii_uppercase) {
                    return Err("a field name has an upper-case letter");
                }
                head.fields.push(field);
                continue;
            }
            if !head.fields.is_empty() {
                return Err("a pseudo-header field follows a regular one");
            }
            let value = String::from_utf8_lossy(&field.value).into_owned();
            match &field.name[..] {
                b":method" => head.method = value,
                b":path" => head.path = value,
                b":authority" => head.authority = value,
                b":scheme" | b":protocol" => {}
                _ => return Err("an unknown pseudo-header field"),
            }
        }
        if head.method.is_empty() {
            return Err("no :method");
        }
        Ok(head)
    }

    /// The first value of a field; the name in lower case.
    pub(crate) fn value(&self, name: &str) -> Option<&Bytes> {
        self.fields.iter().find(|field| &field.name[..] == name.as_bytes()).map(|field| &field.value)
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.value(name).map(|value| String::from_utf8_lossy(value).into_owned())
    }
}
