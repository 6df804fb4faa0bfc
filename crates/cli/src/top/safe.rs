//! Text without terminal control sequences. Pure.
//!
//! Names, messages and output come from machines, which are not trusted. Only a [`Safe`] is drawn, and none of its
//! constructors keeps escape sequences, control characters or characters that change the direction of text.

use std::iter::Peekable;
use std::str::Chars;
use unicode_width::UnicodeWidthChar as _;

/// Marks on one letter that are kept: more would be drawn over the lines above and below.
const MARKS: usize = 2;
/// What a text that was cut ends with.
const ELLIPSIS: char = '…';

/// One line of text without control sequences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Safe(String);

impl Safe {
    /// The text as one line.
    pub(super) fn line(text: &str) -> Self {
        let words: Vec<String> = stripped(text).lines().map(|line| line.trim().to_owned()).collect();
        Self(words.join(" ").trim().to_owned())
    }

    /// The lines of the text.
    pub(super) fn lines(text: &str) -> Vec<Self> {
        stripped(text).lines().map(|line| Self(line.trim_end().to_owned())).collect()
    }

    /// This number of spaces.
    pub(super) fn blanks(count: usize) -> Self {
        Self(" ".repeat(count))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Display width in columns.
    pub(super) fn width(&self) -> usize {
        self.0.chars().map(columns).sum()
    }

    /// The part that fits this width.
    pub(super) fn cut(&self, room: usize) -> Self {
        if self.width() <= room {
            return self.clone();
        }
        let Some(room) = room.checked_sub(1) else { return Self::default() };
        let mut cut = self.0[..fitting(&self.0, room)].trim_end().to_owned();
        cut.push(ELLIPSIS);
        Self(cut)
    }

    /// The text, wrapped to this width, between words where possible.
    pub(super) fn wrapped(&self, room: usize) -> Vec<Self> {
        let room = room.max(2);
        let mut lines = Vec::new();
        let mut rest = self.0.as_str();
        loop {
            let end = fitting(rest, room);
            if end == rest.len() {
                lines.push(Self(rest.to_owned()));
                return lines;
            }
            // A blank directly behind what fits is as good as one inside.
            let blank = match rest[end..].starts_with(' ') {
                true => Some(end),
                false => {
                    rest[..end].trim_start().rfind(' ').map(|at| end - rest[..end].trim_start().len() + at)
                }
            };
            let at = blank.filter(|at| *at > 0).unwrap_or(end);
            lines.push(Self(rest[..at].trim_end().to_owned()));
            rest = rest[at..].trim_start();
        }
    }
}

/// How many bytes of the text fit into so many columns.
fn fitting(text: &str, room: usize) -> usize {
    let mut width = 0;
    let too_much = text.char_indices().find(|(_, letter)| {
        width += columns(*letter);
        width > room
    });
    too_much.map_or(text.len(), |(at, _)| at)
}

fn columns(letter: char) -> usize {
    letter.width().unwrap_or(0)
}

/// The text without escape sequences and without characters that steer.
fn stripped(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut marks = 0;
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => skip_escape(&mut letters),
            '\u{9b}' => skip_sequence(&mut letters),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => skip_string(&mut letters),
            '\n' => kept.push('\n'),
            // A program that draws over its line begins another one.
            '\r' if letters.peek() != Some(&'\n') => kept.push('\n'),
            '\t' => kept.push_str("    "),
            steering if is_steering(steering) => {}
            mark if columns(mark) == 0 => {
                marks += 1;
                if marks <= MARKS && !kept.is_empty() {
                    kept.push(mark);
                }
            }
            letter => {
                marks = 0;
                kept.push(letter);
            }
        }
    }
    kept
}

/// Control characters, and those that are not seen but change what is: direction, joins, variants, tags.
fn is_steering(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// What follows an escape character.
fn skip_escape(letters: &mut Peekable<Chars<'_>>) {
    match letters.peek() {
        Some('[') => {
            letters.next();
            skip_sequence(letters);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            letters.next();
            skip_string(letters);
        }
        _ => {
            while letters.next_if(|letter| (' '..='/').contains(letter)).is_some() {}
            letters.next_if(|letter| ('0'..='~').contains(letter));
        }
    }
}

/// The parameters of a control sequence, and its last character.
fn skip_sequence(letters: &mut Peekable<Chars<'_>>) {
    while letters.next_if(|letter| (' '..='?').contains(letter)).is_some() {}
    letters.next_if(|letter| ('@'..='~').contains(letter));
}

/// A control string, such as the title of a window. One without an end takes no more than its line.
fn skip_string(letters: &mut Peekable<Chars<'_>>) {
    while let Some(letter) = letters.next_if(|letter| *letter != '\n') {
        match letter {
            '\x07' | '\u{9c}' => return,
            '\x1b' => {
                letters.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        Safe::line(text).as_str().to_owned()
    }

    #[test]
    fn escape_sequences_are_removed_whole() {
        for (text, expected) in [
            ("a\x1b[31;1mred\x1b[0m", "ared"),
            ("a\x1b]0;title\x07b", "ab"),
            ("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
            ("a\x1bP1$r0m\u{9c}b", "ab"),
            ("a\u{9b}2Jb\u{9d}0;t\x07c", "abc"),
            ("a\x1b(Bb\x1bcc", "abc"),
            ("a\x1b[?1049hb", "ab"),
            ("a\x1b]52;c;no end\nb", "a b"),
            ("a\x1b", "a"),
            ("a\x1b[12", "a"),
        ] {
            assert_eq!(line(text), expected, "{text:?}");
        }
    }

    #[test]
    fn characters_that_steer_are_removed() {
        assert_eq!(line("a\x08\x7f\x00b\u{202e}c\u{2066}d\u{feff}e\u{200d}f"), "abcdef");
        assert_eq!(line("a\tb\r\nc\rd"), "a    b c d");
        assert_eq!(line(&format!("a{}b", "\u{301}".repeat(50))), "a\u{301}\u{301}b");
        assert_eq!(line("\u{301}a"), "a");
    }

    #[test]
    fn every_character_of_a_safe_text_takes_room_or_is_a_mark() {
        let all: String = ('\0'..='\u{ffff}').collect();
        for line in Safe::lines(&all) {
            assert!(!line.as_str().contains(|letter: char| letter.is_control() || is_steering(letter)));
        }
    }

    #[test]
    fn texts_are_cut_by_the_columns_they_take() {
        for (text, room, expected) in [
            ("plain", 5, "plain"),
            ("plain", 4, "pla…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("日本語", 1, "…"),
            ("plain", 0, ""),
        ] {
            let cut = Safe::line(text).cut(room);
            assert_eq!(cut.as_str(), expected, "{text} {room}");
            assert!(cut.width() <= room, "{text} {room}");
        }
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let wrapped = |text: &str, room| -> Vec<String> {
            Safe::line(text).wrapped(room).iter().map(|line| line.as_str().to_owned()).collect()
        };
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable", 4), ["unbr", "eaka", "ble"]);
        assert_eq!(wrapped("日本語", 5), ["日本", "語"]);
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(wrapped("日本", 1), ["日", "本"]);
    }
}
