//! `capstan restore`: restores a plane from a backup. The plane then waits until a person has reviewed it.

use anyhow::{Context, Result, bail};
use capstan_apiserver::Backup;
use std::fs;
use std::path::Path;

use super::RestoreArgs;
use crate::progress::waiting_blocked;
use crate::up::folder::{self, DataFolder};
use crate::up::{data_dir, write_secret};

pub(crate) async fn run(args: RestoreArgs) -> Result<()> {
    waiting_blocked("restoring the store", move || restore(&args)).await
}

fn restore(args: &RestoreArgs) -> Result<()> {
    let data_dir = data_dir(args.data_dir.as_deref())?;
    // Nothing is touched for a backup that is not whole.
    let backup = Backup::read(&args.file)?;
    let held = DataFolder::take(&data_dir)?;
    if held.is_occupied()? && !args.force {
        bail!(
            "{} is not empty: pass another --data-dir, or --force to move the store that is there aside",
            data_dir.display()
        );
    }
    held.begin_restore()?;
    for old in [folder::store(&data_dir), folder::pki(&data_dir)] {
        set_aside(&old)?;
    }
    let pki = folder::pki(&data_dir);
    fs::create_dir_all(&pki).with_context(|| format!("cannot make {}", pki.display()))?;
    let known = folder::backup_files(&data_dir);
    for (name, bytes) in backup.files() {
        let path = known
            .get(name)
            .with_context(|| format!("the backup has a file {name:?}, which is none of ours"))?;
        let text =
            std::str::from_utf8(bytes).with_context(|| format!("{name} of the backup is not UTF-8 text"))?;
        write_secret(path, text)?;
    }
    let revision = backup.restore(&folder::store(&data_dir))?;
    let what = format!("the backup of {:.0}", backup.taken());
    held.end_restore(&what)?;
    eprintln!(
        "{}: {} objects of {what}, now at revision {revision}. No controllers run until you have looked and say \
         `capstan up --data-dir {} --resume-after-restore`",
        data_dir.display(),
        backup.objects(),
        data_dir.display()
    );
    Ok(())
}

/// Moves away what is there, under a name that says since when.
fn set_aside(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%3fZ");
    let aside = path.with_extension(format!("before-{now}"));
    fs::rename(path, &aside)
        .with_context(|| format!("cannot move {} to {}", path.display(), aside.display()))?;
    eprintln!("what was there is now {}", aside.display());
    Ok(())
}
