//! `capstan backup`: writes all data of an embedded plane to one file, whether the plane runs or not.

mod args;
mod restore;

pub(crate) use args::{BackupArgs, RestoreArgs};
pub(crate) use restore::run as restore;

use anyhow::{Context, Result, bail};
use capstan_apiserver::{Backup, PartialFile};
use futures::AsyncReadExt as _;
use http::Request;
use kube::Client;
use std::path::Path;

use crate::client;
use crate::progress::{waiting, waiting_blocked};
use crate::up::folder::{self, DataFolder, Taken};

/// What takes long, for the progress line.
const READING: &str = "reading the backup from the plane";
/// Where an embedded plane gives its backup.
const PATH: &str = "/capstan/v1/backup";

pub(crate) async fn run(args: &BackupArgs) -> Result<()> {
    let backup = match &args.data_dir {
        None => {
            let client = args.plane.connect().await?.client;
            waiting(READING, fetch(&client, &args.file)).await?
        }
        Some(folder) => of_folder(folder, &args.file).await?,
    };
    eprintln!(
        "{}: {} objects as of revision {}. Every Secret and the plane's keys are in it: keep it safe",
        args.file.display(),
        backup.objects(),
        backup.revision()
    );
    Ok(())
}

async fn of_folder(data_dir: &Path, file: &Path) -> Result<Backup> {
    let store = folder::store(data_dir);
    if !store.is_dir() {
        bail!("there is no plane in {}: pass the --data-dir of `capstan up`", data_dir.display());
    }
    match DataFolder::try_take(data_dir)? {
        Taken::Ours(_held) => {
            let (data_dir, file) = (data_dir.to_owned(), file.to_owned());
            waiting_blocked("reading the store", move || {
                Backup::of_folder(&store, &folder::existing_backup_files(&data_dir))?.write(&file)?;
                Ok(Backup::read(&file)?)
            })
            .await
        }
        Taken::Theirs(who) => {
            let plane = client::connect(&folder::kubeconfig(data_dir)).await;
            let plane = plane.with_context(|| format!("cannot ask {who}, which runs the plane"))?;
            waiting(READING, fetch(&plane, file)).await
        }
    }
}

/// Writes what the plane sends; it gets its name once it is whole.
async fn fetch(plane: &Client, file: &Path) -> Result<Backup> {
    let mut partial = PartialFile::create(file)?;
    let request = Request::get(PATH).body(Vec::new()).context("cannot ask for a backup")?;
    let body = match plane.request_stream(request).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            bail!(
                "this is not an embedded plane: take a backup of its etcd instead, or see `capstan move --to-directory`"
            )
        }
        body => body.context("the plane gives no backup")?,
    };
    let mut body = std::pin::pin!(body);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match body.read(&mut buffer).await.context("the plane has broken off")? {
            0 => break,
            read => partial.write(buffer.get(..read).unwrap_or_default())?,
        }
    }
    Ok(partial.finish()?)
}
