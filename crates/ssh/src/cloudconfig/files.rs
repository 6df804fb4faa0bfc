//! `write_files`. Pure.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::{Refused, list};

/// One file to write.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct WriteFile {
    pub(crate) path: String,
    pub(crate) content: Vec<u8>,
    /// What is still to be done to the content, on the host.
    pub(crate) encoding: Encoding,
    pub(crate) mode: u32,
    pub(crate) owner: String,
    pub(crate) append: bool,
    /// Only when users and packages are there.
    pub(crate) defer: bool,
}

/// How content is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Not at all.
    Plain,
    /// With gzip.
    Gzip,
}

impl std::fmt::Debug for WriteFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WriteFile({}, {:o}, {}, {} bytes)", self.path, self.mode, self.owner, self.content.len())
    }
}

pub(super) fn read(value: Option<&Value>) -> Result<Vec<WriteFile>, Refused> {
    let read = |(index, item): (usize, &Value)| {
        let place = format!("write_files[{index}]");
        match item {
            Value::Object(fields) => file(fields).map_err(|why| Refused::at(&place, why)),
            _ => Err(Refused::at(&place, "is not a map")),
        }
    };
    list("write_files", value)?.iter().enumerate().map(read).collect()
}

fn file(fields: &Map<String, Value>) -> Result<WriteFile, String> {
    const KNOWN: [&str; 7] = ["path", "content", "encoding", "permissions", "owner", "append", "defer"];
    if let Some(key) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("{} is not understood", crate::facts::plain(key, 64)));
    }
    let text = |key: &str| match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("{key} is not a text")),
    };
    let truth = |key: &str| match fields.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(so)) => Ok(*so),
        Some(_) => Err(format!("{key} is neither true nor false")),
    };
    let path = text("path")?.unwrap_or_default();
    let (content, encoding) = decode(text("content")?.unwrap_or_default(), text("encoding")?)?;
    Ok(WriteFile {
        path: check_path(path)?.to_owned(),
        content,
        encoding,
        mode: mode(fields.get("permissions"))?,
        owner: check_owner(text("owner")?)?.to_owned(),
        append: truth("append")?,
        defer: truth("defer")?,
    })
}

/// Absolute, and the same for everybody who reads it.
fn check_path(path: &str) -> Result<&str, String> {
    let is_plain = path.starts_with('/')
        && !path.ends_with(['/', ' '])
        && !path.contains(char::is_control)
        && path.split('/').skip(1).all(|part| !part.is_empty() && part != "." && part != "..");
    if is_plain { Ok(path) } else { Err("path must be absolute and plain".to_owned()) }
}

fn check_owner(owner: Option<&str>) -> Result<&str, String> {
    let owner = owner.filter(|owner| !owner.is_empty()).unwrap_or("root:root");
    let is_name = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let mut parts = owner.split(':');
    let fine =
        parts.next().is_some_and(is_name) && parts.next().is_none_or(is_name) && parts.next().is_none();
    if fine && !owner.starts_with('-') {
        Ok(owner)
    } else {
        Err("owner must be user or user:group".to_owned())
    }
}

fn decode(content: &str, encoding: Option<&str>) -> Result<(Vec<u8>, Encoding), String> {
    let unpacked = || {
        let compact: String = content.split_whitespace().collect();
        BASE64_STANDARD.decode(compact).map_err(|_| "content is not base64".to_owned())
    };
    match encoding.map(str::trim).unwrap_or_default().to_ascii_lowercase().as_str() {
        "" | "text/plain" => Ok((content.as_bytes().to_vec(), Encoding::Plain)),
        "b64" | "base64" => Ok((unpacked()?, Encoding::Plain)),
        "gz+b64" | "gz+base64" | "gzip+b64" | "gzip+base64" => Ok((unpacked()?, Encoding::Gzip)),
        "gz" | "gzip" => {
            Err("encoding: packed content cannot stand in YAML as it is; say gzip+base64".to_owned())
        }
        _ => Err("encoding must be base64, gzip+base64 or none".to_owned()),
    }
}

/// A text is octal; a number has been read already, and octally if it was written so.
fn mode(value: Option<&Value>) -> Result<u32, String> {
    let wrong = || "permissions are not octal".to_owned();
    let mode = match value {
        None | Some(Value::Null) => 0o644,
        Some(Value::String(text)) => {
            u32::from_str_radix(text.trim().trim_start_matches("0o"), 8).map_err(|_| wrong())?
        }
        Some(Value::Number(number)) => {
            // Some readers of YAML make a float of any number that begins with a zero.
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && (0.0..4096.0).contains(float));
            // The range was checked.
            whole.map(|float| float as u32).ok_or_else(wrong)?
        }
        Some(_) => return Err(wrong()),
    };
    if mode <= 0o7777 { Ok(mode) } else { Err(wrong()) }
}
