//! Variables in cluster templates, in the dialect clusterctl uses.
//!
//! What lives here: parsing a template, listing its variables with their defaults, and putting values in. It
//! takes text and gives text. What must not: files, the environment, and any knowledge of what is in a template.
//!
//! The dialect is that of `drone/envsubst`, which resembles a shell's but is not one:
//!
//! | written | gives |
//! |---|---|
//! | `${V}` | the value |
//! | `${V=d}` `${V:=d}` `${V:-d}` `${V:?d}` `${V:+d}` | the value, or `d` when it is empty: all five alike |
//! | `${#V}` | its length in bytes |
//! | `${V^}` `${V^^}` `${V,}` `${V,,}` | the first letter, or all, in upper or lower case |
//! | `${V:2}` `${V:2:3}` | the part from byte 2 on, or 3 bytes of it |
//! | `${V#p}` `${V##p}` `${V%p}` `${V%%p}` | without the shortest or longest match of `p` in front or behind |
//! | `${V/a/b}` `${V//a/b}` `${V/#a/b}` `${V/%a/b}` | with the first, every, leading or trailing `a` replaced |
//! | `$$` | a `$` that begins nothing |
//!
//! Whatever the original renders is rendered alike, with two exceptions: a class such as `[a-z]` works behind `%`
//! as it does behind `#`, and a replacement may begin with a slash. Some forms that it refuses, such as an empty
//! pattern, are taken.
//!
//! clusterctl adds that blanks inside `${ V }` do not count, and that a variable without a value and without a
//! default is an error that names all of them.

mod glob;
mod legacy;
mod parse;
mod render;

use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

use parse::Part;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

/// Why a template cannot be parsed, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem} in {excerpt:?}")]
pub struct ParseError {
    /// Line of the template, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: Problem,
    /// The beginning of what could not be understood.
    pub excerpt: String,
}

/// What can be wrong with a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// `${` that is not followed by a name.
    #[error("a variable needs a name of letters, digits and underscores")]
    Name,
    /// `${…` without its `}`.
    #[error("a closing brace is missing")]
    Brace,
    /// Something after the name that is none of the forms above.
    #[error("this is not a substitution that can be made")]
    Form,
}

/// Variables that have neither a value nor a default.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "value for variables [{}] is not set: set them in the environment",
    .0.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
)]
pub struct Missing(pub BTreeSet<String>);

impl Template {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Ok(Self { parts: parse::parse(&legacy::without_blanks(text))? })
    }

    /// The variables, each with its default if the template has one. Where a variable stands several times, its
    /// first place counts.
    pub fn variables(&self) -> BTreeMap<String, Option<String>> {
        let mut variables = BTreeMap::new();
        for part in &self.parts {
            if let Part::Variable { name, form } = part {
                variables
                    .entry(name.clone())
                    .or_insert_with(|| Some(form.default_text()).filter(|text| !text.is_empty()));
            }
        }
        variables
    }

    /// The text with `value` in place of each variable. A variable without a value counts as empty, unless it
    /// has no default either: then nothing is rendered, and all such variables are named.
    pub fn render(&self, value: impl Fn(&str) -> Option<String>) -> Result<String, Missing> {
        let missing: BTreeSet<String> = self
            .variables()
            .into_iter()
            .filter(|(name, default)| default.is_none() && value(name).is_none())
            .map(|(name, _)| name)
            .collect();
        if !missing.is_empty() {
            return Err(Missing(missing));
        }
        Ok(render::render(&self.parts, &|name| value(name).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests;
