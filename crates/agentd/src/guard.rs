//! `capstan-agent guard`: the previous program looks after the one that has replaced it. systemd starts it before each start of the
//! agent, and once more when the time for the confirmation is over. What it does is decided in the library.

use capstan_agent::real::Linux;
use capstan_agent::upgrade::{CONFIRMATION, Guarded, Occasion, guard};
use jiff::Timestamp;

use crate::paths::Paths;
use crate::{Failure, say, service};

pub(crate) async fn run(paths: &Paths, expired: bool) -> Result<(), Failure> {
    let machine = Linux::rooted(paths.root()).map_err(Failure::new)?;
    let occasion = if expired { Occasion::Expired } else { Occasion::Start };
    let places = paths.places(service::content(paths));
    let guarded = guard(&machine, &places, occasion, Timestamp::now()).await.map_err(Failure::new)?;
    match guarded {
        Guarded::Nothing => Ok(()),
        Guarded::OnTrial { starts } => {
            say!("{} is on trial", places.program);
            if !paths.is_machine() {
                return Ok(());
            }
            if starts == 1 {
                // The timer of an earlier trial would end this one too early.
                service::forget_trial().await;
            }
            service::end_trial_later(paths, CONFIRMATION).await
        }
        Guarded::Returned => {
            say!("{} does not work; the previous program is back", places.program);
            // At a start, systemd is about to start it anyway.
            if expired && paths.is_machine() { service::restart().await } else { Ok(()) }
        }
    }
}
