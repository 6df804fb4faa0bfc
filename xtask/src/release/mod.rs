//! `make release`: everything that is published for a version, and the proof that it is the same each time.
//!
//!     target/dist/v0.1.0/
//!       linux-amd64/capstan, capstan-agent      static programs
//!       capstan-image-linux-amd64.tar           the image of the manager
//!       repository/                             what clusterctl installs
//!       sbom.cdx.json                           what the programs are made of
//!       SHA256SUMS                              the digest of each file

mod digest;
mod image;
mod sbom;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::agent::AGENT;
use crate::cargo;
use crate::log::Log;
use crate::paths::root;
use crate::static_build::{self, Shipped};
use image::Image;

/// Capstan itself: it carries an API server, all controllers and simulated hosts.
const CAPSTAN: Shipped =
    Shipped { package: "capstan", name: "capstan", profile: "dist", most_bytes: 120 * 1024 * 1024 };

/// The two programs of a release.
struct Programs {
    capstan: PathBuf,
    agent: PathBuf,
    /// Who writes the repository: the same capstan, but where packing is tried without a release.
    teller: PathBuf,
}

/// Builds and packs a release.
pub(crate) fn run(version: &str) -> Result<()> {
    let root = root()?;
    let log = &Log::Terminal;
    let programs = build(version, &root.join("target/static"), log)?;
    let folder = root.join("target/dist").join(version);
    pack(version, &programs, &folder, log)?;
    log.line(&format!("  {}", folder.display()));
    Ok(())
}

/// Builds and packs the release of the workspace's version twice, the second time from nothing in another folder,
/// and compares every byte.
pub(crate) fn check_twice(log: &Log) -> Result<()> {
    let root = root()?;
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    let (other, dist) = (root.join("target/static-again"), root.join("target/dist"));
    let folders = [dist.join(&version), dist.join(format!("{version}-again"))];
    for (target, folder) in [root.join("target/static"), other.clone()].iter().zip(&folders) {
        pack(&version, &build(&version, target, log)?, folder, log)?;
    }
    compare(&folders[0], &folders[1])?;
    for folder in [&other, &folders[1]] {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

/// Packs a release twice, with small files in place of the programs, and compares every byte: what can be said about a
/// release without the time it takes to build one.
pub(crate) fn check_packing(log: &Log) -> Result<()> {
    let root = root()?;
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    let place = root.join("target/dist-check");
    fs::create_dir_all(&place).context("cannot make target/dist-check")?;
    let programs = Programs {
        capstan: place.join("capstan"),
        agent: place.join("capstan-agent"),
        // With the tests, which are compiled already: they turn on features that would have it compiled once more.
        teller: cargo::build_program("capstan", &["--tests"], log)?,
    };
    for (path, text) in
        [(&programs.capstan, "in place of capstan"), (&programs.agent, "in place of its agent")]
    {
        write(path, text.as_bytes())?;
    }
    let folders = [place.join("one"), place.join("other")];
    for folder in &folders {
        pack(&version, &programs, folder, log)?;
    }
    compare(&folders[0], &folders[1])?;
    let sums = Command::new("sha256sum")
        .args(["--check", "--quiet", "SHA256SUMS"])
        .current_dir(&folders[0])
        .stdout(log.stdio()?)
        .stderr(log.stdio()?)
        .status();
    ensure!(sums.context("cannot run sha256sum")?.success(), "the digests are not those of the files");
    fs::remove_dir_all(&place).context("cannot remove target/dist-check")
}

fn build(version: &str, target: &Path, log: &Log) -> Result<Programs> {
    let own = format!("v{}", env!("CARGO_PKG_VERSION"));
    ensure!(
        version == own,
        "the programs would call themselves {own}: set the version in Cargo.toml to {version} first"
    );
    let capstan = static_build::build(&CAPSTAN, target, log)?;
    Ok(Programs { teller: capstan.clone(), capstan, agent: static_build::build(&AGENT, target, log)? })
}

/// Fills a folder with everything that is published.
fn pack(version: &str, programs: &Programs, folder: &Path, log: &Log) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let platform = format!("linux-{}", arch()?);
    let place = folder.join(&platform);
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    for (name, from) in [("capstan", &programs.capstan), ("capstan-agent", &programs.agent)] {
        fs::copy(from, place.join(name)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    repository(version, &programs.teller, &folder.join("repository"))?;
    let (capstan, agent) = (read(&programs.capstan)?, read(&programs.agent)?);
    let name = image_name(&folder.join("repository"))?;
    ensure!(name.ends_with(&format!(":{version}")), "the manifests want the image {name}");
    let image = Image {
        name: &name,
        version,
        arch: arch()?,
        programs: &[("capstan", &capstan), ("capstan-agent", &agent)],
    };
    write(&folder.join(format!("capstan-image-{platform}.tar")), &image::archive(&image)?)?;
    write(&folder.join("sbom.cdx.json"), parts(version, log)?.as_bytes())?;
    let sums = digest::sums(folder)?;
    write(&folder.join("SHA256SUMS"), sums.as_bytes())
}

/// As `capstan release` writes it.
fn repository(version: &str, capstan: &Path, folder: &Path) -> Result<()> {
    let output = Command::new(capstan)
        .args(["release", "--version", version, "--out"])
        .arg(folder)
        .output()
        .with_context(|| format!("cannot run {}", capstan.display()))?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The image that the manifests want: its name is written in one place only.
fn image_name(repository: &Path) -> Result<String> {
    let manifest = digest::files(repository)?
        .into_iter()
        .find(|path| path.ends_with("core-components.yaml"))
        .context("the repository has no core-components.yaml")?;
    let text =
        String::from_utf8(read(&repository.join(manifest))?).context("core-components.yaml is not text")?;
    let found =
        text.lines().find_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix("image: "));
    Ok(found.context("core-components.yaml names no image")?.trim_matches(['"', '\'']).to_owned())
}

fn parts(version: &str, log: &Log) -> Result<String> {
    let metadata: Value =
        serde_json::from_slice(&cargo::metadata(log)?).context("cannot read cargo's metadata")?;
    let lock = String::from_utf8(read(&root()?.join("Cargo.lock"))?).context("Cargo.lock is not text")?;
    sbom::sbom(&metadata, &lock, &[CAPSTAN.package, AGENT.package], version)
}

/// Fails unless two folders hold the same files with the same bytes.
fn compare(one: &Path, other: &Path) -> Result<()> {
    let (files, others) = (digest::files(one)?, digest::files(other)?);
    ensure!(files == others, "two builds have other files: {files:?} and {others:?}");
    for file in files {
        let same = read(&one.join(&file))? == read(&other.join(&file))?;
        ensure!(same, "two builds differ in {}", file.display());
    }
    Ok(())
}

/// In Go's words, which images and releases use.
fn arch() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("releases are made for x86_64 and aarch64, not for {other}"),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
