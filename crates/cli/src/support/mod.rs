//! `capstan support bundle`: writes one archive with all that is needed to analyse a problem, without secrets.

mod archive;
mod args;
mod gather;
mod redact;
mod secrets;

pub(crate) use args::SupportVerb;

use anyhow::Result;
use jiff::Timestamp;
use serde_json::json;
use std::path::PathBuf;

use crate::client::ASKING;
use crate::progress::waiting;
use crate::version;
use archive::Archive;
use args::BundleArgs;
use gather::Gather;

pub(crate) async fn run(verb: &SupportVerb) -> Result<()> {
    let SupportVerb::Bundle(args) = verb;
    bundle(args).await
}

async fn bundle(args: &BundleArgs) -> Result<()> {
    let now = Timestamp::now();
    let name = format!("capstan-support-{}", now.strftime("%Y%m%dT%H%M%SZ"));
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    let room = usize::try_from(args.max_size << 20).unwrap_or(usize::MAX);
    let time = u64::try_from(now.as_second()).unwrap_or_default();
    // Before the server is asked anything: a file that is in the way is known at once.
    let mut archive = Archive::create(&path, args.force, &name, time, room)?;
    let place = args.plane.connect().await?;
    let server = waiting(ASKING, gather::server_version(&place.client)).await?;
    let versions = json!({"program": version::version(), "server": server});
    archive.value("version.json", &versions)?;
    let gather = Gather::new(place.client, args.namespace.clone(), place.namespace, archive);
    let archive = Box::pin(gather.run()).await?;
    let (not_read, left_out) = archive.missing();
    let head = json!({"createdAt": now.to_string(), "versions": versions, "namespace": args.namespace});
    let size = archive.finish(args.force, &head)?;
    if not_read + left_out > 0 {
        eprintln!(
            "{not_read} things could not be read and {left_out} files did not fit: see manifest.json in the archive"
        );
    }
    eprintln!("{}: {} KiB; look into it before you pass it on", path.display(), size.div_ceil(1024));
    Ok(())
}
