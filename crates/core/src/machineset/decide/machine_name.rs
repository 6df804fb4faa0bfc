//! Names of new Machines. Pure, but for the random part.

use capstan_controller::names::random_suffix;
use thiserror::Error;

/// A Machine's name is used as a label value.
const LONGEST: usize = 63;
const RANDOM: usize = 5;
const DEFAULT: &str = "{{ .machineSet.name }}-{{ .random }}";

/// Why a template for names cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BadTemplate {
    /// All Machines would get the same name.
    #[error("has no {{{{ .random }}}}, so all machines would get the same name")]
    NotRandom,
    /// An unknown variable.
    #[error("uses {{{{ {0} }}}}, but only .cluster.name, .machineSet.name and .random are known")]
    Unknown(String),
    /// Unclosed braces.
    #[error("has a {{{{ without }}}}")]
    Open,
}

/// A new name for a Machine, from the template or the default one.
pub fn machine_name(template: Option<&str>, cluster: &str, machine_set: &str) -> Result<String, BadTemplate> {
    let name = render(template.unwrap_or(DEFAULT), cluster, machine_set, &random_suffix())?;
    Ok(match name.get(..LONGEST - RANDOM) {
        Some(start) if name.len() > LONGEST => format!("{start}{}", random_suffix()),
        _ => name,
    })
}

fn render(template: &str, cluster: &str, machine_set: &str, random: &str) -> Result<String, BadTemplate> {
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
            (DEFAULT, Ok("ms-abcde".to_owned())),
            ("{{ .cluster.name }}-{{.random}}-w", Ok("c-abcde-w".to_owned())),
            ("{{ .cluster.name }}", Err(BadTemplate::NotRandom)),
            ("{{ .pool }}-{{ .random }}", Err(BadTemplate::Unknown(".pool".to_owned()))),
            ("{{ .random ", Err(BadTemplate::Open)),
        ] {
            assert_eq!(render(template, "c", "ms", "abcde"), expected, "{template}");
        }
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let name = machine_name(None, "c", &"m".repeat(80)).expect("a test value");
        assert_eq!(name.len(), LONGEST);
        assert_ne!(name, machine_name(None, "c", &"m".repeat(80)).expect("a test value"));
    }
}
