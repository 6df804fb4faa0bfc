//! What is known of the terminal: whether there is one, how wide it is, and whether it is to be coloured.

use std::io::IsTerminal as _;

/// Whether to print in colour: on a terminal, unless somebody says otherwise. `NO_COLOR` goes before everything.
pub(crate) fn color(asked: Option<bool>) -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    decide(asked, forbidden, std::io::stdout().is_terminal())
}

fn decide(asked: Option<bool>, forbidden: bool, is_terminal: bool) -> bool {
    !forbidden && asked.unwrap_or(is_terminal)
}

/// Columns of the terminal; `None` where there is none, or it does not say.
pub(crate) fn width() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_unless_somebody_says_otherwise() {
        for (asked, forbidden, is_terminal, expected) in [
            (None, false, true, true),
            (None, false, false, false),
            (Some(true), false, false, true),
            (Some(false), false, true, false),
            (Some(true), true, true, false),
            (None, true, true, false),
        ] {
            assert_eq!(decide(asked, forbidden, is_terminal), expected);
        }
    }
}
