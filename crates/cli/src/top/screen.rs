//! The terminal while `capstan top` uses it: alternate screen, without echo. It is restored on every exit.

use anyhow::{Context as _, Result, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::{cursor, execute};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The terminal in use. Dropping it restores the terminal.
pub(super) struct Screen {
    pub(super) terminal: DefaultTerminal,
    has_panicked: Arc<AtomicBool>,
}

/// Fails if there is no terminal.
pub(super) fn ensure_terminal() -> Result<()> {
    if !std::io::stdout().is_terminal() {
        bail!(
            "capstan top needs a terminal, and standard output is not one; \
             use `capstan get clusters -A`, `capstan get machines -A` or `capstan get hosts -A` instead"
        );
    }
    Ok(())
}

impl Screen {
    pub(super) fn enter() -> Result<Self> {
        let has_panicked = Arc::new(AtomicBool::new(false));
        let (note, print) = (Arc::clone(&has_panicked), std::panic::take_hook());
        // The hook that `try_init` puts before this one restores everything but the cursor.
        std::panic::set_hook(Box::new(move |panic| {
            note.store(true, Ordering::Relaxed);
            _ = execute!(std::io::stdout(), cursor::Show);
            print(panic);
        }));
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self { terminal, has_panicked }),
            Err(error) => {
                // A part of it may have been done.
                _ = ratatui::try_restore();
                Err(error).context("cannot take over the terminal")
            }
        }
    }

    /// Fails if a task has panicked: the panic has restored the terminal, which must not be drawn on any more.
    pub(super) fn ensure_sound(&self) -> Result<()> {
        if self.has_panicked.load(Ordering::Relaxed) {
            bail!("capstan top has failed; the error is above");
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        _ = self.terminal.show_cursor();
        _ = ratatui::try_restore();
    }
}
