//! `users`, in the form that upstream's kubeadm provider writes. Pure.

use serde_json::{Map, Value};

use super::{Refused, list};

/// One user to be there.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) gecos: Option<String>,
    pub(crate) home: Option<String>,
    pub(crate) shell: Option<String>,
    pub(crate) primary_group: Option<String>,
    pub(crate) groups: Vec<String>,
    /// A hash, as `/etc/shadow` has it.
    pub(crate) password: Option<String>,
    pub(crate) lock_password: bool,
    pub(crate) sudo: Vec<String>,
    pub(crate) keys: Vec<String>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "User({})", self.name)
    }
}

pub(super) fn read(value: Option<&Value>) -> Result<Vec<User>, Refused> {
    let read = |(index, item): (usize, &Value)| {
        let place = format!("users[{index}]");
        let read = match item {
            Value::String(name) => {
                check_name(name).map(|name| User { name, lock_password: true, ..User::default() })
            }
            Value::Object(fields) => user(fields),
            _ => Err("is neither a name nor a map".to_owned()),
        };
        read.map_err(|why| Refused::at(&place, why))
    };
    list("users", value)?.iter().enumerate().map(read).collect()
}

fn user(fields: &Map<String, Value>) -> Result<User, String> {
    let mut user = User { lock_password: true, ..User::default() };
    for (key, value) in fields {
        let text = || one_line(value).ok_or_else(|| format!("{key} is not a line of text"));
        let truth = || value.as_bool().ok_or_else(|| format!("{key} is neither true nor false"));
        match key.as_str() {
            "name" => user.name = check_name(&text()?)?,
            "gecos" => user.gecos = Some(text()?),
            "homedir" => user.home = Some(text()?),
            "shell" => user.shell = Some(text()?),
            "primary_group" => user.primary_group = Some(check_name(&text()?)?),
            "groups" => {
                user.groups = words(key, value, &[','])?
                    .iter()
                    .map(|name| check_name(name))
                    .collect::<Result<_, _>>()?;
            }
            "passwd" | "hashed_passwd" => user.password = Some(text()?),
            "lock_passwd" => user.lock_password = truth()?,
            "sudo" if *value == Value::Bool(false) || value.is_null() => {}
            "sudo" => user.sudo = words(key, value, &[])?,
            "ssh_authorized_keys" => user.keys = words(key, value, &[])?,
            other => return Err(format!("{} is not understood", crate::facts::plain(other, 64))),
        }
    }
    if user.name.is_empty() { Err("has no name".to_owned()) } else { Ok(user) }
}

/// A text, or a list of texts.
fn words(key: &str, value: &Value, separators: &[char]) -> Result<Vec<String>, String> {
    let wrong = || format!("{key} is neither a line of text nor a list of them");
    let parts = match value {
        Value::String(_) => {
            let line = one_line(value).ok_or_else(wrong)?;
            line.split(|letter| separators.contains(&letter)).map(|part| part.trim().to_owned()).collect()
        }
        Value::Array(items) => {
            items.iter().map(|item| one_line(item).ok_or_else(wrong)).collect::<Result<Vec<_>, _>>()?
        }
        _ => return Err(wrong()),
    };
    Ok(parts.into_iter().filter(|part| !part.is_empty()).collect())
}

fn one_line(value: &Value) -> Option<String> {
    value.as_str().map(str::trim).filter(|text| !text.contains(char::is_control)).map(str::to_owned)
}

fn check_name(name: &str) -> Result<String, String> {
    let fine = !name.is_empty()
        && name.len() <= 32
        && !name.starts_with('-')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    match fine {
        // Who that is, is cloud-init's business.
        true if name == "default" => Err("the user default is known to cloud-init only".to_owned()),
        true => Ok(name.to_owned()),
        false => Err("a name must be made of letters, digits, dots, dashes and underscores".to_owned()),
    }
}
