//! Properties of the terminal: whether there is one, its width, and whether to use colour. Fits text to the width.

use std::io::IsTerminal as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub(crate) use crate::progress::Progress;

/// Layout and colour of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) color: bool,
    /// Columns of the terminal, if there is one.
    pub(crate) width: Option<usize>,
    /// Lines are never wrapped.
    pub(crate) wide: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Color {
    Red,
    Green,
    Yellow,
    Cyan,
    Gray,
}

impl Color {
    const fn code(self) -> &'static str {
        match self {
            Self::Red => "\x1b[31m",
            Self::Green => "\x1b[32m",
            Self::Yellow => "\x1b[33m",
            Self::Cyan => "\x1b[36m",
            Self::Gray => "\x1b[90m",
        }
    }
}

/// What stands before the lines that a broken one goes on in, beside its own blanks.
const HANGING: usize = 4;
/// No line is broken into shorter ones.
const SHORTEST: usize = 30;

impl Look {
    /// The look of standard output, with the flags for colour and `wide`.
    pub(crate) fn of_stdout(asked: Option<bool>, wide: bool) -> Self {
        Self { color: color(asked), width: width(), wide }
    }

    /// The text in this colour, if colour is enabled.
    pub(crate) fn paint(self, color: Color, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("{}{text}\x1b[0m", color.code())
        } else {
            text.to_owned()
        }
    }

    /// Wraps the text to the width of the terminal. Without a terminal the text is unchanged, because programs such as
    /// grep read lines.
    pub(crate) fn fit(self, text: &str) -> String {
        match self.width {
            Some(width) if !self.wide => {
                let room = width.max(SHORTEST);
                text.lines().flat_map(|line| broken(line, room, HANGING)).map(|line| line + "\n").collect()
            }
            _ => text.to_owned(),
        }
    }
}

/// Removes control characters from a text, because text from machines must not control the terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && !matches!(letter, '\n' | '\t'), "\u{fffd}")
}

/// Splits a line into pieces of at most `room` columns, between words where possible. Continuation lines are aligned
/// with the text of the line or list item, and indented by `hanging` more columns.
pub(crate) fn broken(line: &str, room: usize, hanging: usize) -> Vec<String> {
    let words = line.trim_start_matches(' ');
    let item = if words.starts_with("* ") || words.starts_with("- ") { 2 } else { hanging };
    let indent = " ".repeat(line.len() - words.len() + item);
    let mut lines = Vec::new();
    let mut rest = line.to_owned();
    while let Some(at) = break_at(&rest, room) {
        lines.push(rest[..at].trim_end().to_owned());
        rest = format!("{indent}{}", rest[at..].trim_start());
    }
    lines.push(rest);
    lines
}

/// The last blank that leaves at most `room` columns before it, if the line is longer; else the first behind that.
fn break_at(line: &str, room: usize) -> Option<usize> {
    let start = line.len() - line.trim_start_matches(' ').len();
    let mut found = None;
    for (column, at, letter) in visible(line) {
        let is_blank = letter == ' ' && at > start;
        if is_blank && (column <= room || found.is_none()) {
            found = Some(at);
        }
        if !is_blank && column + letter.width().unwrap_or(0) > room && found.is_some() {
            return found;
        }
    }
    None
}

/// The characters that are shown, with their column and their place in the line: not those that only colour.
fn visible(line: &str) -> impl Iterator<Item = (usize, usize, char)> {
    let (mut is_code, mut next) = (false, 0);
    line.char_indices().filter_map(move |(at, letter)| {
        let was_code = is_code;
        is_code = letter == '\x1b' || is_code && letter != 'm';
        let column = next;
        (!is_code && !was_code).then(|| {
            next += letter.width().unwrap_or(0);
            (column, at, letter)
        })
    })
}

/// The display width of a text in columns: a Chinese character has two, a combining accent none.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// The text, padded with spaces to this width.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// The part of the line that fits the width.
pub(crate) fn cut(line: &str, width: usize) -> String {
    let first_outside =
        visible(line).find(|(column, _, letter)| column + letter.width().unwrap_or(0) > width);
    match first_outside {
        Some((_, at, _)) if line.contains('\x1b') => format!("{}\x1b[0m", &line[..at]),
        Some((_, at, _)) => line[..at].to_owned(),
        None => line.to_owned(),
    }
}

/// Whether to print in colour: on a terminal, unless somebody says otherwise. `NO_COLOR` goes before everything.
fn color(asked: Option<bool>) -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    decide(asked, forbidden, std::io::stdout().is_terminal())
}

fn decide(asked: Option<bool>, forbidden: bool, is_terminal: bool) -> bool {
    !forbidden && asked.unwrap_or(is_terminal)
}

/// Columns of the terminal; `None` if there is no terminal, or its width is unknown.
pub(crate) fn width() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_unless_somebody_says_otherwise() {
        for (asked, forbidden, is_terminal, expected) in [
            (None, false, true, true),
            (None, false, false, false),
            (Some(true), false, false, true),
            (Some(false), false, true, false),
            (Some(true), true, true, false),
            (None, true, true, false),
        ] {
            assert_eq!(decide(asked, forbidden, is_terminal), expected);
        }
    }

    #[test]
    fn a_line_that_is_too_long_goes_on_under_its_words() {
        assert_eq!(broken("  one two three", 9, 2), ["  one two", "    three"]);
        assert_eq!(broken("* one two three", 9, 0), ["* one two", "  three"]);
        assert_eq!(broken("a  b  c", 10, 4), ["a  b  c"], "columns stay");
        assert_eq!(broken("unbreakable", 4, 0), ["unbreakable"]);
        assert_eq!(broken("unbreakable at first", 4, 0), ["unbreakable", "at", "first"]);
        assert_eq!(broken("", 4, 0), [""]);
    }

    #[test]
    fn colours_take_no_room() {
        let look = Look { color: true, ..Look::default() };
        let line = format!("{} two", look.paint(Color::Red, "one"));
        assert_eq!(broken(&line, 7, 0), [line.as_str()]);
        assert_eq!(broken(&line, 6, 0), ["\x1b[31mone\x1b[0m", "two"]);
        assert_eq!(cut(&line, 7), line);
        assert_eq!(cut(&line, 2), "\x1b[31mon\x1b[0m");
        assert_eq!(cut("plain", 2), "pl");
    }

    #[test]
    fn wide_characters_take_two_columns_and_accents_none() {
        for (text, expected) in [("", 0), ("abc", 3), ("数据", 4), ("e\u{301}", 1), ("a│b", 3)] {
            assert_eq!(columns(text), expected, "{text}");
            assert_eq!(columns(&padded(text, 6)), 6, "{text}");
        }
        assert_eq!(padded("数据", 3), "数据");
        assert_eq!(cut("数据中心", 5), "数据");
        assert_eq!(cut("数据中心", 8), "数据中心");
        assert_eq!(cut("e\u{301}e\u{301}", 1), "e\u{301}");
        assert_eq!(broken("数据 中心 x", 5, 0), ["数据", "中心", "x"]);
        assert_eq!(broken("数据 中心 x", 9, 0), ["数据 中心", "x"]);
    }

    #[test]
    fn what_a_machine_says_does_not_steer_the_terminal() {
        assert_eq!(
            harmless("a\x1b]0;title\x07\tb\r\nc\u{9b}2J"),
            "a\u{fffd}]0;title\u{fffd}\tb\u{fffd}\nc\u{fffd}2J"
        );
    }

    #[test]
    fn only_a_terminal_that_is_narrow_breaks_lines() {
        let text = format!("{}\nshort\n", "word ".repeat(20).trim_end());
        let fit = |width, wide| Look { width, wide, color: false }.fit(&text);
        assert_eq!(fit(None, false), text);
        assert_eq!(fit(Some(40), true), text);
        assert!(fit(Some(40), false).lines().all(|line| line.len() <= 40));
        assert!(fit(Some(40), false).ends_with("\nshort\n"));
    }
}
