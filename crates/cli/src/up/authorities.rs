//! The CAs of an embedded plane: one, or two while one takes the place of the other.
//!
//! | files | signs the server | signs clients | trusted |
//! |---|---|---|---|
//! | `ca` | `ca` | `ca` | `ca` |
//! | `ca`, `next` | `ca` | `next` | both |
//! | `ca`, `next`, `next.only` | `next` | `next` | `next` |
//!
//! With two of them, machines that know the first one still find the plane, and get certificates of the second one. The third
//! state becomes the first one when the plane starts. Each change of state is one file that is written or removed.

use anyhow::{Context, Result, bail};
use capstan_pki::folder::KeptAuthority;
use capstan_pki::issue::{self, Identity};
use rcgen::{BasicConstraints, CertificateParams, Issuer, KeyPair};
use std::fs;
use std::path::{Path, PathBuf};

use super::pki::write_secret;

const FIRST: &str = "ca";
const NEXT: &str = "next";
const ONLY_NEXT: &str = "next.only";

/// All files that may be there, for backups.
pub(super) const FILES: [&str; 5] = ["ca.crt", "ca.key", "next.crt", "next.key", ONLY_NEXT];

/// The CAs of a plane by what they are for.
pub(crate) struct Authorities {
    /// Signs the certificate of the server.
    pub(super) server: Issuer<'static, KeyPair>,
    /// Signs certificates of clients.
    pub(super) clients: Identity,
    pub(super) clients_issuer: Issuer<'static, KeyPair>,
    /// The certificates that machines, kubeconfigs and the server trust.
    pub(crate) bundle: String,
}

/// How far a replacement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    None,
    Both,
    OnlyNext,
}

impl Replacement {
    pub(crate) fn of(folder: &Path) -> Self {
        match (has(folder, "next.crt"), has(folder, ONLY_NEXT)) {
            (false, _) => Self::None,
            (true, false) => Self::Both,
            (true, true) => Self::OnlyNext,
        }
    }
}

impl Authorities {
    /// Reads the CAs. The first one is made if there is none.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let read = |name| KeptAuthority::named(folder, name, &params()).map_err(anyhow::Error::from);
        let one = |kept: KeptAuthority, issuer| Self {
            bundle: kept.identity.certificate.clone(),
            clients: kept.identity,
            clients_issuer: issuer,
            server: kept.issuer,
        };
        Ok(match Replacement::of(folder) {
            Replacement::None => one(read(FIRST)?, read(FIRST)?.issuer),
            Replacement::OnlyNext => one(read(NEXT)?, read(NEXT)?.issuer),
            Replacement::Both => {
                let (first, next) = (read(FIRST)?, read(NEXT)?);
                Self {
                    bundle: next.identity.certificate.clone() + &first.identity.certificate,
                    clients: next.identity,
                    clients_issuer: next.issuer,
                    server: first.issuer,
                }
            }
        })
    }
}

/// Makes a second CA. The plane uses it when it is started again.
pub(crate) fn begin(folder: &Path) -> Result<()> {
    if Replacement::of(folder) != Replacement::None {
        bail!("the CA is being replaced already: see `capstan rotate plane-ca --finish`");
    }
    // Left behind by a plane that was killed: without the certificate it is of no use.
    remove(folder, "next.key")?;
    remove(folder, ONLY_NEXT)?;
    KeptAuthority::named(folder, NEXT, &params()).map(drop).map_err(anyhow::Error::from)
}

/// Gives up the first CA. The plane does when it is started again.
pub(crate) fn finish(folder: &Path) -> Result<()> {
    match Replacement::of(folder) {
        Replacement::None => bail!("no CA is being replaced: begin with `capstan rotate plane-ca`"),
        Replacement::Both => write_secret(&folder.join(ONLY_NEXT), "The first CA is not used any more.\n"),
        Replacement::OnlyNext => Ok(()),
    }
}

/// Puts the second CA in the place of the first one, if that was given up. Only for the process that has locked the folder: it is
/// safe to repeat, and not safe to do twice at the same time.
pub(super) fn promote_next_ca(folder: &Path) -> Result<()> {
    if Replacement::of(folder) == Replacement::OnlyNext {
        for (from, to) in [("next.key", "ca.key"), ("next.crt", "ca.crt")] {
            let from = folder.join(from);
            let text =
                fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
            write_secret(&folder.join(to), &text)?;
        }
    }
    if has(folder, ONLY_NEXT) {
        // Without its certificate there is no second one, whatever else is left.
        remove(folder, "next.crt")?;
        remove(folder, "next.key")?;
        remove(folder, ONLY_NEXT)?;
    }
    Ok(())
}

fn params() -> CertificateParams {
    issue::authority("capstan", BasicConstraints::Unconstrained)
}

fn has(folder: &Path, name: &str) -> bool {
    folder.join(name).exists()
}

fn remove(folder: &Path, name: &str) -> Result<()> {
    let path: PathBuf = folder.join(name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_ca_takes_the_place_of_the_other_in_two_starts() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let first = Authorities::open(folder).unwrap();
        assert!(finish(folder).unwrap_err().to_string().contains("no CA is being replaced"));
        begin(folder).unwrap();
        assert!(begin(folder).unwrap_err().to_string().contains("already"));
        promote_next_ca(folder).unwrap();
        let both = Authorities::open(folder).unwrap();
        assert_ne!(both.clients.certificate, first.clients.certificate);
        assert_eq!(both.bundle, both.clients.certificate.clone() + &first.bundle);
        assert_eq!(key(&both.server), key(&first.server), "machines that know the first one find the plane");

        finish(folder).unwrap();
        let only = Authorities::open(folder).unwrap();
        assert_eq!((&only.bundle, key(&only.server)), (&both.clients.certificate, key(&both.clients_issuer)));
        promote_next_ca(folder).unwrap();
        let promoted = Authorities::open(folder).unwrap();
        assert_eq!((&promoted.bundle, &promoted.clients), (&only.bundle, &only.clients));
        assert_eq!(Replacement::of(folder), Replacement::None);
        begin(folder).unwrap();
    }

    /// Killed between any two files, it goes on where it was.
    #[test]
    fn a_start_that_was_killed_goes_on() {
        let all = ["ca.key", "ca.crt", "next.crt", "next.key", ONLY_NEXT];
        for done in 0..all.len() {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            Authorities::open(folder).unwrap();
            begin(folder).unwrap();
            finish(folder).unwrap();
            let expected = Authorities::open(folder).unwrap().bundle;
            for name in all.iter().take(done) {
                match name.strip_prefix("ca.") {
                    Some(kind) => {
                        fs::copy(folder.join(format!("next.{kind}")), folder.join(name)).unwrap();
                    }
                    None => fs::remove_file(folder.join(name)).unwrap(),
                }
            }
            promote_next_ca(folder).unwrap();
            assert_eq!(Authorities::open(folder).unwrap().bundle, expected, "after {done} files");
            assert!(all[2..].iter().all(|name| !folder.join(name).exists()), "after {done} files");
        }
    }

    fn key(issuer: &Issuer<'static, KeyPair>) -> Vec<u8> {
        issuer.key().serialize_der()
    }
}
