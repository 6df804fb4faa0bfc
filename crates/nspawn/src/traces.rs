//! Cleans up what systemd-nspawn leaves on this computer when it is killed, by the IDs of machines.

use std::fs;
use std::path::Path;

use crate::network;

/// What systemd-nspawn keeps for each machine.
const RUN: [&str; 2] = ["/run/systemd/nspawn/propagate", "/run/systemd/nspawn/unix-export"];
const LINKS: &str = "/sys/class/net";

/// Name of the cgroup of a machine, and of those of a set what they begin with.
pub(crate) fn cgroup_name(id: &str) -> String {
    format!("capstan-{id}")
}

/// Name of the end of a machine's link that is attached to the bridge, as systemd-nspawn names it.
fn link_name(id: &str) -> String {
    format!("vb-{id}")
}

/// Removes what the dead machine with this id has left.
pub(crate) fn remove(id: &str) {
    let link = link_name(id);
    // Connections that were open keep the machine's network, and with it this link, alive for a minute or two
    // after the machine has died. It would be in the way of the machine's next start.
    if Path::new(LINKS).join(&link).exists() {
        network::remove_link(&link);
    }
    for folder in RUN {
        // An error says that there is nothing, or that it is not ours to remove.
        let _ = fs::remove_dir(Path::new(folder).join(id));
    }
}

/// Removes what the dead machines have left whose ids begin with `prefix`.
pub(crate) fn remove_all(prefix: &str) {
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let links = names(LINKS).into_iter().filter_map(|name| name.strip_prefix("vb-").map(str::to_owned));
    for id in links.chain(names(RUN[0])).chain(names(RUN[1])).filter(|id| id.starts_with(prefix)) {
        remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_names_that_fit() {
        // Eight digits for the set, two for the machine.
        assert_eq!(link_name("0123456789").len(), 13);
        assert!(cgroup_name("0123456789").starts_with(&cgroup_name("01234567")));
    }
}
