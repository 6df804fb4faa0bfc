//! Shows progress while a cluster is created.

use jiff::Timestamp;
use std::io::IsTerminal as _;

use crate::describe;
use crate::terminal::{self, Look};

/// Shows progress: a tree that is redrawn on a terminal, otherwise one line for every change.
pub(super) enum Screen {
    Terminal { drawn: usize },
    Lines { printed: String },
}

impl Screen {
    pub(super) fn of_stdout() -> Self {
        match std::io::stdout().is_terminal() {
            true => Self::Terminal { drawn: 0 },
            false => Self::Lines { printed: String::new() },
        }
    }

    pub(super) fn show(&mut self, snapshot: &describe::Snapshot) {
        match self {
            Self::Terminal { drawn } => {
                let look = Look::of_stdout(None, true);
                let tree = describe::render(snapshot, Timestamp::now(), look);
                // Up to where the last drawing began, and away with what is below. A line that wraps would
                // spoil the count, so each is cut at the edge.
                let width = look.width.unwrap_or(80);
                let lines: Vec<String> = tree.lines().map(|line| terminal::cut(line, width)).collect();
                if *drawn > 0 {
                    print!("\x1b[{drawn}A\x1b[J");
                }
                println!("{}", lines.join("\n"));
                *drawn = lines.len();
            }
            Self::Lines { printed } => {
                let news = describe::progress(snapshot);
                if news != *printed {
                    println!("  {news}");
                    *printed = news;
                }
            }
        }
    }
}
