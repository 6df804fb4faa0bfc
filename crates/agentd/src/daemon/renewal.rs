//! Keeps the certificate fresh: asks for another one, for the same key, when two thirds of its life are over.

use capstan_agent::{Clock as _, SystemClock};
use jiff::Timestamp;

use crate::api::{Api, Client};
use crate::config::Config;
use crate::credential::{Certificate, Key};
use crate::enroll::{self, Asking};
use crate::paths::Paths;
use crate::status::Board;
use crate::{Failure, say};

pub(super) async fn run(
    client: &Client,
    paths: &Paths,
    config: &Config,
    key: &Key,
    mut certificate: Certificate,
    board: &Board,
) {
    board.note(|status| &mut status.certificate, Ok(()));
    loop {
        let due = certificate.renewal();
        while Timestamp::now() < due {
            SystemClock.sleep_until(due).await;
        }
        board.note(|status| &mut status.certificate, Err("another one was asked for".to_owned()));
        match renew(client, paths, config, key, &certificate).await {
            Ok(renewed) => {
                say!("the certificate was renewed until {}", renewed.read.not_after);
                certificate = renewed;
                board.note(|status| &mut status.certificate, Ok(()));
            }
            Err(error) => {
                say!("{error}");
                board.note(|status| &mut status.certificate, Err(error.to_string()));
                tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            }
        }
    }
}

async fn renew(
    client: &Client,
    paths: &Paths,
    config: &Config,
    key: &Key,
    old: &Certificate,
) -> Result<Certificate, Failure> {
    let request = key.request(config)?;
    // One that is worth the change: the answer to an old request may still lie there.
    let renewed = enroll::ask(client, config, key, &request, Asking::ToStay, |found| {
        found.read.not_after > old.read.not_after
    })
    .await;
    renewed.write(paths, config)?;
    client.become_(Api::new(config.server.clone(), renewed.trust(config, key)?, None));
    Ok(renewed)
}
