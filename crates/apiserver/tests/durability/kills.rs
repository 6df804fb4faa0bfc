//! Killed at any moment, the server has every write that was acknowledged, none torn, no revision twice; and
//! watches go on without a gap, or are told that there is one.
//!
//! `CAPSTAN_KILLS` says how often it is killed, `CAPSTAN_SEED` repeats a run's choices.

use std::time::Duration;

use crate::{
    clients::{Ledger, Watched},
    run::Run,
    server::{self, Server},
};

const KILLS: u64 = 12;

/// Not a test of its own: the process that is killed.
#[tokio::test(flavor = "multi_thread")]
async fn serve() {
    if let Ok(folder) = std::env::var(server::FOLDER) {
        server::serve(folder.as_ref()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_kills() {
    let Run { mut dice, kills } = Run::start(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::default();
    let watched = Watched::default();
    for kill in 0..kills {
        if dice.below(4) == 0 {
            // While it starts, reads its file, mends it.
            let server = Server::spawn(folder.path());
            tokio::time::sleep(Duration::from_millis(dice.below(150))).await;
            server.kill();
            continue;
        }
        let mut server = Server::spawn(folder.path());
        let client = server.client().await;
        ledger.verify(&client).await;
        watched.catch_up(&client, &ledger).await;
        let mut tasks = tokio::task::JoinSet::new();
        let follow = watched.clone().follow(client.clone());
        tasks.spawn(async move { _ = follow.await });
        for task in 0..4 {
            tasks.spawn(ledger.clone().write(client.clone(), task, dice.below(1 << 31)));
        }
        ledger.first_ack(kill).await;
        tokio::time::sleep(Duration::from_millis(dice.below(400))).await;
        server.kill();
        tasks.join_all().await;
    }
    let mut server = Server::spawn(folder.path());
    let client = server.client().await;
    ledger.verify(&client).await;
    watched.catch_up(&client, &ledger).await;
    Watched::from_the_beginning(&client, &ledger).await;
    server.kill();
    let acked = ledger.acked();
    assert!(acked as u64 >= kills / 2, "{acked} writes in {kills} lives");
    eprintln!("{acked} writes acknowledged, {} watched", watched.seen());
}
