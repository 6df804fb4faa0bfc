//! The text of an error with its causes.

use std::error::Error;

/// An error and its causes on one line, for logs, conditions and responses.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let words = source.to_string();
        // Some libraries repeat their source in their own text.
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|layer| layer as &(dyn Error + 'static))
        }
    }

    #[test]
    fn every_cause_is_said_once() {
        for (layers, expected) in [
            (&["a"][..], "a"),
            (&["a", "b", "c"], "a: b: c"),
            (&["cannot connect: refused", "refused"], "cannot connect: refused"),
            (&["a: b", "b", "c"], "a: b: c"),
        ] {
            let error = layers
                .iter()
                .rev()
                .fold(None, |inner, text: &&'static str| Some(Box::new(Layer(text, inner))));
            assert_eq!(chain(&*error.expect("a layer")), expected);
        }
    }
}
