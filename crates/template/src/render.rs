//! Renders parts as text.

use crate::glob::Glob;
use crate::parse::{Case, End, Form, Part, Which};

pub(crate) fn render(parts: &[Part], value: &dyn Fn(&str) -> String) -> String {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Variable { name, form } => substitute(&value(name), form, &|word| render(word, value)),
        })
        .collect()
}

fn substitute(value: &str, form: &Form, word: &dyn Fn(&[Part]) -> String) -> String {
    match form {
        Form::Plain => value.to_owned(),
        Form::Length => value.len().to_string(),
        Form::Default(default) if value.is_empty() => word(default),
        Form::Default(_) => value.to_owned(),
        Form::Case(case) => in_case(value, *case),
        Form::Substring { from, length } => {
            substring(value, &word(from), length.as_ref().map(|length| word(length)).as_deref())
        }
        Form::Trim { end, longest, pattern } => trim(value, &word(pattern), *end, *longest),
        Form::Replace { what, old, new } => {
            replace(value, *what, &word(old), new.as_ref().map(|new| word(new)).as_deref())
        }
    }
}

fn in_case(value: &str, case: Case) -> String {
    let (first, rest) = value.split_at(value.chars().next().map_or(0, char::len_utf8));
    match case {
        Case::Lower => value.to_lowercase(),
        Case::Upper => value.to_uppercase(),
        Case::LowerFirst => first.to_lowercase() + rest,
        Case::UpperFirst => first.to_uppercase() + rest,
    }
}

/// By bytes, as upstream counts. A number that cannot be read leaves the value as it is.
fn substring(value: &str, from: &str, length: Option<&str>) -> String {
    let (Ok(from), Ok(length)) = (from.parse::<i64>(), length.map(str::parse::<i64>).transpose()) else {
        return value.to_owned();
    };
    let size = i64::try_from(value.len()).unwrap_or(i64::MAX);
    let start = if from < 0 { (size + from).max(0) } else { from.min(size) };
    let end = length.map_or(size, |length| start.saturating_add(length).clamp(start, size));
    let bytes: Vec<u8> = value
        .bytes()
        .zip(0_i64..)
        .filter(|(_, index)| (start..end).contains(index))
        .map(|(byte, _)| byte)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A pattern that is not one matches nothing.
fn trim(value: &str, pattern: &str, end: End, longest: bool) -> String {
    let Some(glob) = Glob::parse(pattern) else { return value.to_owned() };
    let cuts = value.char_indices().map(|(at, _)| at).chain([value.len()]);
    let mut matches = cuts.filter(|&at| match end {
        End::Front => at > 0 && glob.matches(&value[..at]),
        End::Back => at < value.len() && glob.matches(&value[at..]),
    });
    // The longest match in front ends last; the longest one behind begins first.
    let cut = match (end, longest) {
        (End::Front, true) | (End::Back, false) => matches.next_back(),
        (End::Front, false) | (End::Back, true) => matches.next(),
    };
    match (cut, end) {
        (None, _) => value.to_owned(),
        (Some(at), End::Front) => value[at..].to_owned(),
        (Some(at), End::Back) => value[..at].to_owned(),
    }
}

fn replace(value: &str, what: Which, old: &str, new: Option<&str>) -> String {
    match (what, new) {
        (Which::First, new) => value.replacen(old, new.unwrap_or_default(), 1),
        (Which::Every, new) => value.replace(old, new.unwrap_or_default()),
        (Which::Leading, Some(new)) => {
            value.strip_prefix(old).map_or_else(|| value.to_owned(), |rest| format!("{new}{rest}"))
        }
        (Which::Trailing, Some(new)) => {
            value.strip_suffix(old).map_or_else(|| value.to_owned(), |rest| format!("{rest}{new}"))
        }
        // Upstream leaves the value as it is when there is nothing to put in place.
        (Which::Leading | Which::Trailing, None) => value.to_owned(),
    }
}
