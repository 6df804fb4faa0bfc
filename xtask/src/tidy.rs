//! Rules that every file of the repository keeps.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file longer than this is two rooms.
const MOST_LINES: usize = 800;

/// What the crates that think must never depend on: they take data and give data.
const BORDERS: &[(&str, &[&str])] = &[
    ("crates/api", &["tokio", "capstan-", "rustls", "reqwest", "hyper"]),
    ("crates/plan", &["tokio", "kube", "k8s-openapi", "capstan-", "rustls", "reqwest", "hyper"]),
    ("crates/artifacts", &["kube", "k8s-openapi", "capstan-api", "capstan-controller", "capstan-distro"]),
    ("crates/agent", &["kube", "k8s-openapi", "capstan-api", "capstan-controller"]),
    ("crates/agentd", &["kube", "k8s-openapi", "capstan-api", "capstan-controller"]),
    ("crates/template", &["tokio", "kube", "serde", "capstan-"]),
    ("crates/components", &["tokio", "kube", "capstan-controller", "capstan-core", "rustls", "hyper"]),
    ("crates/apiserver-schema", &["tokio", "kube", "k8s-openapi", "capstan-", "hyper"]),
    ("crates/apiserver-merge", &["tokio", "kube", "k8s-openapi", "capstan-", "hyper"]),
    ("crates/apiserver", &["kube", "k8s-openapi", "capstan-api", "capstan-controller", "capstan-core"]),
    ("crates/controller", &["capstan-testkit", "capstan-tools"]),
    (
        "crates/core",
        &["capstan-testkit", "capstan-tools", "capstan-bootstrap", "capstan-controlplane", "capstan-hooks"],
    ),
    ("crates/hooks", &["capstan-core", "capstan-bootstrap", "capstan-controlplane", "capstan-testkit"]),
    (
        "crates/mover",
        &["capstan-controller", "capstan-core", "capstan-infrastructure", "capstan-testkit", "clap"],
    ),
    ("crates/distro", &["tokio", "kube", "capstan-controller"]),
    ("crates/bootstrap", &["capstan-core", "capstan-controlplane", "capstan-testkit"]),
    ("crates/controlplane", &["capstan-core", "capstan-bootstrap", "capstan-testkit"]),
    (
        "crates/infrastructure",
        &["capstan-core", "capstan-bootstrap", "capstan-controlplane", "capstan-ssh", "russh"],
    ),
    ("crates/ssh", &["capstan-core", "capstan-bootstrap", "capstan-controlplane", "capstan-testkit"]),
    ("tools", &["tokio", "kube", "capstan-"]),
    ("xtask", &["tokio", "kube", "capstan-api", "capstan-testkit"]),
];

pub(crate) fn check() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has a parent folder")?;
    let mut faults = Vec::new();
    for file in files(root)? {
        let Ok(text) = std::fs::read_to_string(root.join(&file)) else { continue };
        faults.extend(
            faults_of(&file, &text).into_iter().map(|fault| format!("  {}: {fault}", file.display())),
        );
    }
    for (folder, never) in BORDERS {
        let manifest = std::fs::read_to_string(root.join(folder).join("Cargo.toml"))
            .with_context(|| format!("cannot read the manifest of {folder}"))?;
        faults.extend(
            crossings(&manifest, never).into_iter().map(|name| format!("  {folder}: depends on {name}")),
        );
    }
    if !faults.is_empty() {
        bail!("{} faults:\n{}", faults.len(), faults.join("\n"));
    }
    Ok(())
}

/// What git tracks or would track.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    if !output.status.success() {
        bail!("`git ls-files` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect())
}

fn faults_of(file: &Path, text: &str) -> Vec<String> {
    let name = file.to_string_lossy();
    let is_rust = name.ends_with(".rs");
    let mut faults = Vec::new();
    if is_rust && text.lines().count() > MOST_LINES {
        faults.push(format!("has more than {MOST_LINES} lines: it is two rooms"));
    }
    if is_rust && !text.starts_with("//!") {
        faults.push("does not begin with a //! that says what it is for".to_owned());
    }
    let generated = name.starts_with("config/crd/") || name.ends_with(".jsonl") || name.ends_with("go.sum");
    for (number, line) in (1..).zip(text.lines()) {
        if !generated && (line.ends_with(' ') || line.ends_with('\t')) {
            faults.push(format!("line {number} ends in white space"));
        }
        if is_rust && line.trim_start().starts_with(IGNORE) {
            faults.push(format!("line {number} ignores a test: mend it or delete it"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        faults.push("does not end in a line end".to_owned());
    }
    faults
}

/// Spelt in two halves, so that this file does not trip over itself.
const IGNORE: &str = concat!("#[", "ignore");

/// Names under `[dependencies]` that are among `never`, where a name that ends in a dash stands for all that begin
/// with it. Test dependencies may cross.
fn crossings(manifest: &str, never: &[&str]) -> Vec<String> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| {
            never.iter().any(|never| name == never || never.ends_with('-') && name.starts_with(never))
        })
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_found() {
        let rust = Path::new("a.rs");
        assert!(faults_of(rust, "//! Good.\n").is_empty());
        assert_eq!(faults_of(rust, "fn f() {}\n").len(), 1);
        assert_eq!(faults_of(rust, "//! Bad. \n").len(), 1);
        assert_eq!(faults_of(rust, "//! Bad.").len(), 1);
        assert_eq!(faults_of(rust, &format!("//! Bad.\n{IGNORE}]\n")).len(), 1);
        assert_eq!(faults_of(rust, &format!("//! Long.\n{}", "\n".repeat(MOST_LINES))).len(), 1);
        assert!(faults_of(Path::new("a.md"), "Fine.\n").is_empty());
    }

    #[test]
    fn borders_are_kept() {
        let manifest = "[package]\nname = \"tokio\"\n\n[dependencies]\nserde.workspace = true\ntokio = \"1\"\n\n[dev-dependencies]\nkube = \"5\"\n";
        assert_eq!(crossings(manifest, &["tokio", "kube"]), ["tokio"]);
        assert!(crossings(manifest, &["kube"]).is_empty());
    }
}
