//! The content of a view, ready to draw: parts of safe text with their colours. Pure.

use capstan_ui::model::{Age, Tone};
use jiff::Timestamp;

use super::safe::Safe;
use super::state::{Name, View};
use crate::describe;

/// Style of a part of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Paint {
    #[default]
    Plain,
    Dim,
    Title,
    Tone(Tone),
}

/// Text in one style.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PaintedText {
    pub(super) text: Safe,
    pub(super) paint: Paint,
}

impl PaintedText {
    pub(super) fn new(text: &str, paint: Paint) -> Self {
        Self { text: Safe::line(text), paint }
    }
}

/// A line of parts, separated by spaces, with an indent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TextLine {
    pub(super) indent: usize,
    pub(super) parts: Vec<PaintedText>,
}

impl TextLine {
    pub(super) fn at(indent: usize) -> Self {
        Self { indent, parts: Vec::new() }
    }

    /// Adds a part, unless its text is empty.
    pub(super) fn with(mut self, text: &str, paint: Paint) -> Self {
        let part = PaintedText::new(text, paint);
        if part.text.width() > 0 {
            self.parts.push(part);
        }
        self
    }

    /// Adds a part in a column of at least this width.
    pub(super) fn column(mut self, text: &str, paint: Paint, width: usize) -> Self {
        let part = PaintedText::new(text, paint);
        let blanks = width.saturating_sub(part.text.width());
        self.parts.push(part);
        if blanks > 0 {
            // One blank comes with the next part.
            self.parts.push(PaintedText { text: Safe::blanks(blanks - 1), paint: Paint::Plain });
        }
        self
    }

    /// The line as plain text.
    pub(super) fn text(&self) -> String {
        let parts: Vec<&str> = self.parts.iter().map(|part| part.text.as_str()).collect();
        format!("{}{}", " ".repeat(self.indent), parts.join(" "))
    }
}

/// A text, wrapped to the width, all lines indented.
pub(super) fn paragraph(indent: usize, text: &str, paint: Paint, width: usize) -> Vec<TextLine> {
    let room = width.saturating_sub(indent);
    let lines = Safe::lines(text).into_iter().filter(|line| line.width() > 0);
    lines
        .flat_map(|line| line.wrapped(room))
        .map(|text| TextLine { indent, parts: vec![PaintedText { text, paint }] })
        .collect()
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) name: Name,
    pub(super) cells: Vec<PaintedText>,
    /// The view that Enter opens.
    pub(super) opens: View,
    /// The view that `d` opens.
    pub(super) details: View,
    /// Text that is shown while the row is selected.
    pub(super) note: Vec<(String, Paint)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) titles: &'static [&'static str],
    pub(super) rows: Vec<Row>,
    /// Number of rows without the filter.
    pub(super) total: usize,
    /// Text that is shown if there are no rows.
    pub(super) empty: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Table(Table),
    Text(Vec<TextLine>),
}

/// The content of a view, without its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// Lines above the body.
    pub(super) summary: Vec<TextLine>,
    pub(super) body: Body,
    /// What could not be read.
    pub(super) notices: Vec<String>,
}

impl Shown {
    pub(super) fn text(lines: Vec<TextLine>) -> Self {
        Self { summary: Vec::new(), body: Body::Text(lines), notices: Vec::new() }
    }

    /// Number of rows or lines.
    pub(super) fn len(&self) -> usize {
        match &self.body {
            Body::Table(table) => table.rows.len(),
            Body::Text(lines) => lines.len(),
        }
    }

    pub(super) fn rows(&self) -> &[Row] {
        match &self.body {
            Body::Table(table) => &table.rows,
            Body::Text(_) => &[],
        }
    }
}

/// The current age, because pages are drawn more often than they are loaded.
pub(super) fn ago(age: Option<&Age>, now: Timestamp) -> String {
    let Some(age) = age else { return String::new() };
    age.at.parse().map_or_else(|_| age.text.clone(), |at| describe::age(at, now))
}

/// Whether a text matches a filter, ignoring case.
pub(super) fn matches(text: &str, filter: &str) -> bool {
    filter.is_empty() || text.to_lowercase().contains(&filter.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_filled_with_blanks() {
        let line = TextLine::at(2)
            .column("a", Paint::Plain, 4)
            .column("long", Paint::Plain, 2)
            .with("b", Paint::Dim);
        assert_eq!(line.text(), "  a    long b");
        assert_eq!(TextLine::at(0).with("", Paint::Plain).with("a", Paint::Plain).text(), "a");
    }

    #[test]
    fn ages_count_on_between_two_reads() {
        let age = Age { at: "1970-01-01T00:00:00Z".to_owned(), text: "1s".to_owned() };
        assert_eq!(ago(Some(&age), Timestamp::from_second(90).expect("a time")), "90s");
        assert_eq!(ago(None, Timestamp::UNIX_EPOCH), "");
    }

    #[test]
    fn a_paragraph_fits_the_width() {
        let lines = paragraph(2, "one two\n\nthree", Paint::Plain, 6);
        assert_eq!(lines.iter().map(TextLine::text).collect::<Vec<_>>(), ["  one", "  two", "  thre", "  e"]);
    }

    #[test]
    fn filters_ignore_the_case() {
        assert!(matches("Shop", "sho") && matches("shop", "SHO") && matches("x", "") && !matches("x", "y"));
    }
}
