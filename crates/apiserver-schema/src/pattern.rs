//! Translates Go's regular expressions into Rust's. Both follow RE2, with differences: in Go `\d`, `\w`, `\s` and `\b`
//! are ASCII, `{` and most characters of a class are literal where they have no other meaning, and `\Q…\E` and octal
//! escapes exist. This file only translates; the regex crate matches.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex::{Regex, RegexBuilder};

/// Patterns that are kept compiled, and how long and how large each may be: whoever writes objects may choose them.
const KEPT: usize = 64;
const LONGEST_KEPT: usize = 4096;
const LARGEST_KEPT: usize = 128 << 10;

/// Compiles a pattern written for Go's `regexp`. The error is text for the person who wrote the pattern.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    // Go refuses repetitions over 1000 and otherwise has no limit on size; ten megabytes is room for those.
    compile_within(pattern, 10 << 20)
}

/// The same for a pattern that is met with every object, as those of rules are: the last ones are kept.
pub(crate) fn recall(pattern: &str) -> Result<Arc<Regex>, String> {
    static COMPILED: LazyLock<Mutex<HashMap<String, Arc<Regex>>>> = LazyLock::new(Mutex::default);
    let compiled = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = compiled().get(pattern) {
        return Ok(Arc::clone(known));
    }
    if pattern.len() > LONGEST_KEPT {
        return compile(pattern).map(Arc::new);
    }
    let Ok(small) = compile_within(pattern, LARGEST_KEPT) else { return compile(pattern).map(Arc::new) };
    let small = Arc::new(small);
    let mut compiled = compiled();
    if compiled.len() >= KEPT {
        compiled.clear();
    }
    compiled.insert(pattern.to_owned(), Arc::clone(&small));
    Ok(small)
}

fn compile_within(pattern: &str, bytes: usize) -> Result<Regex, String> {
    let translated = translate(pattern)?;
    // What it may remember while it matches, beside itself: no more than the crate's own choice.
    let remembered = bytes.min(2 << 20);
    let built = RegexBuilder::new(&translated).size_limit(bytes).dfa_size_limit(remembered).build();
    built.map_err(|error| last_line(&error))
}

/// The regex crate draws the pattern over several lines; the reason is the last of them.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_string()
}

fn translate(pattern: &str) -> Result<String, String> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        match c {
            '\\' => at = escape(&chars, at, false, &mut out)?,
            '[' => at = class(&chars, at, &mut out)?,
            '{' if !is_repetition(&chars[at..]) => {
                out.push_str("\\{");
                at += 1;
            }
            c => {
                out.push(c);
                at += 1;
            }
        }
    }
    Ok(out)
}

fn is_repetition(chars: &[char]) -> bool {
    let inner: String = chars.iter().skip(1).take_while(|c| **c != '}').collect();
    let closed = chars.len() > inner.chars().count() + 1;
    let (low, high) = inner.split_once(',').unwrap_or((&inner, ""));
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    closed && !low.is_empty() && digits(low) && digits(high)
}

/// Translates the escape that starts at `at` and returns the place after it.
fn escape(chars: &[char], at: usize, in_class: bool, out: &mut String) -> Result<usize, String> {
    let Some(&c) = chars.get(at + 1) else { return Err("trailing backslash at end of expression".into()) };
    match c {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\x0C\\r ]"),
        'S' => out.push_str("[^\\t\\n\\x0C\\r ]"),
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        // The regex crate refuses the ASCII one, because it could split a character, and means another by its own.
        'B' if !in_class => return Err("`\\B` is not supported".into()),
        'Q' if !in_class => return Ok(literal(chars, at + 2, out)),
        '0'..='7' => return octal(chars, at + 1, out),
        'C' => return Err("`\\C` is not supported".into()),
        'a' | 'f' | 't' | 'n' | 'r' | 'v' | 'x' | 'p' | 'P' => out.extend(['\\', c]),
        'A' | 'z' if !in_class => out.extend(['\\', c]),
        c if c.is_ascii_punctuation() => out.extend(['\\', c]),
        c => return Err(format!("invalid escape sequence: `\\{c}`")),
    }
    Ok(at + 2)
}

/// `\Q…\E`
fn literal(chars: &[char], mut at: usize, out: &mut String) -> usize {
    while at < chars.len() {
        if chars[at..].starts_with(&['\\', 'E']) {
            return at + 2;
        }
        out.push_str(&regex::escape(&chars[at].to_string()));
        at += 1;
    }
    at
}

fn octal(chars: &[char], at: usize, out: &mut String) -> Result<usize, String> {
    let digits: String = chars[at..].iter().take(3).take_while(|c| ('0'..='7').contains(*c)).collect();
    // RE2 reads a single non-zero digit as a back reference, which it does not have.
    if digits.len() == 1 && digits != "0" {
        return Err(format!("invalid escape sequence: `\\{digits}`"));
    }
    let code = u32::from_str_radix(&digits, 8).map_err(|error| error.to_string())?;
    out.push_str(&format!("\\x{{{code:x}}}"));
    Ok(at + digits.len())
}

/// Translates the class that starts at `at`. Rust reads `[`, `&&`, `--` and `~~` within a class as set
/// operators, Go as themselves.
fn class(chars: &[char], mut at: usize, out: &mut String) -> Result<usize, String> {
    out.push('[');
    at += 1;
    if chars.get(at) == Some(&'^') {
        out.push('^');
        at += 1;
    }
    let start = at;
    while let Some(&c) = chars.get(at) {
        match c {
            ']' if at > start => {
                out.push(']');
                return Ok(at + 1);
            }
            ']' => out.push_str("\\]"),
            '\\' => {
                at = escape(chars, at, true, out)?;
                continue;
            }
            '[' if chars.get(at + 1) == Some(&':') => {
                let end = (at + 2..chars.len()).find(|i| chars[*i..].starts_with(&[':', ']']));
                if let Some(end) = end {
                    out.extend(&chars[at..end + 2]);
                    at = end + 2;
                    continue;
                }
                out.push_str("\\[");
            }
            '[' | '&' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
        at += 1;
    }
    Err("missing closing ]".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        compile(pattern).is_ok_and(|pattern| pattern.is_match(text))
    }

    #[test]
    fn what_is_recalled_is_what_would_be_compiled() {
        for number in 0..=KEPT {
            let pattern = format!("^a{{{number}}}$");
            for _ in 0..2 {
                assert!(
                    recall(&pattern).is_ok_and(|pattern| pattern.is_match(&"a".repeat(number))),
                    "{pattern}"
                );
            }
        }
        let large = r"^(\pL{1,10} ){4}$";
        assert!(compile_within(large, LARGEST_KEPT).is_err());
        assert!(recall(large).is_ok_and(|pattern| pattern.is_match(&"ä ".repeat(4))));
        assert_eq!(recall("[").map(drop), compile("[").map(drop));
    }

    #[test]
    fn perl_classes_are_ascii() {
        assert!(matches(r"^\d\w\s$", "1a "));
        assert!(!matches(r"^\d$", "٣"));
        assert!(!matches(r"^\w$", "é"));
        assert!(matches(r"^[\W]$", "é"));
    }

    #[test]
    fn braces_and_brackets_may_stand_for_themselves() {
        assert!(matches(r"^{a}$", "{a}"));
        assert!(matches(r"^x{,2}$", "x{,2}"));
        assert!(matches(r"^x{2,3}$", "xx"));
        assert!(matches(r"^[a[&&]+$", "a[&"));
        assert!(matches(r"^[[:alpha:]]$", "a"));
        assert!(matches(r"^[]a]+$", "]a"));
    }

    #[test]
    fn escapes_only_go_knows() {
        assert!(matches(r"^\Qa.b\E$", "a.b"));
        assert!(!matches(r"^\Qa.b\E$", "axb"));
        assert!(matches(r"^\101\x{42}$", "AB"));
    }

    #[test]
    fn mistakes_are_refused() {
        for pattern in ["(", r"\1", r"\8", "[a", r"(?=a)", "\\"] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }
}
