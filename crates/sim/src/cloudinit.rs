//! Parses bootstrap data as cloud-init would: `write_files`, then `runcmd`. Pure.
//!
//! Only these two keys are supported. Any other key is rejected by name: if it were ignored, the machine would differ
//! from what the data describes.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::machine::Metadata;
use capstan_plan::MachinePath;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One step of the bootstrap data.
#[derive(Clone, PartialEq, Eq)]
pub enum CloudInitStep {
    /// Write a file, and create its parent folders.
    Write {
        /// Path of the file.
        path: MachinePath,
        /// Content of the file.
        content: Vec<u8>,
        /// Owner and mode of the file.
        metadata: Metadata,
    },
    /// Run a command.
    Run(Vec<String>),
}

impl CloudInitStep {
    /// Describes the step for people. The content of files is not shown.
    pub fn describe(&self) -> String {
        match self {
            Self::Write { path, .. } => format!("write_files {path}"),
            Self::Run(words) => format!("runcmd {}", words.join(" ")),
        }
    }
}

#[derive(Deserialize)]
struct File {
    path: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    encoding: Option<String>,
    #[serde(default)]
    permissions: Option<Value>,
    #[serde(default)]
    owner: Option<String>,
}

/// Parses cloud-config. Errors name the key that is wrong and never repeat a value.
///
/// # Errors
/// If the data is not cloud-config, or needs something that a simulated machine does not support.
pub fn parse(data: &[u8]) -> Result<Vec<CloudInitStep>, String> {
    let text = std::str::from_utf8(data).map_err(|_| "the bootstrap data is not text")?;
    let rest = text.strip_prefix("## template: jinja\n").unwrap_or(text);
    if !rest.trim_start().starts_with("#cloud-config") {
        return Err(
            "the bootstrap data is not cloud-config, which is all that simulated hosts understand".to_owned()
        );
    }
    let document: Map<String, Value> =
        serde_saphyr::from_str(rest).map_err(|_| "the bootstrap data is not a YAML map")?;
    if let Some(key) = document.keys().find(|key| !["write_files", "runcmd"].contains(&key.as_str())) {
        return Err(format!("simulated hosts do not know the key {key} of cloud-config"));
    }
    let mut steps = Vec::new();
    for (index, file) in list(&document, "write_files")?.iter().enumerate() {
        let wrong = |what: &str| format!("write_files[{index}]: {what}");
        let file: File =
            serde_json::from_value(file.clone()).map_err(|_| wrong("a field has the wrong type"))?;
        steps.push(write(file).map_err(wrong)?);
    }
    for (index, command) in list(&document, "runcmd")?.iter().enumerate() {
        let words =
            words(command).ok_or_else(|| format!("runcmd[{index}]: neither a text nor a list of texts"))?;
        steps.push(CloudInitStep::Run(words));
    }
    Ok(steps)
}

fn list<'d>(document: &'d Map<String, Value>, key: &str) -> Result<&'d [Value], String> {
    match document.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(format!("{key} is not a list")),
    }
}

fn write(file: File) -> Result<CloudInitStep, &'static str> {
    let path = MachinePath::new(file.path).map_err(|_| "path must be absolute and plain")?;
    let content = match file.encoding.as_deref() {
        None | Some("text/plain" | "") => file.content.into_bytes(),
        Some("b64" | "base64") => {
            let compact: String = file.content.split_whitespace().collect();
            BASE64_STANDARD.decode(compact).map_err(|_| "content is not base64")?
        }
        Some(_) => return Err("encoding must be b64 or none"),
    };
    let mode = match &file.permissions {
        None => 0o644,
        Some(Value::String(text)) => {
            u32::from_str_radix(text.trim_start_matches("0o"), 8).map_err(|_| "permissions are not octal")?
        }
        Some(_) => return Err("permissions must be a text, such as '0600'"),
    };
    match file.owner.as_deref() {
        None | Some("root" | "root:root") => {}
        Some(_) => return Err("owner must be root: a simulated host has no other users"),
    }
    Ok(CloudInitStep::Write { path, content, metadata: Metadata { mode, owner: 0, group: 0 } })
}

/// A text is for the shell, as cloud-init has it.
fn words(command: &Value) -> Option<Vec<String>> {
    match command {
        Value::String(line) => Some(vec!["sh".to_owned(), "-c".to_owned(), line.clone()]),
        Value::Array(words) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_before_commands() {
        let data =
            b"#cloud-config\nruncmd:\n- [/opt/capstan/capstan-agent, enroll]\n- echo hi\nwrite_files:\n\
            - path: /etc/a\n  content: aGk=\n  encoding: b64\n  permissions: '0600'\n  owner: root:root\n\
            - {path: /etc/b, content: text}\n";
        let steps = parse(data).expect("steps");
        let described: Vec<String> = steps.iter().map(CloudInitStep::describe).collect();
        assert_eq!(
            described,
            [
                "write_files /etc/a",
                "write_files /etc/b",
                "runcmd /opt/capstan/capstan-agent enroll",
                "runcmd sh -c echo hi"
            ]
        );
        let CloudInitStep::Write { content, metadata, .. } = &steps[0] else { panic!("a file") };
        assert_eq!((content.as_slice(), metadata.mode), (b"hi".as_slice(), 0o600));
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name_and_never_quoted() {
        for (data, expected) in [
            ("#!/bin/sh\necho s3cret\n", "not cloud-config"),
            ("#cloud-config\nusers: [s3cret]\n", "users"),
            ("#cloud-config\n- s3cret\n", "not a YAML map"),
            ("#cloud-config\nwrite_files: s3cret\n", "write_files is not a list"),
            ("#cloud-config\nwrite_files: [{path: relative, content: s3cret}]\n", "write_files[0]: path"),
            ("#cloud-config\nwrite_files: [{path: /a, encoding: gz, content: s3cret}]\n", "encoding"),
            ("#cloud-config\nwrite_files: [{path: /a, owner: s3cret}]\n", "owner must be root"),
            ("#cloud-config\nruncmd: [{s3cret: 1}]\n", "runcmd[0]"),
        ] {
            let error = parse(data.as_bytes()).err().unwrap_or_default();
            assert!(error.contains(expected), "{data}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
