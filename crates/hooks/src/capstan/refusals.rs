//! Which refusals are written as Events, and as which text. Pure.
//!
//! A caller chooses what it sends, how often, and under which names. So the text is short and plain, one MachineDeployment has
//! an Event at most every few seconds, and no more than a number of them at a time are remembered.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// As long as a text may be.
const LONGEST: usize = 512;
/// The same text is written again after this time.
const SAME: Duration = Duration::from_secs(60);
/// Another text of the same MachineDeployment.
const OTHER: Duration = Duration::from_secs(5);
/// MachineDeployments that are remembered.
const MOST: usize = 1000;

/// What was written lately.
#[derive(Debug, Default)]
pub(super) struct Refusals(HashMap<(String, String), (String, Instant)>);

impl Refusals {
    /// Whether a refusal is to be written now. It is remembered if so.
    pub(super) fn is_due(&mut self, namespace: &str, name: &str, text: &str, now: Instant) -> bool {
        let since = |at: &Instant| now.saturating_duration_since(*at);
        let key = (namespace.to_owned(), name.to_owned());
        match self.0.get(&key) {
            Some((last, at)) if since(at) < if last == text { SAME } else { OTHER } => return false,
            Some(_) => {}
            None if self.0.len() >= MOST => {
                self.0.retain(|_, (_, at)| since(at) < SAME);
                if self.0.len() >= MOST {
                    return false;
                }
            }
            None => {}
        }
        self.0.insert(key, (text.to_owned(), now));
        true
    }
}

/// A text of a caller on one line, without control characters, and not too long.
pub(super) fn plain(text: &str) -> String {
    let plain: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if plain.len() <= LONGEST {
        return plain;
    }
    let end = (0..=LONGEST - 3).rev().find(|end| plain.is_char_boundary(*end)).unwrap_or_default();
    format!("{}...", &plain[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_is_repeated_is_written_now_and_then() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(refusals.is_due("n", "a", "no", start));
        assert!(!refusals.is_due("n", "a", "no", after(59)));
        assert!(refusals.is_due("n", "a", "no", after(60)));
        assert!(!refusals.is_due("n", "a", "other", after(64)), "texts that differ do not come faster");
        assert!(refusals.is_due("n", "a", "other", after(65)));
        assert!(refusals.is_due("n", "b", "no", after(65)) && refusals.is_due("m", "a", "no", after(65)));
    }

    #[test]
    fn a_flood_of_names_and_texts_writes_little_and_is_forgotten() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let texts = (0..10_000).filter(|n| refusals.is_due("n", "a", &n.to_string(), start)).count();
        assert_eq!(texts, 1);
        let names = (0..10_000).filter(|n| refusals.is_due("n", &n.to_string(), "no", start)).count();
        assert_eq!((names, refusals.0.len()), (MOST - 1, MOST));
        assert!(refusals.is_due("n", "late", "no", start + SAME));
    }

    #[test]
    fn a_text_is_short_and_plain() {
        assert_eq!(plain("spec.a: no"), "spec.a: no");
        assert_eq!(plain("a\n\u{1b}[31mb"), "a  [31mb");
        let long = plain(&"\u{e4}".repeat(1000));
        assert!(long.len() <= LONGEST && long.ends_with("..."), "{}", long.len());
    }
}
