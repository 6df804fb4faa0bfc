//! Variables in cluster templates, in the dialect clusterctl uses.
//!
//! This crate parses a template, lists its variables with their defaults, and substitutes values. It takes text and
//! returns text. It must not use files or the environment, and must not know what a template contains.
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
//! Everything that `drone/envsubst` renders is rendered identically, with two exceptions: a class such as `[a-z]` works
//! after `%` as it does after `#`, and a replacement may begin with a slash. Some forms that it rejects, such as an
//! empty pattern, are accepted.
//!
//! clusterctl adds two rules: white space inside `${ V }` is ignored, and variables with neither a value nor a default
//! cause one error that names all of them.

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
    /// The beginning of the text that could not be parsed.
    pub excerpt: String,
}

/// The kinds of syntax errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// `${` that is not followed by a name.
    #[error("a variable needs a name of letters, digits and underscores")]
    Name,
    /// `${…` without its `}`.
    #[error("a closing brace is missing")]
    Brace,
    /// The text after the name is none of the supported forms.
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

    /// The variables, each with its default if the template has one. If a variable occurs several times, the first
    /// occurrence is used.
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

    /// Renders the template with these values. A variable without a value is treated as empty if it has a default. If
    /// variables have neither, nothing is rendered, and the error names all of them.
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
