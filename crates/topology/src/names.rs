//! Names of new objects: from templates or prefixes, with five random characters. The caller brings the characters,
//! because nothing here is random.

use crate::gotemplate::{self, Data, Dialect, TemplateError};
use serde_json::{Map, Value, json};

/// The longest name.
const MOST: usize = 63;
/// The number of random characters.
const RANDOM: usize = 5;
/// Letters and digits that form no words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Where random characters come from.
pub trait Suffixes {
    /// Five characters for a new name.
    fn suffix(&mut self) -> String;
}

impl<F: FnMut() -> u64> Suffixes for F {
    /// Makes the characters of a random number.
    fn suffix(&mut self) -> String {
        suffix_of(self())
    }
}

/// Five characters that stand for a number.
pub fn suffix_of(mut number: u64) -> String {
    let base = ALPHABET.len() as u64;
    (0..RANDOM)
        .map(|_| {
            let letter = ALPHABET[(number % base) as usize];
            number /= base;
            char::from(letter)
        })
        .collect()
}

/// A name from a prefix.
pub fn from_prefix(prefix: &str, suffixes: &mut dyn Suffixes) -> String {
    format!("{}{}", cut(prefix), suffixes.suffix())
}

/// A name from a Go template. It sees the name of the cluster, random characters, and the name in the topology as
/// `.<workers>.topologyName`.
///
/// # Errors
/// If the template is invalid, or uses something else.
pub fn from_template(
    template: &str,
    cluster: &str,
    workers: Option<(&str, &str)>,
    suffixes: &mut dyn Suffixes,
) -> Result<String, TemplateError> {
    let mut data = Map::from_iter([
        ("cluster".to_string(), json!({"name": cluster})),
        ("random".to_string(), Value::from(suffixes.suffix())),
    ]);
    if let Some((kind, name)) = workers {
        data.insert(kind.to_string(), json!({"topologyName": name}));
    }
    let name = gotemplate::render(template, &Data::new(&Value::Object(data)), Dialect::Names)?;
    if name.len() > MOST {
        return Ok(from_prefix(&name, suffixes));
    }
    Ok(name)
}

/// A prefix that leaves room for random characters.
fn cut(prefix: &str) -> &str {
    let most = prefix.floor_char_boundary(MOST - RANDOM);
    &prefix[..most]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_random_characters() {
        let mut numbers = 0..;
        let mut suffixes = move || numbers.next().expect("numbers do not end");
        assert_eq!(from_prefix("a-", &mut suffixes), "a-bbbbb");
        assert_eq!(from_prefix(&"a".repeat(80), &mut suffixes), format!("{}cbbbb", "a".repeat(58)));
        let template = "{{ .cluster.name }}-{{ .machineDeployment.topologyName }}-{{ .random }}";
        let name = from_template(template, "c", Some(("machineDeployment", "md")), &mut suffixes);
        assert_eq!(name.as_deref(), Ok("c-md-dbbbb"));
        let long =
            from_template("{{ .cluster.name }}", &"c".repeat(64), None, &mut suffixes).expect("a name");
        assert_eq!((long.len(), long.ends_with("gbbbb")), (63, true), "{long}");
        assert!(from_template(template, "c", None, &mut suffixes).is_err());
    }
}
