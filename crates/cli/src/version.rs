//! `capstan version`.

use anyhow::Result;
use serde_json::{Value, json};
use std::io::Write as _;

use crate::args::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct VersionArgs {
    /// Machine-readable output: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
}

pub(crate) fn run(args: &VersionArgs) -> Result<()> {
    let version = version();
    let text = match args.output {
        Some(output) => output.print(&version)?,
        None => format!(
            "capstan {}, {}, Cluster API contract {}\n",
            text(&version["version"]),
            text(&version["platform"]),
            text(&version["contract"])
        ),
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(Into::into)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The output of `-o json`.
pub(crate) fn version() -> Value {
    json!({
        "version": concat!("v", env!("CARGO_PKG_VERSION")),
        "contract": capstan_api::meta::V1BETA2,
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
