//! Renews the credential: requests another one, for the same key, after two thirds of its validity.

use capstan_agent::{Clock as _, SystemClock};
use jiff::Timestamp;

use crate::api::Client;
use crate::config::Config;
use crate::credential::{Credential, Key};
use crate::enroll::{self, Asking};
use crate::paths::Paths;
use crate::status::Board;
use crate::{Failure, say};

pub(super) async fn run(
    client: &Client,
    paths: &Paths,
    config: &Config,
    key: &Key,
    mut credential: Credential,
    board: &Board,
) {
    board.note(|status| &mut status.credential, Ok(()));
    loop {
        let due = credential.renewal();
        while Timestamp::now() < due {
            SystemClock.sleep_until(due).await;
        }
        board.note(|status| &mut status.credential, Err("the agent has requested another one".to_owned()));
        match renew(client, paths, config, key).await {
            Ok(renewed) => {
                say!("the credential was renewed until {}", renewed.expires_at);
                credential = renewed;
                board.note(|status| &mut status.credential, Ok(()));
            }
            Err(error) => {
                say!("{error}");
                board.note(|status| &mut status.credential, Err(error.to_string()));
                tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            }
        }
    }
}

async fn renew(client: &Client, paths: &Paths, config: &Config, key: &Key) -> Result<Credential, Failure> {
    let renewed = enroll::ask(client, config, key, &key.request(), Asking::ToStay).await;
    renewed.write(paths)?;
    client.become_(renewed.api(config)?);
    Ok(renewed)
}
