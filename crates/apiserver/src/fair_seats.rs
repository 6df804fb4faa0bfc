//! Requests that are worked on at the same time, shared fairly between clients.
//!
//! A request that is worked on takes a seat, and the number of seats is fixed. A client that floods the server waits in its own
//! queue: clients with waiting requests take turns, and one client never has more than half of the seats. Requests have a
//! priority level, which has no more seats than its share, and levels with waiting requests take turns. Controllers and
//! administrators are exempt: they take no seat and never wait.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// A longer queue is searched for requests whose clients have gone.
const MOST_UNCHECKED: usize = 64;

/// The seats that requests of a priority level may have.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// The name of the level.
    pub(crate) level: Arc<str>,
    /// At least one.
    pub(crate) seats: usize,
}

/// All seats.
pub(crate) struct FairSeats {
    state: Mutex<State>,
    most_each: usize,
}

struct State {
    free: usize,
    /// Seats of each client that has any.
    held: HashMap<Arc<str>, usize>,
    /// Levels whose requests have seats or wait for them.
    levels: HashMap<Arc<str>, Level>,
    /// Whose turn it is: levels with waiting requests.
    turns: VecDeque<Arc<str>>,
}

#[derive(Default)]
struct Level {
    held: usize,
    /// As the last request knew it.
    most: usize,
    /// Requests of each client that has no seat for them yet.
    waiting: HashMap<Arc<str>, VecDeque<oneshot::Sender<Seat>>>,
    /// Whose turn it is: clients with waiting requests.
    turns: VecDeque<Arc<str>>,
}

/// A client, and the level of its request.
#[derive(Clone)]
struct Owner {
    client: Arc<str>,
    level: Arc<str>,
}

/// A seat. Dropping it lets the next request have it.
pub(crate) struct Seat {
    /// `None` once it has been given back.
    owner: Option<(Arc<FairSeats>, Owner)>,
}

impl FairSeats {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let (held, levels, turns) = (HashMap::new(), HashMap::new(), VecDeque::new());
        let state = Mutex::new(State { free: count, held, levels, turns });
        Arc::new(Self { state, most_each: count.div_ceil(2) })
    }

    /// Waits for a seat.
    pub(crate) async fn take(self: &Arc<Self>, client: &str, share: &Share) -> Seat {
        let (sender, receiver) = oneshot::channel();
        self.lock().queue(Arc::from(client), share, sender);
        self.hand_out();
        // A sender is dropped only with a seat in it, or together with the seats, when no request waits.
        receiver.await.unwrap_or(Seat { owner: None })
    }

    /// Gives free seats to those whose turn it is.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let Some((owner, sender)) = self.lock().next(self.most_each) else { return };
            let seat = Seat { owner: Some((Arc::clone(self), owner.clone())) };
            // A client that has gone needs no seat. Not dropped as it is: that would call this function again.
            if let Err(mut refused) = sender.send(seat) {
                refused.owner = None;
                self.lock().give_back(&owner);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change of it is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Lets a request wait for its turn.
    fn queue(&mut self, client: Arc<str>, share: &Share, request: oneshot::Sender<Seat>) {
        let level = self.levels.entry(Arc::clone(&share.level)).or_default();
        level.most = share.seats.max(1);
        let queue = level.waiting.entry(Arc::clone(&client)).or_default();
        let is_first = queue.is_empty();
        // Of requests whose client has gone meanwhile.
        if queue.len() >= MOST_UNCHECKED {
            queue.retain(|waiting| !waiting.is_closed());
        }
        queue.push_back(request);
        if is_first {
            if level.turns.is_empty() {
                self.turns.push_back(Arc::clone(&share.level));
            }
            level.turns.push_back(client);
        }
    }

    /// The next request that may have a seat, which its client holds from now on.
    fn next(&mut self, most_each: usize) -> Option<(Owner, oneshot::Sender<Seat>)> {
        if self.free == 0 {
            return None;
        }
        for turn in 0..self.turns.len() {
            let name = Arc::clone(&self.turns[turn]);
            let Some((client, request)) =
                self.levels.get_mut(&name).and_then(|level| level.next(&self.held, most_each))
            else {
                continue;
            };
            self.turns.remove(turn);
            if self.levels.get(&name).is_some_and(|level| !level.turns.is_empty()) {
                self.turns.push_back(Arc::clone(&name));
            }
            self.free -= 1;
            *self.held.entry(Arc::clone(&client)).or_default() += 1;
            return Some((Owner { client, level: name }, request));
        }
        None
    }

    fn give_back(&mut self, owner: &Owner) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(&owner.client) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&owner.client);
            }
        }
        if let Some(level) = self.levels.get_mut(&owner.level) {
            level.held -= 1;
            if level.held == 0 && level.turns.is_empty() {
                self.levels.remove(&owner.level);
            }
        }
    }
}

impl Level {
    /// The next request that may have a seat, with its client.
    fn next(
        &mut self,
        held: &HashMap<Arc<str>, usize>,
        most_each: usize,
    ) -> Option<(Arc<str>, oneshot::Sender<Seat>)> {
        if self.held >= self.most {
            return None;
        }
        // At most two clients have half of the seats, so this looks at three.
        let may_have = |client: &Arc<str>| held.get(client).is_none_or(|held| *held < most_each);
        let turn = self.turns.iter().position(may_have)?;
        let client = self.turns.remove(turn)?;
        let queue = self.waiting.get_mut(&client)?;
        let request = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.turns.push_back(Arc::clone(&client));
        }
        self.held += 1;
        Some((client, request))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some((seats, owner)) = self.owner.take() {
            seats.lock().give_back(&owner);
            seats.hand_out();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::Pin, task::Poll};

    use futures::poll;

    use super::*;

    type Taking<'a> = Pin<Box<dyn Future<Output = Seat> + 'a>>;

    fn share(level: &str, seats: usize) -> Share {
        Share { level: Arc::from(level), seats }
    }

    /// A request that has asked for a seat, of a level that may have all.
    async fn ask<'a>(seats: &'a Arc<FairSeats>, client: &'a str) -> (Taking<'a>, Option<Seat>) {
        ask_in(seats, client, share("all", usize::MAX)).await
    }

    async fn ask_in<'a>(
        seats: &'a Arc<FairSeats>,
        client: &'a str,
        share: Share,
    ) -> (Taking<'a>, Option<Seat>) {
        // Without the budget of a task, which says now and then that nothing is there.
        let take = async move { seats.take(client, &share).await };
        let mut taking: Taking<'a> = Box::pin(tokio::task::unconstrained(take));
        match poll!(&mut taking) {
            Poll::Ready(seat) => (taking, Some(seat)),
            Poll::Pending => (taking, None),
        }
    }

    #[tokio::test]
    async fn clients_take_turns() {
        let seats = FairSeats::new(1);
        let (_, first) = ask(&seats, "busy").await;
        let mut busy = Vec::new();
        for _ in 0..3 {
            busy.push(ask(&seats, "busy").await.0);
        }
        let (mut other, none) = ask(&seats, "other").await;
        assert!(first.is_some() && none.is_none());
        drop(first);
        let Poll::Ready(second) = poll!(&mut busy[0]) else { panic!("the first that waited") };
        drop(second);
        assert!(poll!(&mut busy[1]).is_pending(), "it is the turn of the other one");
        assert!(poll!(&mut other).is_ready());
    }

    #[tokio::test]
    async fn one_client_never_has_more_than_half() {
        let seats = FairSeats::new(4);
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(ask(&seats, "busy").await.1.expect("a seat"));
        }
        let (mut third, none) = ask(&seats, "busy").await;
        assert!(none.is_none());
        let other = ask(&seats, "other").await.1;
        assert!(other.is_some());
        drop(other);
        assert!(poll!(&mut third).is_pending());
        held.pop();
        assert!(poll!(&mut third).is_ready());
    }

    #[tokio::test]
    async fn a_level_has_no_more_than_its_share() {
        let seats = FairSeats::new(8);
        let (low, high) = (|| share("low", 2), || share("high", 6));
        let mut held = Vec::new();
        for client in ["a", "b"] {
            held.push(ask_in(&seats, client, low()).await.1.expect("a seat"));
        }
        let (mut third, none) = ask_in(&seats, "c", low()).await;
        assert!(none.is_none(), "of the same level, whichever client");
        let mut others = Vec::new();
        for client in ["a", "b", "c"] {
            others.push(ask_in(&seats, client, high()).await.1.expect("other levels have theirs"));
        }
        others.clear();
        assert!(poll!(&mut third).is_pending());
        held.pop();
        assert!(poll!(&mut third).is_ready());
    }

    #[tokio::test]
    async fn levels_take_turns() {
        let seats = FairSeats::new(1);
        let (_, first) = ask_in(&seats, "a", share("low", 1)).await;
        let (mut second, _) = ask_in(&seats, "b", share("low", 1)).await;
        let (mut third, _) = ask_in(&seats, "c", share("low", 1)).await;
        let (mut other, _) = ask_in(&seats, "d", share("high", 1)).await;
        drop(first);
        let Poll::Ready(seat) = poll!(&mut second) else { panic!("the first that waited") };
        drop(seat);
        assert!(poll!(&mut third).is_pending(), "it is the turn of the other level");
        assert!(poll!(&mut other).is_ready());
    }

    #[tokio::test]
    async fn a_client_that_goes_leaves_its_seat_to_others() {
        let seats = FairSeats::new(1);
        let (_, held) = ask(&seats, "a").await;
        // The first goes while it waits, the second after it was given the seat, before it knew.
        let (first, _) = ask(&seats, "b").await;
        let (second, _) = ask(&seats, "c").await;
        let (mut third, _) = ask(&seats, "d").await;
        drop(first);
        drop(held);
        drop(second);
        assert!(poll!(&mut third).is_ready());
    }

    /// Moves the seats that are there by now to `held`.
    async fn those_still_waiting<'a>(waiting: Vec<Taking<'a>>, held: &mut Vec<Seat>) -> Vec<Taking<'a>> {
        let mut still = Vec::new();
        for mut taking in waiting {
            match poll!(&mut taking) {
                Poll::Ready(seat) => held.push(seat),
                Poll::Pending => still.push(taking),
            }
        }
        still
    }

    /// For any order of asking, leaving and giving back no more seats are held than exist, and at the end all seats are free
    /// and the queue is empty.
    #[tokio::test]
    async fn every_order_ends_with_all_seats_free() {
        const CLIENTS: [&str; 3] = ["a", "b", "c"];
        let level = |choice: usize| share(["low", "high"][choice], 1 + choice);
        for seed in 0_u64..500 {
            let (seats, mut dice) = (FairSeats::new(3), seed);
            let (mut held, mut waiting): (Vec<Seat>, Vec<Taking<'_>>) = (Vec::new(), Vec::new());
            for _ in 0..60 {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let choice = (dice >> 33) as usize;
                match choice % 4 {
                    0 | 1 => match ask_in(&seats, CLIENTS[choice / 4 % 3], level(choice / 12 % 2)).await {
                        (_, Some(seat)) => held.push(seat),
                        (taking, None) => waiting.push(taking),
                    },
                    2 if !held.is_empty() => drop(held.swap_remove(choice / 4 % held.len())),
                    3 if !waiting.is_empty() => drop(waiting.swap_remove(choice / 4 % waiting.len())),
                    _ => {}
                }
                waiting = those_still_waiting(waiting, &mut held).await;
                assert!(held.len() <= 3, "seed {seed}");
                let state = seats.lock();
                assert_eq!(state.free, 3 - held.len(), "seed {seed}");
                assert!(state.levels.values().all(|level| level.held <= level.most), "seed {seed}");
            }
            while let Some(seat) = held.pop() {
                drop(seat);
                waiting = those_still_waiting(waiting, &mut held).await;
            }
            assert!(waiting.is_empty(), "seed {seed}: requests wait without end");
            let state = seats.lock();
            assert_eq!((state.free, state.held.len(), state.levels.len()), (3, 0, 0), "seed {seed}");
            assert!(state.turns.is_empty(), "seed {seed}");
        }
    }
}
