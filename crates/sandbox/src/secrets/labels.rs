//! The labels that a secret is given.

use std::collections::BTreeMap;

use crate::error::Error;

/// What labels may be at most (protocol facts): how many, bytes of a name, bytes of a value, bytes in all.
const MOST: (usize, usize, usize, usize) = (32, 128, 1024, 8192);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels(Option<BTreeMap<String, String>>);

impl Labels {
    pub(super) fn add(&mut self, name: String, value: String) {
        self.0.get_or_insert_default().insert(name, value);
    }

    /// As they are sent; `None`: none was given.
    ///
    /// # Errors
    ///
    /// When they are more or longer than there may be.
    pub(super) fn checked(self) -> Result<Option<BTreeMap<String, String>>, Error> {
        let Some(labels) = self.0 else { return Ok(None) };
        let (most, name, value, all) = MOST;
        let fits = |(k, v): (&String, &String)| (1..=name).contains(&k.len()) && v.len() <= value;
        let total: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        if labels.len() > most || !labels.iter().all(fits) || total > all {
            return Err(Error::invalid(format!(
                "metadata: at most {most} labels, with names of 1 to {name} bytes, values of at most {value}, and {all} \
                 bytes in all"
            )));
        }
        Ok(Some(labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_counted() {
        let labels = |n: usize, name: usize, value: usize| {
            let all = (0..n).map(|i| (format!("{i:0name$}"), "v".repeat(value)));
            Labels(Some(all.collect())).checked()
        };
        assert_eq!(labels(32, 128, 128).unwrap().unwrap().len(), 32);
        for bad in [labels(33, 2, 1), labels(1, 129, 1), labels(1, 1, 1025), labels(32, 128, 129)] {
            assert!(bad.is_err());
        }
    }
}
