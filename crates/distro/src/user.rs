//! Parses and checks the user's own files and commands.

use capstan_api::bootstrap::{CapstanConfigSpec, Command, File, PeriodicCommand};
use capstan_plan::{Argv, Content, Digest, MachinePath, Mode, Periodic, StepName};

use crate::error::InputError;
use crate::inputs::SecretFiles;

/// How long a command may take when the user does not say.
const COMMAND_SECONDS: u32 = 300;

/// A file of the user's.
pub(crate) struct UserFile {
    pub(crate) step: StepName,
    pub(crate) path: MachinePath,
    pub(crate) content: Content,
    pub(crate) mode: Mode,
    pub(crate) owner: u32,
    pub(crate) group: u32,
    pub(crate) secret: bool,
    /// Whether Kubernetes reads it only when it starts.
    pub(crate) restarts: bool,
}

/// A command of the user's.
pub(crate) struct UserCommand {
    pub(crate) step: StepName,
    pub(crate) argv: Argv,
    pub(crate) timeout_seconds: u32,
}

/// `spec.files`, with what stands in Secrets filled in. `restarts` says of which paths Kubernetes must be started
/// again, `taken` which are Capstan's own.
pub(crate) fn files(
    config: &CapstanConfigSpec,
    secrets: &SecretFiles,
    restarts: impl Fn(&MachinePath) -> bool,
    taken: impl Fn(&MachinePath) -> bool,
) -> Result<Vec<UserFile>, InputError> {
    config.files.iter().map(|file| read_file(file, secrets, &restarts, &taken)).collect()
}

fn read_file(
    file: &File,
    secrets: &SecretFiles,
    restarts: impl Fn(&MachinePath) -> bool,
    taken: impl Fn(&MachinePath) -> bool,
) -> Result<UserFile, InputError> {
    let field = |name: &str| format!("spec.files[{}].{name}", file.path);
    let path =
        MachinePath::new(&file.path).map_err(|error| InputError::new(field("path"), error.to_string()))?;
    if taken(&path) {
        return Err(InputError::new(
            field("path"),
            "is written by Capstan: use another path, or spec.settings",
        ));
    }
    let (content, secret) = match (&file.content, &file.content_from) {
        (Some(text), None) => (Content::from(text.as_str()), false),
        (None, Some(source)) => {
            let key = (source.secret.name.clone(), source.secret.key.clone());
            let found = secrets.get(&key).ok_or_else(|| {
                InputError::new(
                    field("contentFrom.secret"),
                    format!(
                        "there is no Secret {} with the key {}: make it, or take the file out",
                        key.0, key.1
                    ),
                )
            })?;
            (found.clone(), true)
        }
        _ => return Err(InputError::new(field("content"), "set exactly one of content and contentFrom")),
    };
    let (owner, group) = ids(file.owner.as_deref()).ok_or_else(|| {
        InputError::new(field("owner"), "must be root or numbers, as in root:root or 1000:1000")
    })?;
    let mode = mode(file.permissions.as_deref())
        .ok_or_else(|| InputError::new(field("permissions"), "must be octal, from 0000 to 0777"))?;
    Ok(UserFile {
        step: step_name("file", path.as_str().trim_start_matches('/')),
        restarts: restarts(&path),
        path,
        content,
        mode,
        owner,
        group,
        secret,
    })
}

/// `permissions` of a file; only root reads it when nobody says.
pub(crate) fn mode(permissions: Option<&str>) -> Option<Mode> {
    let bits = u32::from_str_radix(permissions.unwrap_or("0600"), 8).ok()?;
    Mode::new(bits).ok()
}

/// `owner` of a file, as user and group; root when nobody says.
pub(crate) fn ids(owner: Option<&str>) -> Option<(u32, u32)> {
    let owner = owner.unwrap_or("root");
    let (user, group) = owner.split_once(':').unwrap_or((owner, owner));
    let id = |name: &str| if name == "root" { Some(0) } else { name.parse().ok() };
    Some((id(user)?, id(group)?))
}

/// Commands of `spec.before` or `spec.after`.
pub(crate) fn commands(list: &[Command], moment: &str) -> Result<Vec<UserCommand>, InputError> {
    list.iter()
        .map(|command| {
            let argv = Argv::new(command.command.iter().map(String::as_str)).map_err(|error| {
                InputError::new(format!("spec.{moment}[{}].command", command.name), error.to_string())
            })?;
            let timeout = command.timeout_seconds.and_then(|seconds| u32::try_from(seconds).ok());
            Ok(UserCommand {
                step: step_name(moment, &command.name),
                argv,
                timeout_seconds: timeout.unwrap_or(COMMAND_SECONDS),
            })
        })
        .collect()
}

/// How often a periodic command runs when the user does not say.
const PERIOD_SECONDS: u32 = 600;

/// How long a run of a periodic command may take when the user does not say.
const PERIODIC_SECONDS: u32 = 60;

/// Commands of `spec.periodic`.
pub(crate) fn periodic(list: &[PeriodicCommand]) -> Result<Vec<Periodic>, InputError> {
    list.iter()
        .map(|command| {
            let argv = Argv::new(command.command.iter().map(String::as_str)).map_err(|error| {
                InputError::new(format!("spec.periodic[{}].command", command.name), error.to_string())
            })?;
            let seconds = |value: Option<i32>, default| {
                value.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(default)
            };
            Ok(Periodic {
                name: step_name("periodic", &command.name),
                argv,
                interval_seconds: seconds(command.interval_seconds, PERIOD_SECONDS),
                timeout_seconds: seconds(command.timeout_seconds, PERIODIC_SECONDS),
            })
        })
        .collect()
}

/// A step name for what the user calls `text`. It depends on nothing else, because a step under another name would
/// be done again; and it differs for different texts, also where they look alike as a DNS label.
pub(crate) fn step_name(prefix: &str, text: &str) -> StepName {
    let label: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(30)
        .collect();
    let label = label.trim_matches('-');
    let digest = Digest::of(text.as_bytes()).short();
    let middle = if label.is_empty() { String::new() } else { format!("{label}-") };
    StepName::new(format!("{prefix}-{middle}{digest}"))
        .expect("a short prefix, at most 30 letters, digits and dashes, and 16 hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_are_distinct() {
        assert_ne!(step_name("before", "a.b"), step_name("before", "a-b"));
        assert!(
            step_name("file", "etc/rancher/k3s/registries.yaml").as_str().starts_with("file-etc-rancher-")
        );
        for odd in ["", "....", "ä/ö", &"x".repeat(300)] {
            step_name("before", odd);
        }
    }

    #[test]
    fn owners_are_root_or_numbers() {
        for (text, found) in [
            ("root", Some((0, 0))),
            ("root:root", Some((0, 0))),
            ("1000", Some((1000, 1000))),
            ("1000:0", Some((1000, 0))),
            ("www-data", None),
            ("root:adm", None),
        ] {
            assert_eq!(ids(Some(text)), found, "{text}");
        }
    }
}
