//! Key and resize events of the terminal, read in a separate thread, because reading blocks.

use ratatui::crossterm::event::{self, Event};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long it takes until the thread notices that it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// The event reader. Dropping it ends its thread.
pub(super) struct Input {
    events: mpsc::UnboundedReceiver<io::Result<Event>>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Input {
    pub(super) fn start() -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let event = match event::poll(LOOK) {
                    Ok(false) => continue,
                    Ok(true) => event::read(),
                    Err(error) => Err(error),
                };
                let is_broken = event.is_err();
                if sender.send(event).is_err() || is_broken {
                    break;
                }
            }
        });
        Self { events, is_over, thread }
    }

    /// The next event.
    ///
    /// # Errors
    /// If the terminal is closed.
    pub(super) async fn next(&mut self) -> io::Result<Event> {
        self.events.recv().await.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
    }

    /// The next event, if one is already available.
    pub(super) fn waiting(&mut self) -> Option<io::Result<Event>> {
        self.events.try_recv().ok()
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + 4 * LOOK;
        // Not longer: crossterm reads without end when the terminal is gone. The thread ends with the process then.
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(LOOK / 10);
        }
    }
}
