//! `capstan-agent unregister`: ends dialing out, and removes everything of the registration from this machine. The objects on
//! the management plane stay until their Host is removed there.

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
    for folder in [places.state(), places.etc()] {
        files::remove_folder(&folder)
            .map_err(|error| Failure::new(format!("cannot remove {}: {error}", folder.display())))?;
    }
    // Its program goes last, so that until then this can be done again.
    let binary = places.binary();
    files::remove(&binary)
        .and_then(|()| binary.parent().map_or(Ok(()), files::remove_if_empty))
        .map_err(|error| Failure::new(format!("cannot remove {}: {error}", binary.display())))?;
    print("this machine does not dial out any more; remove its Host with `capstan host remove`\n")
}
