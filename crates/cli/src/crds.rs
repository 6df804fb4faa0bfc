//! `capstan crds`: prints or writes the CRDs of this release.

use anyhow::{Context, Result};
use capstan_api::crd::{self, CustomResourceDefinition, reference};
use std::collections::BTreeMap;
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
    if let Some(dir) = &args.reference_dir {
        return write_reference(&crds, dir);
    }
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
        Format::JsonLines => write!(out, "{}", crd::to_json_lines(crds)?)?,
        Format::Name => {
            for crd in crds {
                writeln!(out, "{}", crd::name(crd))?;
            }
        }
    }
    Ok(())
}

fn write_files(crds: &[CustomResourceDefinition], dir: &Path) -> Result<()> {
    let mut files = BTreeMap::new();
    for crd in crds {
        files.insert(crd::file_name(crd), crd::to_yaml(crd)?);
    }
    write_all(&files, dir)?;
    remove_stale(dir, &files)
}

fn write_reference(crds: &[CustomResourceDefinition], dir: &Path) -> Result<()> {
    let pages = crds.iter().map(|crd| (reference::file_name(crd), reference::page(crd)));
    let index = ("README.md".to_owned(), reference::index(crds));
    write_all(&pages.chain([index]).collect(), dir)
}

fn write_all(files: &BTreeMap<String, String>, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for (name, text) in files {
        let path = dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Only files named like ours go: whatever else the folder holds is not ours to remove.
fn remove_stale(dir: &Path, written: &BTreeMap<String, String>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if crd::is_file_name(&name) && !written.contains_key(&name) {
            std::fs::remove_file(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}
