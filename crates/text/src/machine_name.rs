//! Templates of the names of Machines.

use std::fmt;

/// Why a template for names cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadTemplate {
    /// All Machines would get the same name.
    NotRandom,
    /// An unknown variable.
    Unknown(String),
    /// Unclosed braces.
    Open,
}

impl fmt::Display for BadTemplate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRandom => out.write_str("has no {{ .random }}, so all machines would get the same name"),
            Self::Unknown(name) => {
                write!(
                    out,
                    "uses {{{{ {name} }}}}, but only .cluster.name, .machineSet.name and .random are known"
                )
            }
            Self::Open => out.write_str("has a {{ without }}"),
        }
    }
}

impl std::error::Error for BadTemplate {}

/// The name that a template makes, which may be too long.
///
/// # Errors
/// If the template cannot be used.
pub fn machine_name(
    template: &str,
    cluster: &str,
    machine_set: &str,
    random: &str,
) -> Result<String, BadTemplate> {
    let mut name = String::new();
    let mut rest = template;
    let mut is_random = false;
    while let Some((before, after)) = rest.split_once("{{") {
        let (expression, after) = after.split_once("}}").ok_or(BadTemplate::Open)?;
        name.push_str(before);
        name.push_str(match expression.trim() {
            ".cluster.name" => cluster,
            ".machineSet.name" => machine_set,
            ".random" => {
                is_random = true;
                random
            }
            unknown => return Err(BadTemplate::Unknown(unknown.to_owned())),
        });
        rest = after;
    }
    name.push_str(rest);
    if is_random { Ok(name) } else { Err(BadTemplate::NotRandom) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_template() {
        for (template, expected) in [
            ("{{ .machineSet.name }}-{{ .random }}", Ok("ms-abcde".to_owned())),
            ("{{ .cluster.name }}-{{.random}}-w", Ok("c-abcde-w".to_owned())),
            ("{{ .cluster.name }}", Err(BadTemplate::NotRandom)),
            ("{{ .pool }}-{{ .random }}", Err(BadTemplate::Unknown(".pool".to_owned()))),
            ("{{ .random ", Err(BadTemplate::Open)),
        ] {
            assert_eq!(machine_name(template, "c", "ms", "abcde"), expected, "{template}");
        }
        let unknown = BadTemplate::Unknown(".pool".to_owned()).to_string();
        assert!(unknown.starts_with("uses {{ .pool }}, but"), "{unknown}");
    }
}
