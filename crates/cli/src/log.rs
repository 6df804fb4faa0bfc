//! What controllers tell while they run: plain lines on standard error.

use tracing_subscriber::EnvFilter;

/// What the library says of requests and watches that fail, we say ourselves: once, and with the remedy.
const DEFAULT: &str = "warn,kube_client=off,kube_runtime=error";

/// Shows warnings of ours, and more where `RUST_LOG` asks for it.
pub(crate) fn to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).finish();
    // An error says that somebody has set one up already, as a test may.
    _ = tracing::subscriber::set_global_default(subscriber);
}
