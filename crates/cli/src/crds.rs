//! `capstan crds`: what is shipped for the API server.

use anyhow::{Context, Result};
use capstan_api::crd::{self, CustomResourceDefinition};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use crate::args::{CrdsArgs, Format, Provider};

pub(crate) fn run(args: &CrdsArgs) -> Result<()> {
    let crds = match args.provider {
        None => crd::all(),
        Some(Provider::Core) => crd::core_provider(),
        Some(Provider::Bootstrap) => crd::bootstrap_provider(),
        Some(Provider::ControlPlane) => crd::control_plane_provider(),
        Some(Provider::Infrastructure) => crd::infrastructure_provider(),
    };
    match &args.out_dir {
        Some(dir) => write_files(&crds, dir),
        None => print(&crds, args.output, &mut std::io::stdout().lock()),
    }
}

fn print(crds: &[CustomResourceDefinition], format: Format, out: &mut impl Write) -> Result<()> {
    match format {
        Format::Yaml => {
            for crd in crds {
                write!(out, "---\n{}", crd::to_yaml(crd)?)?;
            }
        }
        Format::Json => writeln!(out, "{}", crd::to_json_list(crds)?)?,
        Format::Name => {
            for crd in crds {
                writeln!(out, "{}", crd::name(crd))?;
            }
        }
    }
    Ok(())
}

fn write_files(crds: &[CustomResourceDefinition], dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut written = BTreeSet::new();
    for crd in crds {
        let file = crd::file_name(crd);
        let path = dir.join(&file);
        std::fs::write(&path, crd::to_yaml(crd)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        written.insert(file);
    }
    remove_stale(dir, &written)
}

/// Only files named like ours go: whatever else the folder holds is not ours to remove.
fn remove_stale(dir: &Path, written: &BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if crd::is_file_name(&name) && !written.contains(&name) {
            std::fs::remove_file(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}
