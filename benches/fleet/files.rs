//! The limit of open files, which measured processes inherit. Simulated machines and their clusters are in one process,
//! so both ends of each of their connections count.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Enough for some thousand simulated machines.
const MANY: u64 = 262_144;

/// Raises the limit as far as it may be.
pub(crate) fn allow_many() {
    let now = getrlimit(Resource::Nofile);
    let higher = |limit: Option<u64>| limit.map(|limit| limit.max(MANY));
    let wanted = Rlimit { current: higher(now.current), maximum: higher(now.maximum) };
    if setrlimit(Resource::Nofile, wanted).is_err() {
        // Only root may go beyond the maximum. An error leaves the limit as it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    }
}
