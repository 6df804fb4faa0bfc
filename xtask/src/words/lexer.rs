//! A minimal lexer of Rust, which distinguishes strings, doc comments and code.

#[derive(Clone, Debug)]
pub(super) struct Token {
    /// The line it begins in.
    pub(super) line: usize,
    pub(super) kind: TokenKind,
}

#[derive(Clone, Debug)]
pub(super) enum TokenKind {
    /// One line of a `///` comment.
    Doc(String),
    /// What is between the quotes, as it is written.
    Str(String),
    Word(String),
    /// Any other character.
    Mark(char),
}

/// The tokens of a file, without other comments and characters.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { rest: source, line: 1, tokens: Vec::new() };
    while !lexer.rest.is_empty() {
        lexer.step();
    }
    lexer.tokens
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<Token>,
}

impl<'a> Lexer<'a> {
    /// Goes on by so many bytes, and gives them.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn step(&mut self) {
        let line = self.line;
        let rest = self.rest;
        let Some(first) = rest.chars().next() else { return };
        let kind = if rest.starts_with("//") {
            let comment = self.take(rest.find('\n').unwrap_or(rest.len()));
            match comment.strip_prefix("///") {
                Some(text) if !text.starts_with('/') => TokenKind::Doc(text.to_owned()),
                _ => return,
            }
        } else if rest.starts_with("/*") {
            self.block_comment();
            return;
        } else if let Some(kind) = self.string() {
            kind
        } else if first == '\'' {
            self.take(character_or_lifetime(rest));
            return;
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            TokenKind::Word(self.take(end).to_owned())
        } else {
            self.take(first.len_utf8());
            if first.is_whitespace() {
                return;
            }
            TokenKind::Mark(first)
        };
        self.tokens.push(Token { line, kind });
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while !self.rest.is_empty() {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.take(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.take(2);
                if depth == 0 {
                    return;
                }
            } else {
                self.take(self.rest.chars().next().map_or(1, char::len_utf8));
            }
        }
    }

    /// A string of any sort, if one begins here.
    fn string(&mut self) -> Option<TokenKind> {
        let rest = self.rest;
        let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
            let after = rest.strip_prefix(prefix).unwrap_or(rest);
            let hashes = after.trim_start_matches('#');
            rest.starts_with(prefix)
                && hashes.starts_with('"')
                && (prefix.ends_with('r') || hashes.len() == after.len())
        })?;
        let after = &rest[prefix.len()..];
        let hashes = after.len() - after.trim_start_matches('#').len();
        let content = &after[hashes + 1..];
        let length = if prefix.ends_with('r') {
            let end = format!("\"{}", "#".repeat(hashes));
            content.find(&end).unwrap_or(content.len())
        } else {
            end_of_escaped(content)
        };
        let whole = prefix.len() + hashes + 1 + length + 1 + hashes;
        self.take(whole.min(rest.len()));
        Some(TokenKind::Str(content[..length].to_owned()))
    }
}

/// Where the closing quote is.
fn end_of_escaped(content: &str) -> usize {
    let mut escaped = false;
    for (at, c) in content.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    content.len()
}

/// How long `'x'`, `'\n'` or `'a` is.
fn character_or_lifetime(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let from = at + escaped.len_utf8();
            rest[from..].find('\'').map_or(rest.len(), |end| from + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_tokens_are_distinguished_and_lines_are_counted() {
        let source =
            "a /* \" /* x */ */ 'b' '\\u{1f}' 'c: b\"d\" r##\"e\"#f\"##\n//// no\n/// g\n\"h\\\"\ni\" 1.5é";
        let found: Vec<(usize, String)> = tokens(source)
            .into_iter()
            .map(|token| {
                let text = match token.kind {
                    TokenKind::Doc(text) => format!("doc{text}"),
                    TokenKind::Str(text) => format!("str {text}"),
                    TokenKind::Word(text) => text,
                    TokenKind::Mark(mark) => mark.to_string(),
                };
                (token.line, text)
            })
            .collect();
        let expected = [
            (1, "a"),
            (1, "c"),
            (1, ":"),
            (1, "str d"),
            (1, "str e\"#f"),
            (3, "doc g"),
            (4, "str h\\\"\ni"),
            (5, "1"),
            (5, "."),
            (5, "5é"),
        ];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }
}
