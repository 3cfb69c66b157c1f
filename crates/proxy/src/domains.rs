//! The domains of sandboxes that are not below the configured one.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;

/// How many are remembered.
const KNOWN: usize = 4096;

/// What the control plane answered for sandboxes. An SDK learns a sandbox's domain with its id, by a create or a connect, and
/// then speaks to the proxy alone, which has to know it too.
#[derive(Default)]
pub(crate) struct Domains(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    of: HashMap<String, String>,
    oldest_first: VecDeque<String>,
}

impl Domains {
    /// The domain of a sandbox, where it has one of its own.
    pub(crate) fn of(&self, id: &str) -> Option<String> {
        self.0.lock().of.get(id).cloned()
    }

    /// Learns from an answer, which may be anything.
    pub(crate) fn learn(&self, body: &Bytes) {
        let names_one = body.windows(8).any(|window| window == b"\"domain\"");
        let Some(value) = names_one.then(|| serde_json::from_slice::<Value>(body).ok()).flatten() else { return };
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        if let (Some(id), Some(domain)) = (text("sandboxID"), text("domain")) {
            self.remember(id, domain);
        }
    }

    fn remember(&self, id: String, domain: String) {
        let mut inner = self.0.lock();
        if inner.of.insert(id.clone(), domain).is_none() {
            inner.oldest_first.push_back(id);
        }
        if inner.oldest_first.len() > KNOWN
            && let Some(oldest) = inner.oldest_first.pop_front()
        {
            inner.of.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_known_from_the_answer_that_names_it() {
        let domains = Domains::default();
        for body in
            [r#"{"sandboxID": "i1", "domain": "own.example"}"#, r#"{"sandboxID": "i2", "domain": null}"#, "\"domain\""]
        {
            domains.learn(&Bytes::copy_from_slice(body.as_bytes()));
        }
        assert_eq!(domains.of("i1").as_deref(), Some("own.example"));
        assert_eq!(domains.of("i2"), None);
        for n in 0..KNOWN {
            domains.remember(format!("n{n}"), "d".to_owned());
        }
        assert_eq!((domains.of("i1"), domains.0.lock().of.len()), (None, KNOWN));
    }
}
