//! The work queue: which object is reconciled next. Pure: the caller passes the time.
//!
//! An object is in the queue at most once. If an event arrives while the object is being reconciled, it is reconciled once
//! more afterwards. Objects wait in lanes, one for each cluster, and lanes take turns: a cluster with many changes, or one
//! whose API server hangs, does not delay the others.
//!
//! - An object is not reconciled again before [`Limits::pause`], however many events arrive.
//! - While events keep arriving the pause grows up to [`Limits::slowest`]: an object that sums up many others would be
//!   written again for each of them.
//! - An object is reconciled at the latest after [`Limits::resync`], even without an event.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher as _, Hash};
use std::time::Duration;

/// Time since the start of the process.
pub type Moment = Duration;

const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// While reconciles of an object fail, events do not make it reconcile more often than this.
const PAUSE_AFTER_FAILURES: Duration = Duration::from_secs(1);

/// Limits of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent reconciles.
    pub at_once: usize,
    /// Concurrent reconciles in one lane.
    pub in_lane: usize,
    /// The shortest time between the starts of two reconciles of an object.
    pub pause: Duration,
    /// The longest pause, for an object that is enqueued continuously.
    pub slowest: Duration,
    /// An object is reconciled after this time even if no event arrives.
    pub resync: Duration,
    /// How long status changes that are only messages are delayed after the last event of the object.
    pub status_delay: Duration,
    /// How long they are delayed at most, while more events arrive.
    pub longest_status_delay: Duration,
}

impl Limits {
    /// Sets the concurrency, with two fifths of it in one lane.
    #[must_use]
    pub fn with_concurrency(self, at_once: usize) -> Self {
        Self { at_once, in_lane: at_once.saturating_mul(2).div_ceil(5), ..self }
    }
}

impl Limits {
    /// Until when the status changes of an object are delayed, if some are. While events arrive, most messages are soon
    /// replaced by others.
    fn delayed_until(&self, entry: &Entry) -> Option<Moment> {
        let since = entry.delayed_since?;
        Some((entry.asked.max(since) + self.status_delay).min(since + self.longest_status_delay))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            at_once: 50,
            in_lane: 20,
            pause: Duration::from_millis(50),
            slowest: Duration::from_millis(200),
            resync: Duration::from_secs(600),
            status_delay: Duration::from_secs(3),
            longest_status_delay: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Limits for objects that aggregate many others, for which intermediate states do not matter.
    pub fn summing_up() -> Self {
        Self { slowest: Duration::from_secs(1), ..Self::default() }
    }
}

/// The result of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Reconcile after the next event.
    Changed,
    /// Reconcile after this time, or earlier if an event arrives.
    After(Duration),
    /// Another client wrote the object: retry soon.
    Conflict,
    /// Only the user can resolve it: retry rarely.
    Refused,
    /// It failed and may succeed later: retry with backoff.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not enqueued.
    Idle,
    /// Due at this time.
    Waiting(Moment),
    /// Due.
    Ready,
    /// Being reconciled, and when it is due again if it was enqueued meanwhile.
    Running(Option<Moment>),
}

#[derive(Clone, Debug)]
struct Entry {
    lane: String,
    state: State,
    failures: u32,
    began: Option<Moment>,
    /// The pause before the next reconcile, if an event arrives at once.
    pause: Duration,
    /// When it was last due.
    due: Moment,
    /// When it was last enqueued by an event.
    asked: Moment,
    /// Start of the first reconcile that has delayed a status change which is not written yet.
    delayed_since: Option<Moment>,
}

/// Objects by the time at which they are due. See the module.
#[derive(Clone, Debug)]
pub struct Queue<K> {
    limits: Limits,
    entries: HashMap<K, Entry>,
    timers: BTreeSet<(Moment, K)>,
    /// Objects that are due, by lane.
    ready: BTreeMap<String, VecDeque<K>>,
    /// Lanes that have such objects: the first is next.
    turns: VecDeque<String>,
    running: usize,
    running_in: HashMap<String, usize>,
    /// Number of times that an object has become due.
    added: u64,
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// An empty queue.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: HashMap::new(),
            timers: BTreeSet::new(),
            ready: BTreeMap::new(),
            turns: VecDeque::new(),
            running: 0,
            running_in: HashMap::new(),
            added: 0,
        }
    }

    /// Enqueues an object.
    pub fn ask(&mut self, key: &K, lane: &str, now: Moment) {
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry {
            lane: lane.to_owned(),
            state: State::Idle,
            failures: 0,
            began: None,
            pause: self.limits.pause,
            due: now,
            asked: now,
            delayed_since: None,
        });
        entry.asked = now;
        let pause = match entry.failures {
            0 => entry.pause,
            _ => PAUSE_AFTER_FAILURES.max(entry.pause),
        };
        let at = entry.began.map_or(now, |began| now.max(began + pause));
        self.schedule(key, at);
    }

    /// The object is due at this time, unless it is earlier.
    fn schedule(&mut self, key: &K, at: Moment) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        match entry.state {
            State::Idle => {
                entry.state = State::Waiting(at);
                self.timers.insert((at, key.clone()));
            }
            State::Waiting(before) if at < before => {
                entry.state = State::Waiting(at);
                self.timers.remove(&(before, key.clone()));
                self.timers.insert((at, key.clone()));
            }
            State::Waiting(_) | State::Ready => {}
            State::Running(again) => {
                entry.state = State::Running(Some(again.map_or(at, |again| again.min(at))));
            }
        }
    }

    /// The object to reconcile now, if one is due and the limits allow it. The caller ends its reconcile with
    /// [`Queue::done`].
    pub fn next(&mut self, now: Moment) -> Option<K> {
        self.collect_due(now);
        if self.running >= self.limits.at_once {
            return None;
        }
        for _ in 0..self.turns.len() {
            let lane = self.turns.pop_front()?;
            let is_full = self.running_in.get(&lane).is_some_and(|running| *running >= self.limits.in_lane);
            if is_full {
                self.turns.push_back(lane);
                continue;
            }
            let waiting = self.ready.get_mut(&lane)?;
            let key = waiting.pop_front()?;
            match waiting.is_empty() {
                true => _ = self.ready.remove(&lane),
                false => self.turns.push_back(lane.clone()),
            }
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.state = State::Running(None);
                // An event came as soon as possible: the pause doubles. No event came for a while: the pause is reset.
                let idle = entry.began.map_or(Duration::MAX, |began| now.saturating_sub(began));
                entry.pause = match idle < entry.pause * 2 {
                    true => (entry.pause * 2).min(self.limits.slowest.max(self.limits.pause)),
                    false if idle > entry.pause * 4 => self.limits.pause,
                    false => entry.pause,
                };
                entry.began = Some(now);
            }
            self.running += 1;
            *self.running_in.entry(lane).or_default() += 1;
            return Some(key);
        }
        None
    }

    fn collect_due(&mut self, now: Moment) {
        while let Some((at, _)) = self.timers.first()
            && *at <= now
            && let Some((at, key)) = self.timers.pop_first()
            && let Some(entry) = self.entries.get_mut(&key)
        {
            entry.state = State::Ready;
            entry.due = at;
            self.added += 1;
            let lane = entry.lane.clone();
            let waiting = self.ready.entry(lane.clone()).or_default();
            if waiting.is_empty() {
                self.turns.push_back(lane);
            }
            waiting.push_back(key);
        }
    }

    /// Whether a reconcile that starts now may delay status changes that are only messages.
    pub fn may_delay_status(&self, key: &K, now: Moment) -> bool {
        let until = self.entries.get(key).and_then(|entry| self.limits.delayed_until(entry));
        until.is_none_or(|until| now < until)
    }

    /// Records whether the current reconcile has delayed a status change. If so, the object is reconciled again in
    /// time.
    pub fn delayed_status(&mut self, key: &K, has_delayed: bool) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.delayed_since = has_delayed.then_some(entry.delayed_since.or(entry.began)).flatten();
        if let Some(until) = self.limits.delayed_until(entry) {
            self.schedule(key, until);
        }
    }

    /// Ends a reconcile. Returns when the object is due again.
    pub fn done(&mut self, key: &K, verdict: Verdict, now: Moment) -> Option<Moment> {
        let resync = self.resync(key);
        let entry = self.entries.get_mut(key)?;
        let State::Running(again) = entry.state else { return None };
        entry.failures = match verdict {
            Verdict::Failed => entry.failures.saturating_add(1),
            Verdict::Conflict => entry.failures,
            Verdict::Changed | Verdict::After(_) | Verdict::Refused => 0,
        };
        let wait = match verdict {
            Verdict::Changed => resync,
            Verdict::After(time) => time.min(resync),
            Verdict::Conflict => FIRST_RETRY,
            Verdict::Refused => LONGEST_RETRY,
            Verdict::Failed => back_off(entry.failures),
        };
        entry.state = State::Idle;
        let rested = entry.began.map_or(now, |began| began + entry.pause);
        let lane = entry.lane.clone();
        self.leave(&lane);
        let at = again.map_or(now + wait, |again| again.min(now + wait)).max(rested);
        self.schedule(key, at);
        Some(at)
    }

    /// Ends a reconcile of an object that is deleted. If it was enqueued meanwhile, it is reconciled once more.
    pub fn gone(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let State::Running(again) = entry.state else { return };
        let lane = entry.lane.clone();
        match again {
            Some(at) => {
                (entry.state, entry.failures) = (State::Idle, 0);
                self.schedule(key, at);
            }
            None => _ = self.entries.remove(key),
        }
        self.leave(&lane);
    }

    fn leave(&mut self, lane: &str) {
        self.running -= 1;
        if let Some(running) = self.running_in.get_mut(lane) {
            *running -= 1;
            if *running == 0 {
                self.running_in.remove(lane);
            }
        }
    }

    /// When the next object becomes due.
    pub fn wakes_at(&self) -> Option<Moment> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// When an object last became due.
    pub fn was_due(&self, key: &K) -> Option<Moment> {
        self.entries.get(key).map(|entry| entry.due)
    }

    /// Number of objects that have become due since the start.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Number of objects that are due and wait because of the limits.
    pub fn waiting(&self) -> usize {
        self.ready.values().map(VecDeque::len).sum()
    }

    /// Number of objects that are being reconciled.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Number of objects in the queue.
    pub fn known(&self) -> usize {
        self.entries.len()
    }

    /// The resync period of an object. It differs between objects, so that they are not all reconciled at the same time.
    fn resync(&self, key: &K) -> Duration {
        let spread = std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().hash_one(key) % 21;
        let percent = u32::try_from(90 + spread).unwrap_or(100);
        self.limits.resync * percent / 100
    }
}

/// The backoff doubles with each consecutive failure.
fn back_off(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(LONGEST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    fn queue(at_once: usize, in_lane: usize) -> Queue<u8> {
        let resync = Duration::from_secs(600);
        Queue::new(Limits {
            at_once,
            in_lane,
            pause: 50 * MS,
            slowest: 200 * MS,
            resync,
            status_delay: 3000 * MS,
            longest_status_delay: 10_000 * MS,
        })
    }

    #[test]
    fn back_off_grows_and_ends() {
        assert_eq!(back_off(1), FIRST_RETRY);
        assert_eq!(back_off(2), FIRST_RETRY * 2);
        assert_eq!(back_off(40), LONGEST_RETRY);
    }

    #[test]
    fn what_becomes_due_is_counted_once_and_its_time_is_known() {
        let mut queue = queue(1, 1);
        queue.ask(&1, "a", MS);
        queue.ask(&1, "a", 2 * MS);
        queue.ask(&2, "a", 3 * MS);
        assert_eq!(queue.next(9 * MS), Some(1));
        assert_eq!((queue.added(), queue.waiting(), queue.was_due(&1)), (2, 1, Some(MS)));
        queue.done(&1, Verdict::After(60 * MS), 10 * MS);
        assert_eq!(queue.next(70 * MS), Some(2), "who has waited longer");
        assert_eq!((queue.added(), queue.was_due(&1), queue.was_due(&3)), (3, Some(70 * MS), None));
    }

    #[test]
    fn a_lane_has_two_fifths_of_the_places() {
        let places = |at_once| Limits::default().with_concurrency(at_once).in_lane;
        assert_eq!([1, 2, 10, 50, 100].map(places), [1, 1, 4, 20, 40]);
        assert_eq!(Limits::default().with_concurrency(50), Limits::default());
    }

    #[test]
    fn what_happens_during_a_look_is_looked_at_afterwards() {
        let mut queue = queue(9, 9);
        queue.ask(&1, "a", MS);
        assert_eq!(queue.next(MS), Some(1));
        queue.ask(&1, "a", 2 * MS);
        queue.ask(&1, "a", 3 * MS);
        assert_eq!(queue.next(3 * MS), None, "it is being looked at");
        queue.done(&1, Verdict::Changed, 4 * MS);
        assert_eq!(queue.next(4 * MS), None, "a burst is one look");
        assert_eq!(queue.next(51 * MS), Some(1));
        queue.done(&1, Verdict::Changed, 52 * MS);
        assert_eq!(queue.next(Duration::from_secs(500)), None);
        assert_eq!(queue.next(Duration::from_secs(700)), Some(1), "nothing is left alone for ever");
    }

    #[test]
    fn a_delayed_status_change_is_written_in_time() {
        let mut queue = queue(9, 9);
        queue.ask(&1, "a", MS);
        assert_eq!(queue.next(MS), Some(1));
        assert!(queue.may_delay_status(&1, MS));
        queue.delayed_status(&1, true);
        queue.done(&1, Verdict::Changed, 2 * MS);
        queue.ask(&1, "a", 2000 * MS);
        assert_eq!(queue.next(2000 * MS), Some(1));
        assert!(queue.may_delay_status(&1, 2000 * MS));
        queue.delayed_status(&1, true);
        let due = queue.done(&1, Verdict::Changed, 2001 * MS);
        assert_eq!(due, Some(5000 * MS), "counted from the last event");
        assert_eq!((queue.next(3001 * MS), queue.next(5000 * MS)), (None, Some(1)));
        assert!(!queue.may_delay_status(&1, 5000 * MS));
        queue.delayed_status(&1, false);
        queue.done(&1, Verdict::Changed, 5001 * MS);
        assert!(
            queue.may_delay_status(&1, 5002 * MS),
            "the change is written: the next one has its own delay"
        );
    }

    #[test]
    fn a_delayed_status_is_written_while_more_events_arrive() {
        let mut queue = queue(9, 9);
        for second in 0..10 {
            let now = second * 1000 * MS + MS;
            queue.ask(&1, "a", now);
            assert_eq!(queue.next(now + 300 * MS), Some(1));
            assert!(queue.may_delay_status(&1, now), "{second}");
            queue.delayed_status(&1, true);
            queue.done(&1, Verdict::Changed, now + 300 * MS);
        }
        assert!(queue.may_delay_status(&1, 10_000 * MS));
        assert!(!queue.may_delay_status(&1, 10_301 * MS), "counted from the first reconcile");
    }

    #[test]
    fn a_lane_that_hangs_leaves_room_for_others() {
        let mut queue = queue(4, 2);
        for key in 0..100 {
            queue.ask(&key, "hangs", MS);
        }
        queue.ask(&200, "well", MS);
        let mut begun = Vec::new();
        while let Some(key) = queue.next(MS) {
            begun.push(key);
        }
        assert_eq!(begun.len(), 3);
        assert!(begun.contains(&200), "{begun:?}");
        queue.ask(&201, "well", 2 * MS);
        assert_eq!(queue.next(2 * MS), Some(201));
        assert_eq!(queue.next(2 * MS), None, "there is no more room");
    }

    #[test]
    fn failures_wait_longer_and_events_do_not_hurry_them() {
        let mut queue = queue(9, 9);
        let mut now = MS;
        queue.ask(&1, "a", now);
        for failures in 1..=3 {
            assert_eq!(queue.next(now), Some(1));
            assert_eq!(queue.done(&1, Verdict::Failed, now), Some(now + back_off(failures)));
            now += back_off(failures);
        }
        assert_eq!(queue.next(now), Some(1));
        queue.done(&1, Verdict::Failed, now);
        queue.ask(&1, "a", now + MS);
        assert_eq!(queue.next(now + MS), None);
        assert_eq!(queue.next(now + PAUSE_AFTER_FAILURES), Some(1), "something has changed: it may help");
        queue.done(&1, Verdict::After(5 * MS), now + PAUSE_AFTER_FAILURES);
        assert_eq!(queue.next(now + PAUSE_AFTER_FAILURES + 5 * MS), None, "who is in a hurry rests, too");
        assert_eq!(queue.next(now + PAUSE_AFTER_FAILURES + 50 * MS), Some(1));
    }

    #[test]
    fn an_object_to_which_much_happens_is_looked_at_less_and_less_often() {
        let mut queue = queue(9, 9);
        let mut began = Vec::new();
        for millisecond in 0..1000 {
            let now = millisecond * MS;
            queue.ask(&1, "a", now);
            if queue.next(now).is_some() {
                began.push(millisecond);
                queue.done(&1, Verdict::Changed, now);
            }
        }
        assert_eq!(began, [0, 50, 150, 350, 550, 750, 950]);
        // Without events for a while, the pause is short again.
        let calm = Duration::from_secs(5);
        queue.ask(&1, "a", calm);
        assert_eq!(queue.next(calm), Some(1));
        queue.done(&1, Verdict::Changed, calm);
        queue.ask(&1, "a", calm + MS);
        assert_eq!(queue.next(calm + 50 * MS), Some(1));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut queue = queue(9, 9);
        queue.ask(&1, "a", MS);
        assert_eq!(queue.next(MS), Some(1));
        queue.gone(&1);
        assert_eq!((queue.known(), queue.running(), queue.wakes_at()), (0, 0, None));
        queue.ask(&1, "a", 2 * MS);
        assert_eq!(queue.next(2 * MS), Some(1));
        queue.ask(&1, "a", 3 * MS);
        queue.gone(&1);
        assert_eq!(queue.next(60 * MS), Some(1), "one of that name has come meanwhile");
    }

    /// The events of the property test.
    #[derive(Clone, Debug)]
    enum Event {
        Happens(u8),
        Goes(u8),
        Time(u64),
        Begin,
        End(usize, u8),
        /// The process is started again: everything that exists is listed.
        Restart,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            4 => (0..12_u8).prop_map(Event::Happens),
            1 => (0..12_u8).prop_map(Event::Goes),
            3 => (1..400_u64).prop_map(Event::Time),
            6 => Just(Event::Begin),
            5 => (any::<usize>(), 0..5_u8).prop_map(|(which, verdict)| Event::End(which, verdict)),
            1 => Just(Event::Restart),
        ];
        prop::collection::vec(event, 0..200)
    }

    fn verdict(number: u8) -> Verdict {
        [Verdict::Changed, Verdict::After(30 * MS), Verdict::Conflict, Verdict::Refused, Verdict::Failed]
            [usize::from(number) % 5]
    }

    /// The objects, and a controller that reconciles them.
    struct Play {
        queue: Queue<u8>,
        now: Moment,
        /// The version of each object; none if it does not exist.
        world: BTreeMap<u8, u64>,
        versions: u64,
        /// The version of each object at its last reconcile.
        seen: BTreeMap<u8, Option<u64>>,
        running: Vec<u8>,
    }

    impl Play {
        fn lane(key: u8) -> String {
            format!("lane-{}", key % 3)
        }

        fn ask(&mut self, key: u8) {
            self.queue.ask(&key, &Self::lane(key), self.now);
        }

        fn begin(&mut self) -> bool {
            let Some(key) = self.queue.next(self.now) else { return false };
            assert!(!self.running.contains(&key), "{key} is looked at twice at the same time");
            self.running.push(key);
            assert!(self.running.len() <= 4);
            let in_lane = self.running.iter().filter(|other| Self::lane(**other) == Self::lane(key)).count();
            assert!(in_lane <= 2, "{:?}", self.running);
            self.seen.insert(key, self.world.get(&key).copied());
            true
        }

        fn end(&mut self, which: usize, verdict: Verdict) {
            if self.running.is_empty() {
                return;
            }
            let key = self.running.swap_remove(which % self.running.len());
            match self.seen[&key] {
                Some(_) => _ = self.queue.done(&key, verdict, self.now),
                None => self.queue.gone(&key),
            }
        }

        fn play(&mut self, event: &Event) {
            match *event {
                Event::Happens(key) => {
                    self.versions += 1;
                    self.world.insert(key, self.versions);
                    self.ask(key);
                }
                Event::Goes(key) => {
                    if self.world.remove(&key).is_some() {
                        self.ask(key);
                    }
                }
                Event::Time(milliseconds) => self.now += Duration::from_millis(milliseconds),
                Event::Begin => _ = self.begin(),
                Event::End(which, number) => self.end(which, verdict(number)),
                Event::Restart => {
                    self.queue = queue(4, 2);
                    self.running.clear();
                    self.seen.clear();
                    for key in self.world.keys().copied().collect::<Vec<_>>() {
                        self.ask(key);
                    }
                }
            }
        }
    }

    proptest! {
        /// For any events in any order, the last state of every object is reconciled soon.
        #[test]
        fn nothing_is_lost(events in events()) {
            let mut play = Play {
                queue: queue(4, 2), now: MS, world: BTreeMap::new(), versions: 0, seen: BTreeMap::new(),
                running: Vec::new(),
            };
            for event in &events {
                play.play(event);
            }
            // All reconciles end, and no further event arrives.
            for _ in 0..200 {
                while play.begin() {}
                while !play.running.is_empty() {
                    play.end(0, Verdict::Changed);
                }
                play.now += 100 * MS;
            }
            for (key, version) in &play.world {
                prop_assert_eq!(play.seen.get(key), Some(&Some(*version)), "object {}", key);
            }
            prop_assert_eq!(play.queue.running(), 0);
            prop_assert_eq!(play.queue.known(), play.world.len(), "what is gone is forgotten");
        }
    }
}
