//! The log of controllers: plain lines on standard error, with a verbosity that can be changed while the process runs.

use std::sync::{Arc, Mutex, PoisonError};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// What the library says of requests and watches that fail, we say ourselves: once, and with the remedy.
const LIBRARY: &str = "kube_client=off,kube_runtime=error";

/// The highest verbosity of klog.
pub(crate) const MOST_VERBOSE: u8 = 10;

/// The log verbosity. Cheap to clone; a change applies to all clones.
#[derive(Clone)]
pub(crate) struct LogLevel {
    current: Arc<Mutex<String>>,
    reload: Arc<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>,
}

impl LogLevel {
    /// The current value: a number, or directives as in `RUST_LOG`.
    pub(crate) fn current(&self) -> String {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes it.
    pub(crate) fn set(&self, text: &str) -> Result<(), String> {
        let filter = filter(text)?;
        (self.reload)(filter)?;
        text.trim().clone_into(&mut self.current.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// A level without a log, for tests.
    #[cfg(test)]
    pub(crate) fn unheard() -> Self {
        Self { current: Arc::default(), reload: Arc::new(|_| Ok(())) }
    }
}

/// A further receiver of spans.
pub(crate) type Spans = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts the log with `verbosity`, else with `RUST_LOG`, else with warnings only. Spans also go to `spans`, whatever the
/// verbosity.
pub(crate) fn to_stderr(verbosity: Option<u8>, spans: Option<Spans>) -> LogLevel {
    let from_env = std::env::var(EnvFilter::DEFAULT_ENV)
        .ok()
        .filter(|from_env| verbosity.is_none() && !from_env.is_empty());
    let from_env = from_env.and_then(|from_env| Some((EnvFilter::try_new(&from_env).ok()?, from_env)));
    let (first, wanted) = from_env.unwrap_or_else(|| {
        let number = verbosity.unwrap_or_default();
        (EnvFilter::new(directives(number)), number.to_string())
    });
    let (filter, handle) = reload::Layer::new(first);
    let lines = fmt::layer().with_writer(std::io::stderr).with_filter(filter);
    // An error says that a subscriber exists already: a test may have set one.
    _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(spans).with(lines));
    let reload = move |filter| handle.reload(filter).map_err(|error| error.to_string());
    LogLevel { current: Arc::new(Mutex::new(wanted)), reload: Arc::new(reload) }
}

/// A verbosity, or directives as in `RUST_LOG`.
fn filter(text: &str) -> Result<EnvFilter, String> {
    let text = text.trim();
    if let Ok(number) = text.parse::<u8>() {
        return match number <= MOST_VERBOSE {
            true => Ok(EnvFilter::new(directives(number))),
            false => Err(format!("log level {number} is too high: use 0 to {MOST_VERBOSE}")),
        };
    }
    // A word alone is the name of a target to the library, with everything shown: more likely it is a misspelt level.
    let is_clear = |part: &str| part.contains('=') || part.trim().parse::<LevelFilter>().is_ok();
    match !text.is_empty() && text.split(',').all(is_clear) {
        true => EnvFilter::try_new(text).map_err(|error| format!("{text:?} is not a log level: {error}")),
        false => Err(format!(
            "{text:?} is not a log level: use 0 to {MOST_VERBOSE}, or directives such as warn,capstan_core=debug"
        )),
    }
}

/// The directives of a verbosity. Dependencies log less than our own crates.
fn directives(verbosity: u8) -> String {
    match verbosity {
        0 => format!("warn,{LIBRARY}"),
        1..=3 => format!("info,{LIBRARY}"),
        4 => format!("info,{LIBRARY},capstan=debug"),
        _ => format!("debug,{LIBRARY},capstan=trace"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_a_number_or_directives() {
        let shown = |text: &str| filter(text).map(|filter| filter.to_string());
        assert!(shown("0").is_ok_and(|shown| shown.contains("warn")));
        assert!(shown(" 4\n").is_ok_and(|shown| shown.contains("capstan=debug")));
        assert!(shown("capstan_core=debug").is_ok_and(|shown| shown == "capstan_core=debug"));
        assert!(shown("11").is_err_and(|error| error.contains("0 to 10")));
        for wrong in ["", "loud!", "verbose", "warn,x"] {
            assert!(shown(wrong).is_err_and(|error| error.contains("0 to 10")), "{wrong}");
        }
        assert!(shown("debug").is_ok() && shown("warn,capstan_core=debug").is_ok());
        assert!(shown("capstan==x").is_err());
    }

    #[test]
    fn a_level_that_is_set_is_shown_and_an_invalid_one_changes_nothing() {
        let level = LogLevel::unheard();
        level.set("4").expect("a level");
        assert!(level.set("99").is_err());
        assert_eq!(level.current(), "4");
    }
}
