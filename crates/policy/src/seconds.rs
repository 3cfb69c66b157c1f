//! Durations as seconds in JSON: `1.5`.

/// For optional durations.
pub(crate) mod option {
    use core::time::Duration;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(|d| d.as_secs_f64()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(deserializer)?
            .map(|s| Duration::try_from_secs_f64(s).map_err(serde::de::Error::custom))
            .transpose()
    }
}

pub(crate) fn serialize<S: serde::Serializer>(value: &core::time::Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(value.as_secs_f64())
}

pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<core::time::Duration, D::Error> {
    let seconds = <f64 as serde::Deserialize>::deserialize(deserializer)?;
    core::time::Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
}
