//! The plan as it is written: JSON in which every field may be absent or null, and unknown fields are ignored.

use capstan_plan::Digest;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// Not a plan. The position is given instead of the text, which may contain secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plan is not valid JSON for a plan (line {line}, column {column})")]
pub struct NotAPlan {
    line: usize,
    column: usize,
}

/// A text that may be secret, and is never printed.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plan {
    /// Files, written before the instructions run.
    #[serde(deserialize_with = "nullable")]
    pub files: Vec<File>,
    /// One-time instructions.
    #[serde(deserialize_with = "nullable")]
    pub instructions: Vec<Instruction>,
    /// Periodic instructions.
    #[serde(deserialize_with = "nullable")]
    pub periodic_instructions: Vec<PeriodicInstruction>,
    /// Probes by name.
    #[serde(deserialize_with = "nullable")]
    pub probes: BTreeMap<String, Probe>,
}

/// A file or directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct File {
    /// Absolute path.
    #[serde(deserialize_with = "nullable")]
    pub path: String,
    /// Content in base64.
    #[serde(deserialize_with = "nullable")]
    pub content: Hidden,
    /// Whether it is a directory.
    #[serde(deserialize_with = "nullable")]
    pub directory: bool,
    /// User ID; -1 leaves it.
    #[serde(deserialize_with = "nullable")]
    pub uid: i64,
    /// Group ID; -1 leaves it.
    #[serde(deserialize_with = "nullable")]
    pub gid: i64,
    /// Octal permissions.
    #[serde(deserialize_with = "nullable")]
    pub permissions: String,
    /// `delete`, or anything else for its creation.
    #[serde(deserialize_with = "nullable")]
    pub action: String,
}

/// What both kinds of instructions have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Common {
    /// Name, under which output is saved.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Container image that is unpacked into the execution folder.
    #[serde(deserialize_with = "nullable")]
    pub image: String,
    /// Program; `run.sh` in the execution folder if it is empty.
    #[serde(deserialize_with = "nullable")]
    pub command: String,
    /// Arguments.
    #[serde(deserialize_with = "nullable")]
    pub args: Vec<String>,
    /// Environment variables, as `NAME=VALUE`.
    #[serde(deserialize_with = "nullable")]
    pub env: Vec<Hidden>,
    /// Part of later versions of the contract; not supported.
    #[serde(deserialize_with = "nullable")]
    pub script: String,
}

/// A one-time instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Instruction {
    /// What all instructions have.
    #[serde(flatten)]
    pub common: Common,
    /// Whether its output is saved.
    #[serde(deserialize_with = "nullable")]
    pub save_output: bool,
}

/// A periodic instruction. Its standard output is always saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PeriodicInstruction {
    /// What all instructions have.
    #[serde(flatten)]
    pub common: Common,
    /// Period; 0 is the default.
    #[serde(deserialize_with = "nullable")]
    pub period_seconds: i64,
    /// Whether standard error is saved.
    #[serde(deserialize_with = "nullable")]
    pub save_stderr_output: bool,
}

/// A probe. Zero is the default of every number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    /// Delay of the first probe after the plan was applied.
    #[serde(deserialize_with = "nullable")]
    pub initial_delay_seconds: i64,
    /// Timeout.
    #[serde(deserialize_with = "nullable")]
    pub timeout_seconds: i64,
    /// Consecutive successes until it is healthy.
    #[serde(deserialize_with = "nullable")]
    pub success_threshold: i64,
    /// Consecutive failures until it is not.
    #[serde(deserialize_with = "nullable")]
    pub failure_threshold: i64,
    /// The request.
    #[serde(deserialize_with = "nullable")]
    pub http_get: ProbeGet,
}

/// The request of a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeGet {
    /// URL of http or https.
    #[serde(deserialize_with = "nullable")]
    pub url: String,
    /// Whether any certificate is accepted.
    #[serde(deserialize_with = "nullable")]
    pub insecure: bool,
    /// File with the client certificate.
    #[serde(deserialize_with = "nullable")]
    pub client_cert: String,
    /// File with its key.
    #[serde(deserialize_with = "nullable")]
    pub client_key: String,
    /// File with CAs.
    #[serde(deserialize_with = "nullable")]
    pub ca_cert: String,
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// If it is not valid JSON for a plan.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotAPlan> {
        let read: Option<Self> = serde_json::from_slice(bytes)
            .map_err(|error| NotAPlan { line: error.line(), column: error.column() })?;
        Ok(read.unwrap_or_default())
    }
}

/// The checksum of a plan: of exactly these bytes.
pub fn checksum(bytes: &[u8]) -> Digest {
    Digest::of(bytes)
}

/// Null is the same as an absent field.
fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_null_and_unknown_fields_are_accepted() {
        for text in ["{}", "null", r#"{"files":null,"instructions":null,"probes":null,"error":"x"}"#] {
            assert_eq!(Plan::parse(text.as_bytes()), Ok(Plan::default()), "{text}");
        }
        let text = r#"{"files":[{"path":"/a","content":"eA==","uid":-1,"minor":true}],
            "instructions":[{"name":"i","command":"c","args":["a"],"env":["A=b"],"image":null,"saveOutput":true}],
            "periodicInstructions":[{"name":"p","periodSeconds":5,"saveStderrOutput":true}],
            "probes":{"x":{"timeoutSeconds":5,"httpGet":{"url":"http://a","caCert":"/ca"}}}}"#;
        let plan = Plan::parse(text.as_bytes()).expect("a plan");
        assert_eq!((plan.files[0].path.as_str(), plan.files[0].uid), ("/a", -1));
        assert_eq!(
            (plan.instructions[0].common.args.as_slice(), plan.instructions[0].save_output),
            (&["a".to_owned()][..], true)
        );
        assert_eq!(
            (
                plan.periodic_instructions[0].common.name.as_str(),
                plan.periodic_instructions[0].period_seconds
            ),
            ("p", 5)
        );
        assert_eq!(plan.probes["x"].http_get.ca_cert, "/ca");
        assert!(!format!("{plan:?}").contains("eA==") && !format!("{plan:?}").contains("A=b"));
    }

    #[test]
    fn an_error_names_the_position_and_no_content() {
        let error = Plan::parse(br#"{"files":[{"path":"/a","content":hunter2}]}"#).expect_err("not JSON");
        assert!(error.to_string().contains("line 1") && !error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn the_checksum_is_of_the_bytes() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(checksum(b"").to_string(), empty);
    }
}
