//! What users read of a Rust file: its strings, and the doc comments that clap prints as `--help`. Not what is only
//! compiled for tests.

use super::lexer::{Token, TokenKind, tokens};

/// The derives whose doc comments are printed.
const CLAP: [&str; 4] = ["Args", "Parser", "Subcommand", "ValueEnum"];

/// A text and the line it begins in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) line: usize,
    pub(super) text: String,
}

pub(super) fn user_texts(source: &str) -> Vec<Text> {
    let mut walk = Walk { tokens: tokens(source), at: 0, texts: Vec::new() };
    walk.items();
    walk.texts
}

struct Walk {
    tokens: Vec<Token>,
    at: usize,
    texts: Vec<Text>,
}

impl Walk {
    fn items(&mut self) {
        // Doc comments of an item that may turn out to be clap's.
        let mut docs: Vec<Text> = Vec::new();
        while let Some(token) = self.tokens.get(self.at) {
            match &token.kind {
                TokenKind::Doc(_) => docs.extend(text_of(token)),
                TokenKind::Str(_) => self.texts.extend(text_of(token)),
                TokenKind::Mark('#') => {
                    let words = self.attribute();
                    if is_test_only(&words) {
                        docs.clear();
                        self.skip_item();
                    } else if is_clap(&words) {
                        self.texts.append(&mut docs);
                        self.clap_item();
                    }
                    continue;
                }
                TokenKind::Word(_) | TokenKind::Mark(_) => docs.clear(),
            }
            self.at += 1;
        }
    }

    /// Goes past an attribute, keeps its strings, and gives its words.
    fn attribute(&mut self) -> Vec<String> {
        let (mut words, mut depth) = (Vec::new(), 0_usize);
        self.at += 1;
        while let Some(token) = self.tokens.get(self.at) {
            match &token.kind {
                TokenKind::Mark('[') => depth += 1,
                TokenKind::Mark(']') => depth = depth.saturating_sub(1),
                TokenKind::Word(word) => words.push(word.clone()),
                TokenKind::Str(_) => self.texts.extend(text_of(token)),
                TokenKind::Doc(_) | TokenKind::Mark(_) => {}
            }
            let inner = matches!(token.kind, TokenKind::Mark('!'));
            if depth == 0 && !inner {
                // Not an attribute at all: `#` alone is in macros.
                self.at += usize::from(matches!(token.kind, TokenKind::Mark(']')));
                break;
            }
            self.at += 1;
        }
        words
    }

    /// Goes to the end of the item that begins here: its block, or the semicolon before one.
    fn skip_item(&mut self) {
        let mut depth = 0_usize;
        while let Some(token) = self.tokens.get(self.at) {
            self.at += 1;
            match token.kind {
                TokenKind::Mark('{') => depth += 1,
                TokenKind::Mark('}') if depth <= 1 => return,
                TokenKind::Mark('}') => depth -= 1,
                TokenKind::Mark(';') if depth == 0 => return,
                _ => {}
            }
        }
    }

    /// Keeps every doc comment and string of the item that begins here.
    fn clap_item(&mut self) {
        let begin = self.at;
        self.skip_item();
        let end = self.at;
        self.texts.extend(self.tokens[begin..end].iter().filter_map(text_of));
    }
}

fn is_test_only(attribute: &[String]) -> bool {
    attribute.iter().map(String::as_str).eq(["cfg", "test"])
}

fn is_clap(attribute: &[String]) -> bool {
    attribute.first().is_some_and(|word| word == "derive")
        && attribute.iter().any(|word| CLAP.contains(&word.as_str()))
}

fn text_of(token: &Token) -> Option<Text> {
    match &token.kind {
        TokenKind::Doc(text) | TokenKind::Str(text) => Some(Text { line: token.line, text: text.clone() }),
        TokenKind::Word(_) | TokenKind::Mark(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        user_texts(source).into_iter().map(|text| text.text).collect()
    }

    #[test]
    fn strings_are_texts_and_comments_are_not() {
        let source = r##"
            //! Head.
            /// Documented.
            #[error("attribute")]
            fn f<'a>(c: char) { // comment "no"
                let x = ['"', '\'', b'"']; bail!("one {x}"); r#"two "quoted""#; "th\"ree"
            }
        "##;
        assert_eq!(texts(source), ["attribute", "one {x}", r#"two "quoted""#, r#"th\"ree"#]);
    }

    #[test]
    fn doc_comments_of_clap_are_texts() {
        let source = "/// Outside.\nfn f() {}\n/// About.\n#[derive(Debug, clap::Args)]\n#[command(x)]\nstruct A {\n  /// Help.\n  \
                      #[arg(long)]\n  a: u8,\n}\n/// After.\nstruct B;\n";
        assert_eq!(texts(source), [" About.", " Help."]);
    }

    #[test]
    fn what_is_compiled_for_tests_is_left_out() {
        let source = "const A: &str = \"a\";\n#[cfg(test)]\nmod tests { fn f() { \"b\"; } }\nconst C: &str = \"c\";\n\
                      #[cfg(test)]\nmod more;\nconst D: &str = \"d\";\n";
        assert_eq!(texts(source), ["a", "c", "d"]);
        assert_eq!(user_texts(source)[1].line, 4);
    }
}
