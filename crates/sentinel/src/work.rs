//! The plan with every value checked. A plan with an invalid value changes nothing on the machine.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_plan::MachinePath;

use crate::plan::{File, Plan};

/// Default permissions of files and directories.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o755;

/// A value of a plan that cannot be used. It names the field, and no content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    /// The field, such as `files[2].path`.
    pub field: String,
    /// Why it is invalid.
    pub reason: &'static str,
}

/// Owner and permissions. `None` leaves an owner as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Permission bits.
    pub mode: u32,
    /// User ID.
    pub owner: Option<u32>,
    /// Group ID.
    pub group: Option<u32>,
}

/// What is done to a path.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    /// A file with this content.
    Write(Vec<u8>, Access),
    /// A directory.
    Directory(Access),
    /// Nothing is there afterwards.
    Delete {
        /// Whether a directory is removed with its content.
        recursive: bool,
    },
}

/// A file of a plan.
#[derive(Clone, PartialEq, Eq)]
pub struct FileWork {
    /// Its path.
    pub path: MachinePath,
    /// What is done.
    pub change: Change,
}

/// Checks the files and the instructions of a plan.
///
/// # Errors
/// If a value is invalid.
pub fn check(plan: &Plan) -> Result<Vec<FileWork>, Invalid> {
    let common = |list: &str, number: usize, field: &str, reason| Invalid {
        field: format!("{list}[{number}].{field}"),
        reason,
    };
    let one_time = plan.instructions.iter().map(|instruction| &instruction.common);
    let periodic = plan.periodic_instructions.iter().map(|instruction| &instruction.common);
    for (list, instructions) in
        [("instructions", one_time.collect::<Vec<_>>()), ("periodicInstructions", periodic.collect())]
    {
        for (number, instruction) in instructions.into_iter().enumerate() {
            if !instruction.script.is_empty() {
                return Err(common(list, number, "script", "not supported; use command and args"));
            }
            if instruction.env.iter().any(|variable| !is_variable(&variable.0)) {
                return Err(common(list, number, "env", "every entry must be NAME=VALUE"));
            }
        }
    }
    plan.files
        .iter()
        .enumerate()
        .map(|(number, file)| {
            file_work(file).map_err(|(field, reason)| common("files", number, field, reason))
        })
        .collect()
}

fn is_variable(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| !name.is_empty()) && !text.contains('\0')
}

fn file_work(file: &File) -> Result<FileWork, (&'static str, &'static str)> {
    let path = path(&file.path).ok_or(("path", "must be absolute, and not /"))?;
    if file.action == "delete" {
        return Ok(FileWork { path, change: Change::Delete { recursive: file.directory } });
    }
    let default = if file.directory { DIRECTORY_MODE } else { FILE_MODE };
    let mode = mode(&file.permissions, default).ok_or(("permissions", "must be octal"))?;
    let owner = id(file.uid).ok_or(("uid", "must be a user ID, or -1"))?;
    let group = id(file.gid).ok_or(("gid", "must be a group ID, or -1"))?;
    let access = Access { mode, owner, group };
    let change = if file.directory {
        Change::Directory(access)
    } else {
        // As Go's decoder, which skips line ends.
        let text: String = file.content.0.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
        let content = BASE64_STANDARD.decode(text).map_err(|_| ("content", "must be base64"))?;
        Change::Write(content, access)
    };
    Ok(FileWork { path, change })
}

/// The path in canonical form: without empty parts, `.` and `..`.
pub fn path(text: &str) -> Option<MachinePath> {
    let mut parts = Vec::new();
    for part in text.strip_prefix('/')?.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    MachinePath::new(format!("/{}", parts.join("/"))).ok()
}

/// Bits beyond 0777 have no effect, as upstream.
fn mode(text: &str, default: u32) -> Option<u32> {
    if text.is_empty() { Some(default) } else { u32::from_str_radix(text, 8).ok().map(|mode| mode & 0o777) }
}

fn id(number: i64) -> Option<Option<u32>> {
    if number == -1 { Some(None) } else { u32::try_from(number).ok().map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn checked(plan: &Value) -> Result<Vec<FileWork>, Invalid> {
        check(&Plan::parse(plan.to_string().as_bytes()).expect("a plan"))
    }

    #[test]
    fn files_have_the_defaults_of_the_contract() {
        let access = |mode, owner, group| Access { mode, owner, group };
        let table = [
            (json!({"content": "aGk="}), Change::Write(b"hi".to_vec(), access(0o600, Some(0), Some(0)))),
            (json!({"content": "aG\nk="}), Change::Write(b"hi".to_vec(), access(0o600, Some(0), Some(0)))),
            (
                json!({"permissions": "0644", "uid": 7, "gid": -1}),
                Change::Write(vec![], access(0o644, Some(7), None)),
            ),
            (json!({"permissions": "4755"}), Change::Write(vec![], access(0o755, Some(0), Some(0)))),
            (json!({"directory": true}), Change::Directory(access(0o755, Some(0), Some(0)))),
            (
                json!({"directory": true, "permissions": "700"}),
                Change::Directory(access(0o700, Some(0), Some(0))),
            ),
            (json!({"action": "delete"}), Change::Delete { recursive: false }),
            (
                json!({"action": "delete", "directory": true, "content": "?"}),
                Change::Delete { recursive: true },
            ),
            (
                json!({"action": "other", "directory": true}),
                Change::Directory(access(0o755, Some(0), Some(0))),
            ),
        ];
        for (mut file, change) in table {
            file["path"] = json!("/etc//a/./b/../c/");
            let work = checked(&json!({"files": [file]})).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert_eq!(work[0].path.as_str(), "/etc/a/c");
            assert!(work[0].change == change, "{file}");
        }
    }

    #[test]
    fn an_invalid_value_is_named() {
        let file = |fields: Value| {
            let mut file = json!({"path": "/a"});
            fields.as_object().expect("an object").iter().for_each(|(key, value)| file[key] = value.clone());
            json!({"files": [{"path": "/ok"}, file]})
        };
        let instruction = |list: &str, fields: Value| json!({list: [{"name": "a"}, fields]});
        let table = [
            (file(json!({"path": "a"})), "files[1].path"),
            (file(json!({"path": ""})), "files[1].path"),
            (file(json!({"path": "/.."})), "files[1].path"),
            (file(json!({"permissions": "rw"})), "files[1].permissions"),
            (file(json!({"permissions": "0999"})), "files[1].permissions"),
            (file(json!({"uid": -2})), "files[1].uid"),
            (file(json!({"gid": 5_000_000_000_u64})), "files[1].gid"),
            (file(json!({"content": "hunter2!"})), "files[1].content"),
            (instruction("instructions", json!({"script": "x"})), "instructions[1].script"),
            (instruction("instructions", json!({"env": ["A"]})), "instructions[1].env"),
            (instruction("periodicInstructions", json!({"env": ["=b"]})), "periodicInstructions[1].env"),
        ];
        for (plan, field) in table {
            let Err(error) = checked(&plan) else { panic!("{plan}") };
            assert_eq!(error.field, field);
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}
