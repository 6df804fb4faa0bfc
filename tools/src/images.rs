//! The container images of an air-gapped k3s, without a registry.
//!
//! Both are Debian's static busybox, from the machines' root file system. One has the name of the pause image of k3s,
//! so that no setting is needed; the other is for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::artifact::{Artifact, sha256};
use crate::cache::{Cache, remove_partials};
use crate::follow::run;
use crate::pins::fnv1a;
use crate::progress::Progress;
use crate::rootfs;

/// The image that k3s starts in every pod by default: the replacement has its name.
pub const PAUSE_IMAGE: &str = "rancher/mirrored-pause:3.6";

/// An image with a shell, for tests. It can only be used with `imagePullPolicy: Never`.
pub const TEST_IMAGE: &str = "capstan.dev/busybox:1";

/// The name that k3s's own releases have for such an archive.
const FILE: &str = "k3s-airgap-images-amd64.tar";

/// What the image can do. Not all of busybox: what looks up names crashes when it is linked statically.
const COMMANDS: [&str; 14] = [
    "cat", "echo", "env", "false", "hostname", "httpd", "id", "kill", "ls", "nc", "ps", "sh", "sleep", "true",
];

/// Ends when told to, as the real one does: as process 1 it would otherwise ignore the signal.
const PAUSE: &str =
    r#"["/bin/sh","-c","trap 'kill $!; exit 0' TERM INT; while :; do sleep 2147483647 & wait; done"]"#;

fn digest() -> u64 {
    let mut parts = vec![PAUSE_IMAGE, TEST_IMAGE, FILE, PAUSE, "recipe 1"];
    parts.extend(COMMANDS);
    fnv1a(&parts) ^ rootfs::digest()
}

fn path(cache: &Cache) -> PathBuf {
    cache.root().join("k3s-images").join(format!("{:08x}", digest() >> 32)).join(FILE)
}

/// The archive, if it is there.
pub(crate) fn locate(cache: &Cache) -> Result<Artifact> {
    Artifact::at(path(cache))
}

/// Makes the archive, unless it is there.
pub(crate) fn make(cache: &Cache, progress: Progress<'_>) -> Result<()> {
    let path = path(cache);
    if path.is_file() {
        progress("images for k3s: there");
        return Ok(());
    }
    let folder = path.parent().context("it has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    remove_partials(folder)?;
    let (layer, archive) = (folder.join("layer.partial"), folder.join("archive.partial"));
    let busybox = rootfs::path(cache).join("usr/bin/busybox");
    let fill = || -> Result<()> {
        fs::create_dir_all(layer.join("bin"))?;
        for name in ["etc", "tmp", "www"] {
            fs::create_dir(layer.join(name))?;
        }
        fs::copy(&busybox, layer.join("bin/busybox"))?;
        for name in COMMANDS {
            symlink("busybox", layer.join("bin").join(name))?;
        }
        fs::write(layer.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n")?;
        fs::create_dir(&archive)?;
        tar(&layer, &["bin", "etc", "tmp", "www"], &archive.join("layer.tar"))?;
        let layer = sha256(&archive.join("layer.tar"))?;
        fs::write(archive.join("pause.json"), config(&layer, &format!(r#""Entrypoint":{PAUSE}"#)))?;
        fs::write(
            archive.join("busybox.json"),
            config(&layer, r#""Env":["PATH=/bin"],"Cmd":["/bin/sleep","2147483647"]"#),
        )?;
        fs::write(archive.join("manifest.json"), manifest())?;
        Ok(())
    };
    fill().with_context(|| format!("cannot make images from {}", busybox.display()))?;
    let partial = path.with_extension("partial");
    tar(&archive, &["busybox.json", "layer.tar", "manifest.json", "pause.json"], &partial)?;
    Artifact::publish(&partial, &path)?;
    remove_partials(folder)?;
    progress("images for k3s: made");
    Ok(())
}

/// The same bytes from the same files, whenever and by whomever it is made.
fn tar(folder: &Path, names: &[&str], target: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    command.args(["--create", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]);
    command.args(["--mode=u+rwX,go+rX,go-w", "--format=gnu", "--file"]).arg(target);
    run(command.arg("--directory").arg(folder).args(names)).map(|_| ())
}

fn config(layer: &str, settings: &str) -> String {
    format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{{settings}}},"rootfs":{{"type":"layers","diff_ids":["sha256:{layer}"]}}}}"#
    )
}

/// As `docker save` writes it.
fn manifest() -> String {
    let image = |config: &str, name: &str| {
        format!(r#"{{"Config":"{config}","RepoTags":["{name}"],"Layers":["layer.tar"]}}"#)
    };
    format!("[{},{}]", image("pause.json", PAUSE_IMAGE), image("busybox.json", TEST_IMAGE))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_pause_program_ends_on_sigterm() {
        let words = PAUSE.trim_start_matches(r#"["/bin/sh","-c",""#).trim_end_matches(r#""]"#);
        let mut child = Command::new("sh").args(["-c", words]).spawn().expect("starts");
        let id = child.id();
        // It listens before it sleeps.
        let deadline = Instant::now() + Duration::from_secs(20);
        let sleeps =
            || fs::read_to_string(format!("/proc/{id}/task/{id}/children")).is_ok_and(|ids| !ids.is_empty());
        while !sleeps() {
            assert!(Instant::now() < deadline, "it does not sleep");
            std::thread::sleep(Duration::from_millis(5));
        }
        run(Command::new("kill").args(["-TERM", &id.to_string()])).expect("told");
        assert_eq!(child.wait().expect("ends").code(), Some(0));
    }

    #[test]
    fn names_are_in_the_manifest() {
        let manifest = manifest();
        assert!(manifest.contains(PAUSE_IMAGE) && manifest.contains(TEST_IMAGE), "{manifest}");
        assert!(config("abc", "").contains("sha256:abc"));
    }
}
