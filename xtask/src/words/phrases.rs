//! The phrases, and where they are in a text.

/// A phrase that texts for users do without.
struct Phrase {
    text: &'static str,
    /// What to write.
    instead: &'static str,
    /// Words before and after it that make it plain English.
    fine_after: &'static [&'static str],
    fine_before: &'static [&'static str],
}

const fn phrase(text: &'static str, instead: &'static str) -> Phrase {
    Phrase { text, instead, fine_after: &[], fine_before: &[] }
}

const ACTOR: &str = "name the actor: the client, the controller, the agent, the caller";
const REPAIR: &str = "repair or fix";

const PHRASES: [Phrase; 15] = [
    phrase("whoever", ACTOR),
    phrase("whomever", ACTOR),
    phrase("nobody", ACTOR),
    phrase("nobody's", "not claimed, or name the owner"),
    phrase("somebody", ACTOR),
    phrase("what is told", "the message, the report"),
    phrase("anew", "again"),
    phrase("mend", REPAIR),
    phrase("mends", REPAIR),
    phrase("mended", REPAIR),
    Phrase {
        fine_after: &["there", "this", "that"],
        fine_before: &["longer", "more", "less", "later", "earlier"],
        ..phrase("is no", "is not a")
    },
    phrase("and away", "and deleted, or and removed"),
    phrase("away with it", "delete it"),
    phrase("as it was", "unchanged, or the previous state"),
    Phrase { fine_before: &["for"], ..phrase("stands", "exists, works, is stored") },
];

/// A phrase in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) line: usize,
    pub(super) phrase: &'static str,
    pub(super) instead: &'static str,
}

/// The phrases in `text`, whose first line has the number `first_line`. A phrase may go over the end of a line.
pub(super) fn hits(text: &str, first_line: usize) -> Vec<Hit> {
    let words = words(text, first_line);
    let mut hits = Vec::new();
    for at in 0..words.len() {
        hits.extend(PHRASES.iter().filter(|phrase| is_at(phrase, &words, at)).map(|phrase| Hit {
            line: words[at].line,
            phrase: phrase.text,
            instead: phrase.instead,
        }));
    }
    hits
}

fn is_at(phrase: &Phrase, words: &[Word], at: usize) -> bool {
    // Almost always the first word differs.
    if !phrase.text.starts_with(words[at].text.as_str()) {
        return false;
    }
    let length = phrase.text.split(' ').count();
    let Some(found) = words.get(at..at + length) else { return false };
    if !found.iter().map(|word| word.text.as_str()).eq(phrase.text.split(' ')) {
        return false;
    }
    // A sentence that ends between two words keeps them apart.
    if found[..length - 1].iter().any(|word| word.ends_clause) {
        return false;
    }
    let is_one_of =
        |list: &[&str], word: Option<&Word>| word.is_some_and(|word| list.contains(&word.text.as_str()));
    let before = at.checked_sub(1).and_then(|before| words.get(before));
    !is_one_of(phrase.fine_after, before) && !is_one_of(phrase.fine_before, words.get(at + length))
}

struct Word {
    text: String,
    line: usize,
    /// Whether punctuation follows.
    ends_clause: bool,
}

/// Lower-case words: letters, digits, `_` and apostrophes. Underscores keep identifiers whole.
fn words(text: &str, first_line: usize) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut line, mut current) = (first_line, String::new());
    let mut end = |current: &mut String, line: usize, next: char| {
        if !current.is_empty() {
            words.push(Word { text: std::mem::take(current), line, ends_clause: false });
        }
        if let Some(last) = words.last_mut() {
            last.ends_clause |= matches!(next, '.' | ',' | ';' | ':' | '!' | '?' | '|' | '(' | ')' | '"');
        }
    };
    for c in text.chars() {
        if c.is_alphanumeric() || matches!(c, '_' | '\'' | '’') {
            current.extend(if c == '’' { '\'' } else { c }.to_lowercase());
            continue;
        }
        end(&mut current, line, c);
        line += usize::from(c == '\n');
    }
    end(&mut current, line, ' ');
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, &'static str)> {
        hits(text, 1).into_iter().map(|hit| (hit.line, hit.phrase)).collect()
    }

    #[test]
    fn phrases_are_found_in_any_case_and_over_line_ends() {
        assert_eq!(
            found("Whoever reads this,\nnobody's host is\nno watch"),
            [(1, "whoever"), (2, "nobody's"), (2, "is no")]
        );
        assert_eq!(found("| up and away |"), [(1, "and away")]);
        assert_eq!(found("mends what was mended"), [(1, "mends"), (1, "mended")]);
    }

    #[test]
    fn plain_english_is_left_alone() {
        for fine in [
            "there is no host",
            "the host is no longer claimed",
            "a folder that stands for /",
            "recommended amendments",
            "nobody_claims",
            "what it is. No host",
            "renewed",
        ] {
            assert_eq!(found(fine), [], "{fine}");
        }
    }
}
