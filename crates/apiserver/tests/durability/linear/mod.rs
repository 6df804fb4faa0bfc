//! Clients that contend for the same objects are told one story, also over kills: reads, conditional writes and deletions of
//! each object have one order, revisions grow with time over all objects, and lists are states that existed.
//!
//! `CAPSTAN_KILLS` says how often the server is killed, `CAPSTAN_SEED` repeats a run's choices.

mod checker;
mod clients;

use std::time::{Duration, Instant};

use clients::History;

use crate::{run::Run, server::Server};

const KILLS: u64 = 6;
const CLIENTS: u64 = 5;
/// Answers in each life, at least.
const RESPONSES: usize = 40;
/// Long, for a machine that is busy with other things.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn responses_are_linearizable_over_kills() {
    let (Run { mut dice, kills }, history) = (Run::start(KILLS), History::default());
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..=kills {
        let mut server = Server::spawn(folder.path());
        let client = server.client().await;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..CLIENTS {
            tasks.spawn(history.clone().contend(client.clone(), dice.below(1 << 31)));
        }
        tasks.spawn(history.clone().list(client));
        let (before, started) = (history.response_count(), Instant::now());
        while history.response_count() < before + RESPONSES {
            assert!(started.elapsed() < DEADLINE, "few answers: {}", history.response_count() - before);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::time::sleep(Duration::from_millis(dice.below(300))).await;
        server.kill();
        tasks.join_all().await;
    }
    history.check();
    eprintln!("{} answers and {} lists are explained", history.response_count(), history.list_count());
}
