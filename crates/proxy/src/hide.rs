//! Labels of our own, which answers do not show.

use bytes::Bytes;
use serde_json::Value;

/// What the labels' names begin with.
const RESERVED: &str = "oncebox.";

/// Whether whoever asks does so by a label of ours, and so wants to see it: this SDK behind the proxy does.
pub(crate) fn is_asked_for(query: Option<&str>) -> bool {
    let Some(filter) = query.and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("metadata="))) else {
        return false;
    };
    let mut filter = filter.to_owned();
    // It is encoded up to three times, and a dot may be written as it is.
    for _ in 0..3 {
        filter = filter.replace("%25", "%");
    }
    filter.replace("%2E", ".").replace("%2e", ".").contains(RESERVED)
}

/// Whether a request's own metadata has a label of ours.
pub(crate) fn has_label(body: &serde_json::Map<String, Value>, name: &str) -> Option<String> {
    body.get("metadata")?.get(name)?.as_str().map(str::to_owned)
}

/// The same JSON without our labels; `None`: it has none, and is as it came.
pub(crate) fn without_labels(body: &Bytes) -> Option<Bytes> {
    // Most answers have none, and are not parsed for it.
    let is_there = body.windows(RESERVED.len()).any(|window| window == RESERVED.as_bytes());
    let mut value: Value = is_there.then(|| serde_json::from_slice(body).ok())??;
    if !drop_labels(&mut value) {
        return None;
    }
    serde_json::to_vec(&value).ok().map(Bytes::from)
}

fn drop_labels(value: &mut Value) -> bool {
    match value {
        Value::Array(items) => items.iter_mut().fold(false, |any, item| drop_labels(item) | any),
        Value::Object(fields) => fields.iter_mut().fold(false, |any, (name, field)| match field {
            Value::Object(metadata)
                if name == "metadata" || name.ends_with("_metadata") || name.ends_with("Metadata") =>
            {
                let before = metadata.len();
                metadata.retain(|label, _| !label.starts_with(RESERVED));
                any | (metadata.len() != before)
            }
            field => drop_labels(field) | any,
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(body: &str) -> Option<String> {
        without_labels(&Bytes::copy_from_slice(body.as_bytes())).map(|body| String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn labels_are_taken_out_wherever_metadata_is() {
        assert_eq!(
            hidden(r#"[{"sandboxID":"i","metadata":{"a":"oncebox.b","oncebox.intent":"x"}},{"metadata":null}]"#)
                .as_deref(),
            Some(r#"[{"metadata":{"a":"oncebox.b"},"sandboxID":"i"},{"metadata":null}]"#)
        );
        assert_eq!(
            hidden(r#"{"event":{"sandboxMetadata":{"oncebox.intent":"x"}}}"#).as_deref(),
            Some(r#"{"event":{"sandboxMetadata":{}}}"#)
        );
        for as_it_came in [r#"{"metadata": {"a": 1}}"#, r#"{"logs": ["oncebox.intent"], "n": 1.50}"#, "oncebox.", ""] {
            assert_eq!(hidden(as_it_came), None, "{as_it_came}");
        }
    }

    #[test]
    fn whoever_looks_for_a_label_sees_it() {
        for filter in ["oncebox.intent%3Dx", "oncebox%25252Eintent%3Dx", "a%3Db%26oncebox%252eintent%253Dx"] {
            assert!(is_asked_for(Some(&format!("limit=1&metadata={filter}"))), "{filter}");
        }
        for query in [None, Some("metadata=a%3Db"), Some("name=oncebox.x")] {
            assert!(!is_asked_for(query), "{query:?}");
        }
    }
}
