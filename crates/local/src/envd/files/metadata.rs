//! What is kept with a file besides its bytes: `X-Metadata-<key>` headers, as extended attributes `user.e2b.<key>`.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use http::HeaderMap;
use rustix::fs::XattrFlags;

/// Before a key in a header, and in an attribute's name.
const HEADER: &str = "x-metadata-";
const ATTRIBUTE: &str = "user.e2b.";
/// Longest key: what leaves of the 255 bytes of an attribute's name.
const MAX_KEY: usize = 246;
/// Most bytes of keys and values of one file: less than what fits into an attribute on common file systems.
const MAX_TOTAL: usize = 4096;

/// The metadata of one file.
pub(in crate::envd) type Metadata = BTreeMap<String, String>;

/// The metadata that a request carries.
pub(super) fn of(headers: &HeaderMap) -> Result<Metadata, String> {
    let mut metadata = Metadata::new();
    let mut total = 0;
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(HEADER) else { continue };
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(format!("the key of {name} has {} bytes: 1 to {MAX_KEY} can be kept", key.len()));
        }
        let value = value.to_str().ok().filter(|value| value.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        let value = value.ok_or_else(|| format!("the value of {name} is not printable ASCII"))?;
        total += key.len() + value.len();
        if metadata.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!("{name} comes twice"));
        }
    }
    if total > MAX_TOTAL {
        return Err(format!("the metadata has {total} bytes: {MAX_TOTAL} can be kept"));
    }
    Ok(metadata)
}

/// Keeps metadata with an open file that has none.
pub(super) fn keep(file: impl AsFd, metadata: &Metadata) -> io::Result<()> {
    for (key, value) in metadata {
        rustix::fs::fsetxattr(&file, format!("{ATTRIBUTE}{key}"), value.as_bytes(), XattrFlags::empty()).map_err(
            |error| match error {
                rustix::io::Errno::OPNOTSUPP => io::Error::other("the file system keeps no metadata"),
                error => error.into(),
            },
        )?;
    }
    Ok(())
}

/// What is kept with the file at `path`; nothing where nothing can be.
pub(in crate::envd) fn kept_with(path: &Path) -> Metadata {
    // The kernel's own bound for all names of a file is 64 KiB; more than ours is not ours.
    let mut names = Vec::with_capacity(16 << 10);
    if !rustix::fs::llistxattr(path, rustix::buffer::spare_capacity(&mut names)).is_ok_and(|length| length > 0) {
        return Metadata::new();
    }
    let names = names.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    names
        .filter_map(|name| {
            let key = name.strip_prefix(ATTRIBUTE)?;
            let mut value = Vec::with_capacity(MAX_TOTAL);
            rustix::fs::lgetxattr(path, name, rustix::buffer::spare_capacity(&mut value)).ok()?;
            Some((key.to_owned(), String::from_utf8(value).ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_bounded_and_printable() {
        let of = |name: &str, value: &[u8]| {
            let name = http::HeaderName::try_from(name).unwrap();
            of(&HeaderMap::from_iter([(name, http::HeaderValue::from_bytes(value).unwrap())]))
        };
        assert_eq!(of("X-Metadata-Author", b"me & you"), Ok(Metadata::from([("author".into(), "me & you".into())])));
        assert_eq!(of("x-other", b"x"), Ok(Metadata::new()));
        assert!(of("x-metadata-", b"x").unwrap_err().contains("0 bytes"));
        assert!(of(&format!("x-metadata-{}", "k".repeat(247)), b"x").unwrap_err().contains("247 bytes"));
        assert!(of("x-metadata-a", "\u{e4}".as_bytes()).unwrap_err().contains("printable"));
        assert!(of("x-metadata-a", &[b'v'; 4096]).unwrap_err().contains("4097 bytes"));
    }
}
