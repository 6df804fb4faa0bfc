//! Serialized times: whole seconds in UTC, as in Kubernetes.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

fn text(time: Timestamp) -> Result<String, jiff::Error> {
    jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%SZ", time)
}

pub(crate) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    text(*time).map_err(serde::ser::Error::custom)?.serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    Timestamp::deserialize(deserializer)
}

/// The same, for a time that may be missing.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Serializer, Timestamp};

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::serialize(time, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        Option::deserialize(deserializer)
    }
}
