//! The newest heartbeat of each machine that this process has seen. It is lost with the process and rebuilt by the next
//! heartbeats.

use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::decide::{Contact, Heartbeat};

/// At most this many machines. If there are more, the cache is cleared, and their contact is unknown until their next
/// heartbeat.
const MOST: usize = 50_000;

/// A machine that is silent for this long is removed. Its condition has been written by then.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(24);

/// Namespace and name of a CapstanConfig.
pub(crate) type ConfigKey = (String, String);

struct Entry {
    heartbeat: Heartbeat,
    /// The contact that was last announced.
    announced: Contact,
}

/// Heartbeats by CapstanConfig.
#[derive(Default)]
pub(crate) struct Heard(Mutex<HashMap<ConfigKey, Entry>>);

impl Heard {
    /// The contact of a machine.
    pub(crate) fn contact(&self, config: &ConfigKey, now: Timestamp) -> Contact {
        self.lock().get(config).map_or(Contact::Unknown, |entry| entry.heartbeat.contact(now))
    }

    /// Records a Lease: the time in it and its validity in seconds. Returns whether the condition must change.
    pub(super) fn hear(&self, config: ConfigKey, renewed: Timestamp, holds: i32, now: Timestamp) -> bool {
        let mut all = self.lock();
        if all.len() >= MOST && !all.contains_key(&config) {
            all.clear();
        }
        let is_inherited = match all.get(&config) {
            Some(known) if known.heartbeat.renewed == renewed => return false,
            Some(_) => false,
            None => true,
        };
        let heartbeat = Heartbeat { renewed, holds, seen: now, is_inherited };
        let entry = all.entry(config).or_insert(Entry { heartbeat, announced: Contact::Unknown });
        entry.heartbeat = heartbeat;
        entry.announce(now)
    }

    /// The machines whose contact has changed because time has passed.
    pub(super) fn changed(&self, now: Timestamp) -> Vec<ConfigKey> {
        let mut all = self.lock();
        all.retain(|_, entry| now.duration_since(entry.heartbeat.seen) < FORGOTTEN);
        let changed =
            all.iter_mut().filter_map(|(config, entry)| entry.announce(now).then(|| config.clone()));
        changed.collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConfigKey, Entry>> {
        // Each heartbeat replaces an entry as a whole: the map is usable even if another thread has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn announce(&mut self, now: Timestamp) -> bool {
        let contact = self.heartbeat.contact(now);
        let is_news = std::mem::discriminant(&contact) != std::mem::discriminant(&self.announced);
        self.announced = contact;
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn what_changes_is_announced_once() {
        let heard = Heard::default();
        let web = || ("default".to_owned(), "web-0".to_owned());
        assert_eq!(heard.contact(&web(), at(0)), Contact::Unknown);
        assert!(!heard.hear(web(), at(5), 60, at(100)), "it was there before");
        assert_eq!(heard.contact(&web(), at(100)), Contact::Unknown);
        assert!(heard.hear(web(), at(25), 60, at(120)), "the first one that was seen to come");
        assert!(!heard.hear(web(), at(45), 60, at(140)), "another one");
        assert!(!heard.hear(web(), at(45), 60, at(200)), "the same one, listed again");
        assert_eq!(heard.contact(&web(), at(200)), Contact::Connected);
        assert_eq!(heard.changed(at(260)), []);
        assert_eq!(heard.changed(at(261)), [web()]);
        assert_eq!(heard.changed(at(300)), []);
        assert_eq!(heard.contact(&web(), at(300)), Contact::Silent(at(140)));
        assert!(heard.hear(web(), at(99), 60, at(400)), "it is back");
        assert_eq!(heard.contact(&web(), at(400)), Contact::Connected);
        assert_eq!(heard.changed(at(400 + 90_000)), [], "it is long gone");
        assert_eq!(heard.contact(&web(), at(400 + 90_000)), Contact::Unknown);
    }

    #[test]
    fn a_machine_that_was_silent_before_the_start_is_found() {
        let heard = Heard::default();
        let web = || ("default".to_owned(), "web-0".to_owned());
        assert!(!heard.hear(web(), at(5), 60, at(100)));
        assert_eq!(heard.changed(at(221)), [web()]);
        assert_eq!(heard.contact(&web(), at(221)), Contact::Silent(at(5)));
    }
}
