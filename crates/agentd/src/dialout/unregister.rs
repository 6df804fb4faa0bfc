//! `capstan-agent unregister`: ends dialing out, and removes everything of the registration from this machine. The objects on
//! the management plane stay until their Host is removed there.

use std::path::Path;

use super::places::Places;
use super::unit;
use crate::paths::Paths;
use crate::{Failure, files, print};

/// May be cut off anywhere, and run again.
pub(crate) async fn run(paths: &Paths) -> Result<(), Failure> {
    let places = Places(paths);
    if places.is_machine() {
        unit::uninstall(&places).await?;
    }
    let wrong = |path: &Path, error: std::io::Error| {
        Failure::new(format!("cannot remove {}: {error}", path.display()))
    };
    for file in [places.registration(), places.key()] {
        files::remove(&file).map_err(|error| wrong(&file, error))?;
    }
    // The agent of a machine that is still enrolled needs the proxy.
    let etc = (!paths.config().exists()).then(|| places.etc());
    for folder in etc.into_iter().chain([places.state()]) {
        files::remove_folder(&folder).map_err(|error| wrong(&folder, error))?;
    }
    // Its program goes last, so that until then this can be done again.
    let binary = places.binary();
    files::remove(&binary)
        .and_then(|()| binary.parent().map_or(Ok(()), files::remove_if_empty))
        .map_err(|error| wrong(&binary, error))?;
    print("this machine does not dial out any more; remove its Host with `capstan host remove`\n")
}
