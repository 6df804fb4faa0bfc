//! `capstan-agent check`: whether this program could run on this machine. Started by the agent that it is to replace. Writes nothing, and
//! sends no request.

use crate::config::Config;
use crate::credential::{Credential, Key};
use crate::paths::Paths;
use crate::{Failure, explain, print};

pub(crate) fn run(paths: &Paths) -> Result<(), Failure> {
    let config = Config::read(paths)?;
    if Key::read(paths)?.is_none() {
        return Err(Failure::new(format!("there is no key at {}", paths.key().display())));
    }
    if Credential::read(paths, &config)?.is_none() {
        return Err(Failure::new(format!("there is no credential at {}", paths.credential().display())));
    }
    let mut obstacles = Vec::new();
    explain::history(paths, &mut obstacles);
    match obstacles.into_iter().next() {
        Some(obstacle) => Err(Failure::new(obstacle)),
        None => print(&format!("capstan-agent {} can run here\n", env!("CARGO_PKG_VERSION"))),
    }
}
