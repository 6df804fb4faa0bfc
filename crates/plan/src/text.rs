//! Distinct types for distinct names, so that they cannot be confused.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A text that violates the rule of its name type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {rule}")]
pub struct TextError {
    what: &'static str,
    rule: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $holds:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Parses the name.
            ///
            /// # Errors
            /// If it violates the rule, which the error names.
            pub fn new(text: impl Into<String>) -> Result<Self, TextError> {
                let text = text.into();
                if $holds(&text) { Ok(Self(text)) } else { Err(TextError { what: $what, rule: $rule }) }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = TextError;

            fn try_from(text: String) -> Result<Self, TextError> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = TextError;

            fn from_str(text: &str) -> Result<Self, TextError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }
    };
}

name! {
    /// Name of a step or a probe: a DNS label, unique within its plan.
    StepName, "a step name", "a DNS label of at most 63 characters", is_dns_label
}

name! {
    /// Name of a Machine.
    MachineName, "a machine name", "a DNS subdomain of at most 253 characters", is_dns_subdomain
}

name! {
    /// ID of a machine, which is another one for each claim of a host.
    MachineId, "a machine ID", "1 to 64 letters, digits, `-`, `_` or `.`", is_machine_id
}

name! {
    /// Name of a unit of systemd that has a file of its own and can be started.
    UnitName, "a unit name",
    "at most 255 letters, digits and `:_.@-` with .service, .socket, .timer or .mount at the end, no `.` or `-` at \
     the beginning, and no template",
    is_unit_name
}

name! {
    /// Fingerprint of what a unit is started with.
    RestartToken, "a restart token", "1 to 128 printable ASCII characters", is_restart_token
}

fn is_unit_name(text: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b':' | b'_' | b'.' | b'@' | b'-');
    let stem = [".service", ".socket", ".timer", ".mount"].iter().find_map(|end| text.strip_suffix(end));
    text.len() <= 255
        && text.bytes().all(plain)
        && stem.is_some_and(|stem| !stem.is_empty() && !stem.ends_with('@') && !stem.starts_with(['.', '-']))
}

fn is_restart_token(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|c| (b' '..=b'~').contains(&c))
}

fn is_dns_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_dns_subdomain(text: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

fn is_machine_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_rules() {
        for good in ["a", "write-config", "9lives", &"a".repeat(63)] {
            assert!(StepName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "ä", "a\n", &"a".repeat(64)] {
            assert!(StepName::new(bad).is_err(), "{bad:?}");
        }
        for good in ["web-0", "web-0.example", &"a".repeat(253)] {
            assert!(MachineName::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "a.", "a..b", "-a.b", "a.b-", "a/b", &"a".repeat(254)] {
            assert!(MachineName::new(bad).is_err(), "{bad:?}");
        }
        for good in ["k3s.service", "a@b.socket", "var-lib.mount", "a.b:c_d.timer"] {
            assert!(UnitName::new(good).is_ok(), "{good}");
        }
        let long = format!("{}.service", "a".repeat(248));
        for bad in
            ["", "k3s", ".service", "a@.service", "a/b.service", "-a.service", "..service", "a b.service"]
                .into_iter()
                .chain([long.as_str(), "a.target", "a.service\n"])
        {
            assert!(UnitName::new(bad).is_err(), "{bad:?}");
        }
        assert!(RestartToken::new("v1.33.1+k3s1 config=abc").is_ok());
        for bad in ["", "a\n", "ä", &"a".repeat(129)] {
            assert!(RestartToken::new(bad).is_err(), "{bad:?}");
        }
        assert!(MachineId::new("3f0c2a64-7f5e-4c52-9a0a-0d7a3f2b1c9d").is_ok());
        for bad in ["", "a b", "a/b", "a\0", &"a".repeat(65)] {
            assert!(MachineId::new(bad).is_err(), "{bad:?}");
        }
    }
}
