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

    /// Five characters for the name of an object of which a cluster has one. They should be the same at each try, so that
    /// an object that was created, and that the Cluster does not refer to yet, is not created again.
    fn lasting(&mut self, _what: &str) -> String {
        self.suffix()
    }
}

/// Characters that are known already.
struct Known(String);

impl Suffixes for Known {
    fn suffix(&mut self) -> String {
        self.0.clone()
    }
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

/// A name from a Go template for an object of which a cluster has one.
///
/// # Errors
/// If the template is invalid, or uses something else than the name of the cluster and random characters.
pub fn lasting_from_template(
    template: &str,
    cluster: &str,
    what: &str,
    suffixes: &mut dyn Suffixes,
) -> Result<String, TemplateError> {
    from_template(template, cluster, None, &mut Known(suffixes.lasting(what)))
}

/// A name from a prefix for an object of which there is one.
pub fn lasting_from_prefix(prefix: &str, what: &str, suffixes: &mut dyn Suffixes) -> String {
    from_prefix(prefix, &mut Known(suffixes.lasting(what)))
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
    fn an_object_of_which_there_is_one_has_one_name() {
        struct Counted(u64);
        impl Suffixes for Counted {
            fn suffix(&mut self) -> String {
                self.0 += 1;
                suffix_of(self.0)
            }
            fn lasting(&mut self, what: &str) -> String {
                what.to_string()
            }
        }
        let mut suffixes = Counted(0);
        for _ in 0..2 {
            let template = "{{ .cluster.name }}-{{ .random }}";
            assert_eq!(
                lasting_from_template(template, "c", "plane", &mut suffixes).as_deref(),
                Ok("c-plane")
            );
        }
        assert_ne!(from_prefix("a-", &mut suffixes), from_prefix("a-", &mut suffixes));
    }

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
