//! Requests that are worked on at the same time, shared fairly between clients.
//!
//! A request that is worked on takes a seat, and the number of seats is fixed. A client that floods the server waits in its own
//! queue: clients with waiting requests take turns, and one client never has more than half of the seats. Controllers and
//! administrators are exempt: they take no seat and never wait.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// A longer queue is searched for requests whose clients have gone.
const MOST_UNCHECKED: usize = 64;

/// All seats.
pub(crate) struct FairSeats {
    state: Mutex<State>,
    most_each: usize,
}

struct State {
    free: usize,
    /// Seats of each client that has any.
    held: HashMap<Arc<str>, usize>,
    /// Requests of each client that has no seat for them yet.
    waiting: HashMap<Arc<str>, VecDeque<oneshot::Sender<Seat>>>,
    /// Whose turn it is: clients with waiting requests.
    turns: VecDeque<Arc<str>>,
}

/// A seat. Dropping it lets the next request have it.
pub(crate) struct Seat {
    /// `None` once it has been given back.
    owner: Option<(Arc<FairSeats>, Arc<str>)>,
}

impl FairSeats {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let (held, waiting, turns) = (HashMap::new(), HashMap::new(), VecDeque::new());
        let state = Mutex::new(State { free: count, held, waiting, turns });
        Arc::new(Self { state, most_each: count.div_ceil(2) })
    }

    /// Waits for a seat.
    pub(crate) async fn take(self: &Arc<Self>, client: &str) -> Seat {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.lock();
            let client: Arc<str> = Arc::from(client);
            let queue = state.waiting.entry(Arc::clone(&client)).or_default();
            let is_first = queue.is_empty();
            // Of requests whose client has gone meanwhile.
            if queue.len() >= MOST_UNCHECKED {
                queue.retain(|waiting| !waiting.is_closed());
            }
            queue.push_back(sender);
            if is_first {
                state.turns.push_back(client);
            }
        }
        self.hand_out();
        // A sender is dropped only with a seat in it, or together with the seats, when no request waits.
        receiver.await.unwrap_or(Seat { owner: None })
    }

    /// Gives free seats to those whose turn it is.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let Some((client, sender)) = self.lock().next(self.most_each) else { return };
            let seat = Seat { owner: Some((Arc::clone(self), Arc::clone(&client))) };
            // A client that has gone needs no seat. Not dropped as it is: that would call this function again.
            if let Err(mut refused) = sender.send(seat) {
                refused.owner = None;
                self.lock().give_back(&client);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change of it is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next client that may have a seat, which it holds from now on, and its request.
    fn next(&mut self, most_each: usize) -> Option<(Arc<str>, oneshot::Sender<Seat>)> {
        if self.free == 0 {
            return None;
        }
        // At most two clients have half of the seats, so this looks at three.
        let may_have = |client: &Arc<str>| self.held.get(client).is_none_or(|held| *held < most_each);
        let turn = self.turns.iter().position(may_have)?;
        let client = self.turns.remove(turn)?;
        let queue = self.waiting.get_mut(&client)?;
        let sender = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.turns.push_back(Arc::clone(&client));
        }
        self.free -= 1;
        *self.held.entry(Arc::clone(&client)).or_default() += 1;
        Some((client, sender))
    }

    fn give_back(&mut self, client: &Arc<str>) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(client) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(client);
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some((seats, client)) = self.owner.take() {
            seats.lock().give_back(&client);
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

    /// A request that has asked for a seat.
    async fn ask<'a>(seats: &'a Arc<FairSeats>, client: &'a str) -> (Taking<'a>, Option<Seat>) {
        // Without the budget of a task, which says now and then that nothing is there.
        let mut taking: Taking<'a> = Box::pin(tokio::task::unconstrained(seats.take(client)));
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
        for seed in 0_u64..500 {
            let (seats, mut dice) = (FairSeats::new(3), seed);
            let (mut held, mut waiting): (Vec<Seat>, Vec<Taking<'_>>) = (Vec::new(), Vec::new());
            for _ in 0..60 {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let choice = (dice >> 33) as usize;
                match choice % 4 {
                    0 | 1 => match ask(&seats, CLIENTS[choice / 4 % 3]).await {
                        (_, Some(seat)) => held.push(seat),
                        (taking, None) => waiting.push(taking),
                    },
                    2 if !held.is_empty() => drop(held.swap_remove(choice / 4 % held.len())),
                    3 if !waiting.is_empty() => drop(waiting.swap_remove(choice / 4 % waiting.len())),
                    _ => {}
                }
                waiting = those_still_waiting(waiting, &mut held).await;
                assert!(held.len() <= 3, "seed {seed}");
                assert_eq!(seats.lock().free, 3 - held.len(), "seed {seed}");
            }
            while let Some(seat) = held.pop() {
                drop(seat);
                waiting = those_still_waiting(waiting, &mut held).await;
            }
            assert!(waiting.is_empty(), "seed {seed}: requests wait without end");
            let state = seats.lock();
            assert_eq!((state.free, state.held.len(), state.waiting.len()), (3, 0, 0), "seed {seed}");
            assert!(state.turns.is_empty(), "seed {seed}");
        }
    }
}
