//! From what is sensible to what is not.

use crate::targets::Input;

/// Numbers that look random and repeat with their seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// What tends to be at the edge of something.
const WORDS: [&str; 44] = [
    "",
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "0",
    "-1",
    "1e400",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0.1",
    "\\u0000",
    "\u{0}",
    "\u{feff}",
    "é",
    "\u{10ffff}",
    "/",
    "~1",
    "-",
    ",",
    "=",
    "!",
    "(",
    ")",
    " in ",
    "metadata",
    "name",
    "namespace",
    "spec",
    "status",
    "apiVersion",
    "kind",
    "managedFields",
    "ownerReferences",
    "finalizers",
    "resourceVersion",
    "$patch",
    "&a",
    "*a",
    "<<",
    "%2F",
];

/// An input made of those of a corpus.
pub(crate) fn mutated(dice: &mut Dice, corpus: &[Input]) -> Input {
    let mut bytes = dice.pick(corpus).0.clone();
    for _ in 0..=dice.below(6) {
        let at = dice.below(bytes.len() + 1);
        let until = (at + dice.below(16)).min(bytes.len());
        match dice.below(9) {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
            1 => drop(bytes.drain(at..until)),
            2 => {
                let word = *dice.pick(&WORDS);
                bytes.splice(at..until, word.bytes());
            }
            3 => {
                let word = *dice.pick(&WORDS);
                bytes.splice(at..at, word.bytes());
            }
            4 => {
                let again = bytes[at..until].repeat(1 + dice.below(40));
                bytes.splice(at..at, again);
            }
            5 => {
                let other = &dice.pick(corpus).0;
                let from = dice.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            6 => {
                let (open, close) =
                    *dice.pick(&[("[", "]"), ("{\"a\":", "}"), ("(", ")"), ("{a: ", "}"), ("!", "")]);
                let depth = *dice.pick(&[1, 2, 90, 130, 5000]);
                let inner: Vec<u8> = bytes[at..until].to_vec();
                bytes.splice(
                    at..until,
                    [open.repeat(depth).into_bytes(), inner, close.repeat(depth).into_bytes()].concat(),
                );
            }
            7 => bytes.insert(at, u8::try_from(dice.below(256)).unwrap()),
            _ => bytes.truncate(at),
        }
        bytes.truncate(1 << 20);
    }
    Input(bytes)
}
