//! What programs print, as lines of coloured pieces that fit a terminal of a certain width. Pure.

/// Colours that `capstan` uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Color {
    Red,
    Green,
    Yellow,
    Cyan,
    Gray,
}

/// A span of a line in one colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ColoredText {
    pub(super) text: String,
    pub(super) color: Option<Color>,
}

pub(super) type Line = Vec<ColoredText>;

/// What goes on in another line stands this far to the right of where the line began.
const HANGING: usize = 4;

/// The lines of an output, each at most so many columns wide.
pub(super) fn lines(output: &str, width: usize) -> Vec<Line> {
    output
        .trim_end()
        .lines()
        .flat_map(|line| broken(&letters(line), width))
        .map(|line| one_colour_each(&line))
        .collect()
}

type Letter = (char, Option<Color>);

/// Every character with its colour. What else would steer a terminal is dropped.
fn letters(line: &str) -> Vec<Letter> {
    let mut letters = Vec::new();
    let mut color = None;
    let mut rest = line.chars();
    while let Some(letter) = rest.next() {
        if letter == '\x1b' {
            let code: String = rest.by_ref().take_while(|letter| !letter.is_ascii_alphabetic()).collect();
            color = match code.trim_start_matches('[') {
                "31" => Some(Color::Red),
                "32" => Some(Color::Green),
                "33" => Some(Color::Yellow),
                "36" => Some(Color::Cyan),
                "90" => Some(Color::Gray),
                _ => None,
            };
        } else if !letter.is_control() {
            letters.push((letter, color));
        }
    }
    letters
}

/// Broken between words, as `capstan` does it on a terminal.
fn broken(line: &[Letter], width: usize) -> Vec<Vec<Letter>> {
    let indent = line.iter().take_while(|(letter, _)| *letter == ' ').count() + HANGING;
    let mut lines = Vec::new();
    let mut rest = line.to_vec();
    while rest.len() > width {
        let start = rest.iter().take_while(|(letter, _)| *letter == ' ').count();
        let blank = (start + 1..=width).rev().find(|at| rest[*at].0 == ' ');
        let at = blank.unwrap_or(width);
        let next = rest.split_off(at);
        let next = next.into_iter().skip_while(|(letter, _)| *letter == ' ');
        lines.push(rest);
        rest = std::iter::repeat_n((' ', None), indent.min(width / 2)).chain(next).collect();
    }
    lines.push(rest);
    lines
}

fn one_colour_each(letters: &[Letter]) -> Line {
    let mut line: Line = Vec::new();
    for (letter, color) in letters {
        match line.last_mut() {
            Some(span) if span.color == *color => span.text.push(*letter),
            _ => line.push(ColoredText { text: letter.to_string(), color: *color }),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str, color: Option<Color>) -> ColoredText {
        ColoredText { text: text.to_owned(), color }
    }

    #[test]
    fn colours_become_spans_and_no_other_control_character_has_an_effect() {
        let line = lines("a \x1b[31mred\x1b[0m\x07 b\x1b[2J\n", 80);
        assert_eq!(line, [[span("a ", None), span("red", Some(Color::Red)), span(" b", None)]]);
    }

    #[test]
    fn long_lines_go_on_under_their_beginning() {
        let plain = |line: &Line| line.iter().map(|span| span.text.as_str()).collect::<String>();
        let wrapped: Vec<String> = lines("  one two three four", 12).iter().map(plain).collect();
        assert_eq!(wrapped, ["  one two", "      three", "      four"]);
        let wrapped: Vec<String> = lines("unbreakable", 4).iter().map(plain).collect();
        assert!(wrapped.iter().all(|line| line.len() <= 4), "{wrapped:?}");
    }
}
