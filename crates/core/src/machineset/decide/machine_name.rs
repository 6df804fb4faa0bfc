//! Names of new Machines. Pure, but for the random part.

use capstan_controller::names::random_suffix;
use capstan_text::BadTemplate;
use capstan_text::machine_name as from_template;

/// A Machine's name is used as a label value.
const LONGEST: usize = 63;
const RANDOM: usize = 5;
const DEFAULT: &str = "{{ .machineSet.name }}-{{ .random }}";

/// A new name for a Machine, from the template or the default one.
pub fn machine_name(template: Option<&str>, cluster: &str, machine_set: &str) -> Result<String, BadTemplate> {
    let name = from_template(template.unwrap_or(DEFAULT), cluster, machine_set, &random_suffix())?;
    Ok(match name.get(..LONGEST - RANDOM) {
        Some(start) if name.len() > LONGEST => format!("{start}{}", random_suffix()),
        _ => name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let name = machine_name(None, "c", &"m".repeat(80)).expect("a test value");
        assert_eq!(name.len(), LONGEST);
        assert_ne!(name, machine_name(None, "c", &"m".repeat(80)).expect("a test value"));
    }
}
