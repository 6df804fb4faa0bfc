//! Shell patterns: `*`, `?`, `[a-z]`, `[^a-z]` and `\`. A `*` crosses slashes.

/// A pattern, ready to match.
#[derive(Debug)]
pub(crate) struct Glob(Vec<Token>);

#[derive(Debug)]
enum Token {
    Literal(char),
    One,
    Any,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Glob {
    /// `None` if the pattern is not one: an open class, a range without its end, a lone backslash.
    pub(crate) fn parse(pattern: &str) -> Option<Self> {
        let mut chars = pattern.chars().peekable();
        let mut tokens = Vec::new();
        while let Some(c) = chars.next() {
            tokens.push(match c {
                '*' => Token::Any,
                '?' => Token::One,
                '\\' => Token::Literal(chars.next()?),
                '[' => {
                    let negated = chars.next_if_eq(&'^').is_some();
                    let mut ranges = Vec::new();
                    loop {
                        if !ranges.is_empty() && chars.next_if_eq(&']').is_some() {
                            break;
                        }
                        let low = bound(&mut chars)?;
                        let high = if chars.next_if_eq(&'-').is_some() { bound(&mut chars)? } else { low };
                        ranges.push((low, high));
                    }
                    Token::Class { negated, ranges }
                }
                c => Token::Literal(c),
            });
        }
        Some(Self(tokens))
    }

    /// Whether the pattern matches the whole text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        matches(&self.0, &text)
    }
}

fn bound(chars: &mut impl Iterator<Item = char>) -> Option<char> {
    match chars.next()? {
        '-' | ']' => None,
        '\\' => chars.next(),
        c => Some(c),
    }
}

/// With one place to go back to: a star takes one more character whenever what follows it does not fit.
fn matches(tokens: &[Token], text: &[char]) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let fits = match tokens.get(token) {
            Some(Token::Any) => {
                star = Some((token, at));
                token += 1;
                continue;
            }
            Some(one) => text.get(at).is_some_and(|c| one.fits(*c)),
            None if at == text.len() => return true,
            None => false,
        };
        if fits {
            (token, at) = (token + 1, at + 1);
            continue;
        }
        match star {
            Some((after, taken)) if taken < text.len() => {
                star = Some((after, taken + 1));
                (token, at) = (after + 1, taken + 1);
            }
            _ => return false,
        }
    }
}

impl Token {
    fn fits(&self, c: char) -> bool {
        match self {
            Self::Literal(literal) => *literal == c,
            Self::One => true,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
            // Taken care of by the caller: a star fits any number of characters.
            Self::Any => false,
        }
    }
}
