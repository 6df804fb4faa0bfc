//! Machine-readable output, in the format that the user selected.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::args::Output;

impl Output {
    /// The serialized value, with a trailing newline.
    pub(crate) fn print(self, value: &impl Serialize) -> Result<String> {
        match self {
            Self::Json => {
                serde_json::to_string_pretty(value).map(|text| text + "\n").context("cannot write JSON")
            }
            Self::Yaml => serde_saphyr::to_string(value).context("cannot write YAML"),
        }
    }
}
