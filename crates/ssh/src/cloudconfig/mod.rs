//! Parses cloud-config as cloud-init does, for the keys that Capstan supports. Pure.
//!
//! An unsupported key is rejected by name: if it were ignored, the machine would differ from what the data describes.
//! Errors name keys and never repeat a value, because any value may be secret.

mod commands;
mod files;
mod template;
mod users;

pub(crate) use commands::{Command, shell_script};
pub(crate) use files::{Encoding, WriteFile};
pub(crate) use template::Metadata;
pub(crate) use users::User;

use serde_json::{Map, Value};
use thiserror::Error;

/// Why bootstrap data cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct Refused(String);

impl Refused {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    fn at(place: &str, why: impl std::fmt::Display) -> Self {
        Self(format!("{place}: {why}"))
    }
}

/// What cloud-config asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CloudConfig {
    pub(crate) bootcmd: Vec<Command>,
    pub(crate) write_files: Vec<WriteFile>,
    pub(crate) users: Vec<User>,
    pub(crate) ntp: Option<Ntp>,
    pub(crate) runcmd: Vec<Command>,
    /// All keys at the top.
    pub(crate) keys: Vec<String>,
}

/// Who says what time it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ntp {
    pub(crate) enabled: bool,
    pub(crate) servers: Vec<String>,
    pub(crate) pools: Vec<String>,
}

/// Keys that are carried out over SSH.
pub(crate) const OURS: [&str; 5] = ["bootcmd", "write_files", "users", "ntp", "runcmd"];
/// Keys that a machine's own cloud-init is trusted with.
pub(crate) const CLOUD_INITS: [&str; 7] =
    ["disk_setup", "fs_setup", "groups", "mounts", "package_update", "package_upgrade", "packages"];

/// How many nodes of YAML aliases may stand for: the author of bootstrap data must not be able to keep the manager busy.
const ALIASED: usize = 10_000;

/// Reads cloud-config; `metadata` is what a template may ask for.
///
/// # Errors
/// If it is not cloud-config, or asks for what is not understood.
pub(crate) fn parse(data: &[u8], metadata: &Metadata) -> Result<CloudConfig, Refused> {
    let text = std::str::from_utf8(data).map_err(|_| Refused::new("the bootstrap data is not text"))?;
    let rendered = template::render(text, metadata)?;
    if !rendered.lines().any(|line| line.trim_end() == "#cloud-config") {
        return Err(Refused::new("the bootstrap data does not begin with #cloud-config"));
    }
    let limits = serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED };
    let options = serde_saphyr::options! { legacy_octal_numbers: true, alias_limits: limits };
    let document: Option<Map<String, Value>> = serde_saphyr::from_str_with_options(&rendered, options)
        .map_err(|error| Refused::new(format!("the bootstrap data is not a YAML map{}", position(&error))))?;
    let document = document.unwrap_or_default();
    for key in document.keys() {
        if !OURS.contains(&key.as_str()) && !CLOUD_INITS.contains(&key.as_str()) {
            return Err(Refused::new(format!(
                "the key {} of cloud-config is not understood, and nothing is left out silently: take it out",
                crate::facts::plain(key, 64)
            )));
        }
    }
    Ok(CloudConfig {
        bootcmd: commands::read("bootcmd", document.get("bootcmd"))?,
        write_files: files::read(document.get("write_files"))?,
        users: users::read(document.get("users"))?,
        ntp: document.get("ntp").map(ntp).transpose()?.flatten(),
        runcmd: commands::read("runcmd", document.get("runcmd"))?,
        keys: document.keys().cloned().collect(),
    })
}

/// Where in the text, without any of the text.
fn position(error: &serde_saphyr::Error) -> String {
    error.location().map(|at| format!(" (line {})", at.line())).unwrap_or_default()
}

fn ntp(value: &Value) -> Result<Option<Ntp>, Refused> {
    let fields = match value {
        Value::Null => return Ok(None),
        Value::Object(fields) => fields,
        _ => return Err(Refused::at("ntp", "is not a map")),
    };
    let mut ntp = Ntp { enabled: true, ..Ntp::default() };
    for (key, value) in fields {
        match key.as_str() {
            "enabled" => {
                ntp.enabled =
                    value.as_bool().ok_or_else(|| Refused::at("ntp.enabled", "is neither true nor false"))?;
            }
            "servers" => ntp.servers = names("ntp.servers", value)?,
            "pools" => ntp.pools = names("ntp.pools", value)?,
            other => {
                return Err(Refused::at(
                    &format!("ntp.{}", crate::facts::plain(other, 64)),
                    "is not understood",
                ));
            }
        }
    }
    Ok(Some(ntp))
}

/// A list of plain names, which may stand in configuration files as they are.
fn names(place: &str, value: &Value) -> Result<Vec<String>, Refused> {
    let wrong = || Refused::at(place, "is not a list of names");
    let is_name = |text: &&str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte))
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().filter(is_name).map(str::to_owned).ok_or_else(wrong))
            .collect(),
        _ => Err(wrong()),
    }
}

/// The items of a list that may be absent.
fn list<'v>(place: &str, value: Option<&'v Value>) -> Result<&'v [Value], Refused> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(Refused::at(place, "is not a list")),
    }
}

#[cfg(test)]
mod tests;
