//! How the login user becomes root on a host.

use super::connection::{Connection, RunError};
use crate::access::{Access, Hidden, Sudo};
use crate::error::SshError;
use crate::settings::Settings;

/// Runs a script that comes through standard input. Its first word is where the connection came from and led to:
/// `sudo` would lose it.
const SHELL: &str = r#"/bin/sh -s -- "$SSH_CONNECTION""#;

/// How to run a script with all rights the user has.
#[derive(Clone)]
pub(super) enum Elevation {
    /// As it is.
    None,
    /// By `sudo`, which asks for nothing.
    Free,
    /// By `sudo`, which asks for this.
    Password(Hidden),
}

impl Elevation {
    /// Finds out, once for each connection.
    pub(super) async fn of<'c>(
        connection: &'c Connection,
        access: &Access,
        settings: &Settings,
    ) -> Result<&'c Self, RunError> {
        connection.elevation.get_or_try_init(|| find_out(connection, access, settings)).await
    }

    /// The command, and what comes through its standard input.
    pub(super) fn command(&self, script: &str) -> (String, Vec<u8>) {
        match self {
            Self::None => (SHELL.to_owned(), script.as_bytes().to_vec()),
            Self::Free => (format!("sudo -n -- {SHELL}"), script.as_bytes().to_vec()),
            // -k: it must ask, or the password would be the first line of the script.
            Self::Password(word) => {
                (format!("sudo -k -S -p '' -- {SHELL}"), format!("{}\n{script}", word.reveal()).into_bytes())
            }
        }
    }
}

async fn find_out(
    connection: &Connection,
    access: &Access,
    settings: &Settings,
) -> Result<Elevation, RunError> {
    const DOING: &str = "becoming root";
    let Sudo::Yes(password) = &access.sudo else { return Ok(Elevation::None) };
    let succeeds = async |command: &str, input: String| {
        let output = connection.run(DOING, command, input.into_bytes(), settings).await?;
        Ok::<_, RunError>(output.code)
    };
    // -k: what it remembers from a minute ago it may have forgotten in the next.
    let free = succeeds("sudo -n -k true", String::new()).await?;
    let user = &access.user;
    let refuse = |why: String| Err(RunError::Begun(SshError::NotRoot(why)));
    match (free, password) {
        (Some(0), _) => Ok(Elevation::Free),
        (Some(127), _) => refuse("there is no `sudo` on the host: install it, or log in as root".to_owned()),
        (_, None) => refuse(format!(
            "user {user} must not use `sudo` without a password: allow it (`{user} ALL=(ALL) NOPASSWD: ALL` in \
             /etc/sudoers.d), or add the key `sudo-password` to Secret {}",
            access.secret
        )),
        (_, Some(word)) => match succeeds("sudo -k -S -p '' true", format!("{}\n", word.reveal())).await? {
            Some(0) => Ok(Elevation::Password(word.clone())),
            _ => refuse(format!(
                "`sudo` refuses user {user}: see that the user may use it, and that the key `sudo-password` of Secret \
                 {} is right",
                access.secret
            )),
        },
    }
}
