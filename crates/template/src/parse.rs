//! Parses text into parts.

use crate::{ParseError, Problem};

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Variable { name: String, form: Form },
}

/// What is made of a variable's value. Words may hold variables themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Length,
    Default(Vec<Part>),
    Case(Case),
    Substring { from: Vec<Part>, length: Option<Vec<Part>> },
    Trim { end: End, longest: bool, pattern: Vec<Part> },
    Replace { what: Which, old: Vec<Part>, new: Option<Vec<Part>> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    LowerFirst,
    Lower,
    UpperFirst,
    Upper,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    First,
    Every,
    Leading,
    Trailing,
}

impl Form {
    /// The words of the form, as clusterctl shows a variable's default.
    pub(crate) fn default_text(&self) -> String {
        let words: Vec<&[Part]> = match self {
            Self::Plain | Self::Length | Self::Case(_) => vec![],
            Self::Default(word) => vec![word],
            Self::Substring { from, length } => {
                [Some(from), length.as_ref()].into_iter().flatten().map(Vec::as_slice).collect()
            }
            Self::Trim { pattern, .. } => vec![pattern],
            Self::Replace { old, new, .. } => {
                [Some(old), new.as_ref()].into_iter().flatten().map(Vec::as_slice).collect()
            }
        };
        words
            .into_iter()
            .flatten()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Variable { name, .. } => format!("${{{name}}}"),
            })
            .collect()
    }
}

pub(crate) fn parse(text: &str) -> Result<Vec<Part>, ParseError> {
    let mut parser = Parser { text, at: 0 };
    parser.template().map_err(|(problem, at)| ParseError {
        line: text[..at].matches('\n').count() + 1,
        problem,
        excerpt: text[at..].lines().next().unwrap_or_default().chars().take(40).collect(),
    })
}

type Parsed<T> = Result<T, (Problem, usize)>;

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn template(&mut self) -> Parsed<Vec<Part>> {
        let mut parts = Parts::default();
        while let Some(c) = self.peek() {
            if self.take("$$") {
                // Whatever follows the second one, it begins nothing.
                parts.push('$');
            } else if self.rest().starts_with("${") {
                parts.variable(self.variable()?);
            } else {
                self.at += c.len_utf8();
                parts.push(c);
            }
        }
        Ok(parts.done())
    }

    fn variable(&mut self) -> Parsed<Part> {
        let start = self.at;
        self.at += "${".len();
        if self.take("#") {
            let name = self.name(start)?;
            self.close(start)?;
            return Ok(Part::Variable { name, form: Form::Length });
        }
        let name = self.name(start)?;
        let form = self.form(start)?;
        self.close(start)?;
        Ok(Part::Variable { name, form })
    }

    fn name(&mut self, start: usize) -> Parsed<String> {
        let length =
            self.rest().find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest().len());
        if length == 0 {
            return Err((Problem::Name, start));
        }
        let name = self.rest()[..length].to_owned();
        self.at += length;
        Ok(name)
    }

    fn close(&mut self, start: usize) -> Parsed<()> {
        match self.peek() {
            Some('}') => {
                self.at += 1;
                Ok(())
            }
            None => Err((Problem::Brace, start)),
            Some(_) => Err((Problem::Form, start)),
        }
    }

    fn form(&mut self, start: usize) -> Parsed<Form> {
        if self.peek() == Some('}') {
            return Ok(Form::Plain);
        }
        for token in [":=", ":-", ":?", ":+", "="] {
            if self.take(token) {
                return Ok(Form::Default(self.word(&['}'], false)?));
            }
        }
        for (token, case) in
            [("^^", Case::Upper), ("^", Case::UpperFirst), (",,", Case::Lower), (",", Case::LowerFirst)]
        {
            if self.take(token) {
                return Ok(Form::Case(case));
            }
        }
        for (token, end, longest) in [
            ("##", End::Front, true),
            ("#", End::Front, false),
            ("%%", End::Back, true),
            ("%", End::Back, false),
        ] {
            if self.take(token) {
                return Ok(Form::Trim { end, longest, pattern: self.word(&['}'], false)? });
            }
        }
        for (token, what) in
            [("//", Which::Every), ("/#", Which::Leading), ("/%", Which::Trailing), ("/", Which::First)]
        {
            if self.take(token) {
                return self.replace(what, start);
            }
        }
        if self.take(":") {
            let from = self.word(&[':', '}'], false)?;
            let length = if self.take(":") { Some(self.word(&['}'], false)?) } else { None };
            return Ok(Form::Substring { from, length });
        }
        Err((if self.rest().contains('}') { Problem::Form } else { Problem::Brace }, start))
    }

    fn replace(&mut self, what: Which, start: usize) -> Parsed<Form> {
        let old = self.word(&['/'], true)?;
        if !self.take("/") {
            return Err((Problem::Form, start));
        }
        let new = if self.peek() == Some('}') { None } else { Some(self.word(&['}'], true)?) };
        Ok(Form::Replace { what, old, new })
    }

    /// A word up to one of `ends`, which is left. With `escapes`, a backslash takes the meaning from a slash
    /// or another backslash.
    fn word(&mut self, ends: &[char], escapes: bool) -> Parsed<Vec<Part>> {
        let mut parts = Parts::default();
        while let Some(c) = self.peek() {
            if escapes && (self.take(r"\/") || self.take(r"\\")) {
                parts.push(if self.text[..self.at].ends_with('/') { '/' } else { '\\' });
            } else if self.rest().starts_with("${") {
                parts.variable(self.variable()?);
            } else if ends.contains(&c) {
                break;
            } else {
                self.at += c.len_utf8();
                parts.push(c);
            }
        }
        Ok(parts.done())
    }
}

/// Parts as they come, with characters that follow each other in one text.
#[derive(Default)]
struct Parts {
    parts: Vec<Part>,
}

impl Parts {
    fn push(&mut self, c: char) {
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.push(c),
            _ => self.parts.push(Part::Text(c.to_string())),
        }
    }

    fn variable(&mut self, variable: Part) {
        self.parts.push(variable);
    }

    fn done(self) -> Vec<Part> {
        self.parts
    }
}
