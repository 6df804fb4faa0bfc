//! Parses text into a tree that can be walked safely. The parser limits only some kinds of depth; with other kinds the
//! stack overflows and the process aborts, such as with a sum of five thousand terms. So the depth of the text is
//! measured before it is parsed.
//!
//! The measurement overestimates: text that the lexer might not accept as a string is not treated as a string here.

use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::parser::Parser;

/// The longest expression, in characters; as upstream.
const LONGEST: usize = 100_000;
/// The deepest tree.
pub(super) const DEEPEST: usize = 250;
/// How many brackets and conditions may stand in each other: two thirds of what the parser bears.
const MOST_NESTED: usize = 60;

/// Parses an expression.
pub(super) fn parse(source: &str) -> Result<IdedExpr, String> {
    let size = source.chars().count();
    if size > LONGEST {
        return Err(format!("expression code point size exceeds limit: size: {size}, limit {LONGEST}"));
    }
    if !is_shallow(source.as_bytes()) {
        return Err(format!("expression recursion limit exceeded: {DEEPEST}"));
    }
    let parsed = Parser::new().enable_optional_syntax(true).parse(source);
    parsed.map_err(|errors| errors.to_string().replace('\n', " "))
}

/// What stands between two brackets, as far as it has been read.
#[derive(Clone, Copy, Default)]
struct Level {
    /// How deep the bracket itself is.
    base: usize,
    /// Conditions, each of which holds the next.
    conditions: usize,
    /// Operators, fields and calls in a row, each of which holds the one before.
    links: usize,
}

impl Level {
    fn depth(self) -> usize {
        self.base + self.conditions + self.links
    }
}

/// Whether the tree of an expression is no deeper than may be.
fn is_shallow(source: &[u8]) -> bool {
    let (mut outer, mut level, mut conditions) = (Vec::new(), Level::default(), 0);
    let mut at = 0;
    while let Some(&byte) = source.get(at) {
        let rest = &source[at..];
        at += 1;
        match byte {
            b'"' | b'\'' => at += text(rest, false).map_or(0, |length| length - 1),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
                let length = length.count();
                let is_raw = match &rest[..length] {
                    b"r" | b"R" | b"br" | b"bR" | b"Br" | b"BR" => true,
                    b"in" => {
                        level.links += 1;
                        false
                    }
                    _ => false,
                };
                at += length - 1 + if is_raw { text(&rest[length..], true).unwrap_or(0) } else { 0 };
            }
            b'/' if rest.get(1) == Some(&b'/') => {
                at += rest.iter().take_while(|byte| **byte != b'\n').count() - 1;
            }
            b'(' | b'[' | b'{' => {
                outer.push((level, conditions));
                level = Level { base: level.depth() + 1, ..Level::default() };
            }
            b')' | b']' | b'}' => {
                (level, conditions) = outer.pop().unwrap_or_default();
                level.links += 1;
            }
            // Each of these is a row of equals, which does not get deep.
            b',' => {
                level = Level { base: level.base, ..Level::default() };
                conditions = outer.last().map_or(0, |(_, conditions)| *conditions);
            }
            b'&' | b'|' => level.links = 1,
            // Not those of fields that need not be there.
            b'?' if !matches!(source.get(at.wrapping_sub(2)), Some(b'.' | b'[' | b'{' | b',')) => {
                level = Level { conditions: level.conditions + 1, links: 0, ..level };
                conditions += 1;
            }
            b':' => level.links = 0,
            b'.' | b'+' | b'-' | b'*' | b'/' | b'%' | b'=' | b'!' | b'<' | b'>' => level.links += 1,
            _ => {}
        }
        if level.depth() > DEEPEST || outer.len() + conditions > MOST_NESTED {
            return false;
        }
    }
    true
}

/// How long the text in quotes is that begins here; nothing if it is none.
fn text(source: &[u8], is_raw: bool) -> Option<usize> {
    let quote = *source.first().filter(|byte| matches!(byte, b'"' | b'\''))?;
    let triple = [quote; 3];
    if source.starts_with(&triple)
        && let Some(length) = until(source, 3, is_raw, |rest| rest.starts_with(&triple))
    {
        return Some(length + 3);
    }
    let end = |rest: &[u8]| matches!(rest.first(), Some(byte) if [quote, b'\n', b'\r'].contains(byte));
    let length = until(source, 1, is_raw, end)?;
    (source[length] == quote).then_some(length + 1)
}

/// Where a text ends.
fn until(source: &[u8], from: usize, is_raw: bool, end: impl Fn(&[u8]) -> bool) -> Option<usize> {
    let mut at = from;
    while at < source.len() {
        let rest = &source[at..];
        if end(rest) {
            return Some(at);
        }
        at += if rest[0] == b'\\' && !is_raw { escape(rest)? } else { 1 };
    }
    None
}

/// How long an escape is.
fn escape(rest: &[u8]) -> Option<usize> {
    let digits = |from: usize, count: usize, is_one: fn(&u8) -> bool| {
        rest.get(from..from + count)?.iter().all(is_one).then_some(from + count)
    };
    match rest.get(1)? {
        b'x' | b'X' => digits(2, 2, u8::is_ascii_hexdigit),
        b'u' => digits(2, 4, u8::is_ascii_hexdigit),
        b'U' => digits(2, 8, u8::is_ascii_hexdigit),
        b'0'..=b'3' => digits(1, 3, |byte| matches!(byte, b'0'..=b'7')),
        b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deep_is_refused_and_what_is_long_is_not() {
        let nested = |open: &str, close: &str, count: usize| {
            let (open, close) = (open.repeat(count), close.repeat(count));
            format!("{open}true{close}")
        };
        let quoted = format!("'{}' == \"{}\"", "[".repeat(1000), "a.b(".repeat(1000));
        let fine = [
            nested("(", ")", 55),
            nested("", " && self.a == 'x'", 1000),
            nested("", " || [1, 2].exists(x, x == 1)", 1000),
            nested("true ? true : ", "", 55),
            format!("1{} == 1", " + 1".repeat(200)),
            format!("[{}] == []", "a.b ? c : d, ".repeat(1000)),
            nested("", " && self.?a.hasValue()", 1000),
            format!("r'{}\\' == \"\"\"{}\"\"\"", "(".repeat(1000), "\n[".repeat(1000)),
            format!("true // {}", "(".repeat(1000)),
            quoted,
        ];
        for source in fine {
            assert!(is_shallow(source.as_bytes()), "{source}");
        }
        let deep = [
            nested("(", ")", 1000),
            nested("[", "]", 1000),
            nested("{'a': ", "}", 1000),
            nested("string(", ")", 1000),
            nested("true ? true : ", "", 1000),
            nested("a && b ? c : ", "", 1000),
            nested("(true ? true : ", ")", 1000),
            nested("", ".a", 1000),
            nested("", "[0]", 1000),
            nested("", " + 1", 1000),
            nested("", " in a", 1000),
            nested("", ".lowerAscii()", 1000),
            nested("", ".optMap(x, x)", 1000),
            // Not what the lexer takes for strings.
            format!("'\n{}", "[".repeat(1000)),
            format!("'\\q{}'", "[".repeat(1000)),
            format!("'\\xzz{}'", "[".repeat(1000)),
            format!("r'\\'{}'", "[".repeat(1000)),
            format!("bar'\\'{}", "[".repeat(1000)),
            format!("''''{}", "[".repeat(1000)),
        ];
        for source in deep {
            assert!(!is_shallow(source.as_bytes()), "{source}");
        }
    }

    #[test]
    fn what_is_long_is_refused_before_it_is_read() {
        assert!(parse(&" ".repeat(LONGEST + 1)).is_err());
    }
}
