//! k3s, built from its Go module into the form of its releases: one executable that unpacks itself, with the server,
//! the agent, kubectl, containerd, runc and the CNI plugins inside. So a release can be replaced by this build and the
//! reverse.
//!
//! Its releases cannot be Go versions (`+k3s1`), so the pinned version is one between two of them. The same source is
//! built with two version stamps, which is all that differs: enough to upgrade from one to the other.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::artifact::{Artifact, sha256};
use crate::cache::{Cache, publish, remove_partials};
use crate::follow::run;
use crate::go::{self, Build};
use crate::pins::{CNI_FLANNEL, K3S, Module, RUNC, fnv1a};
use crate::progress::{Progress, took};
use crate::{check, images};

/// The versions there are, the older one first.
pub const K3S_VERSIONS: [&str; 2] = ["v1.35.1+k3s1", "v1.35.1+k3s2"];

/// k3s in one version, with what it needs to start without a network.
#[derive(Clone, Debug)]
pub struct K3sBundle {
    /// The version it calls itself.
    pub version: &'static str,
    /// The executable. It belongs at `/usr/local/bin/k3s`, with mode 0755.
    pub program: Artifact,
    /// An archive of images. It belongs in `/var/lib/rancher/k3s/agent/images`, under any name that ends in `.tar`.
    pub images: Artifact,
}

/// One of [`K3S_VERSIONS`], or an error that says how to get it.
pub fn k3s_bundle(version: &str) -> Result<K3sBundle> {
    let Some(version) = K3S_VERSIONS.into_iter().find(|known| *known == version) else {
        bail!("there is no k3s {version} here, only {}", K3S_VERSIONS.join(" and "));
    };
    let cache = Cache::of_user()?;
    Ok(K3sBundle { version, program: Artifact::at(path(&cache, version))?, images: images::locate(&cache)? })
}

/// What is in the executable beside k3s itself.
struct Part {
    name: &'static str,
    module: &'static Module,
    package: &'static str,
    kind: PartKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PartKind {
    Runc,
    Shim,
    Plugin,
}

const fn plugin(name: &'static str, module: &'static Module, package: &'static str) -> Part {
    Part { name, module, package, kind: PartKind::Plugin }
}

static PARTS: [Part; 9] = [
    Part { name: "runc", module: &RUNC, package: "github.com/opencontainers/runc", kind: PartKind::Runc },
    Part {
        name: "containerd-shim-runc-v2",
        module: &K3S,
        package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        kind: PartKind::Shim,
    },
    plugin("bandwidth", &K3S, "github.com/containernetworking/plugins/plugins/meta/bandwidth"),
    plugin("bridge", &K3S, "github.com/containernetworking/plugins/plugins/main/bridge"),
    plugin("firewall", &K3S, "github.com/containernetworking/plugins/plugins/meta/firewall"),
    // The last release that had it; it lives in a module of its own now, which proxies do not have.
    plugin("flannel", &CNI_FLANNEL, "github.com/containernetworking/plugins/plugins/meta/flannel"),
    plugin("host-local", &K3S, "github.com/containernetworking/plugins/plugins/ipam/host-local"),
    plugin("loopback", &K3S, "github.com/containernetworking/plugins/plugins/main/loopback"),
    plugin("portmap", &K3S, "github.com/containernetworking/plugins/plugins/meta/portmap"),
];

/// The names that k3s itself answers to.
const ALIASES: [&str; 11] = [
    "containerd",
    "crictl",
    "ctr",
    "k3s-agent",
    "k3s-certificate",
    "k3s-completion",
    "k3s-etcd-snapshot",
    "k3s-secrets-encrypt",
    "k3s-server",
    "k3s-token",
    "kubectl",
];

/// k3s expects one program that is all plugins, and keeps links to it in a folder of a lasting name.
const CNI: &str = "#!/bin/sh\nown=$(readlink -f \"$0\")\nexec \"${own%/*}/plugins/${0##*/}\" \"$@\"\n";

const SERVER: &str = "github.com/k3s-io/k3s/cmd/server";
const WRAPPER: &str = "github.com/k3s-io/k3s/cmd/k3s";
const SERVER_TAGS: &str = "ctrd netgo osusergo providerless urfave_cli_no_docs sqlite_omit_load_extension \
                           no_cri_dockerd apparmor seccomp";
const WRAPPER_TAGS: &str = "urfave_cli_no_docs";
const RUNC_TAGS: &str = "netgo osusergo seccomp";
const STATIC: &str = "-s -w -linkmode external -extldflags -static";
/// Fast, and a third of the size; much better would take minutes.
const COMPRESS: &str = "zstd -6 -T0 --long=25";

fn digest() -> u64 {
    let modules = [&K3S, &RUNC, &CNI_FLANNEL].map(|module| format!("{:x}", module.digest()));
    let mut parts = vec![CNI, SERVER_TAGS, WRAPPER_TAGS, RUNC_TAGS, STATIC, COMPRESS, "recipe 1"];
    parts.extend(modules.iter().map(String::as_str));
    parts.extend(PARTS.iter().map(|part| part.package));
    parts.extend(ALIASES);
    fnv1a(&parts)
}

fn build_name(prefix: &str) -> String {
    format!("{prefix}-{:08x}", digest() >> 32)
}

fn path(cache: &Cache, version: &str) -> PathBuf {
    cache.root().join("k3s").join(build_name(version)).join("k3s")
}

/// Makes every version that is not there.
pub(crate) fn make(cache: &Cache, progress: Progress<'_>) -> Result<()> {
    let missing = |version: &&str| !path(cache, version).is_file();
    for version in K3S_VERSIONS.iter().filter(|version| !missing(version)) {
        progress(&format!("k3s {version}: there"));
    }
    let versions: Vec<&str> = K3S_VERSIONS.into_iter().filter(|version| missing(version)).collect();
    if versions.is_empty() {
        return Ok(());
    }
    let go_version = go::require(&K3S)?;
    let work = cache.root().join("k3s").join(build_name("work"));
    let source = unpack_source(&work)?;
    let parts = build_parts(&work, progress)?;
    for version in versions {
        let started = Instant::now();
        progress(&format!("k3s {version}: building"));
        let path = path(cache, version);
        assemble(
            &Assembly { work: &work, source: &source, parts: &parts, version, go_version: &go_version },
            &path,
            progress,
        )?;
        progress(&format!("k3s {version}: built in {}", took(started.elapsed())));
    }
    // Half a gigabyte, which nothing needs any more; go has what takes long in its own cache.
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))
}

/// A copy of k3s's module that can be written to: what k3s deploys into a cluster, and what its executable unpacks,
/// are put into its source before it is compiled.
fn unpack_source(work: &Path) -> Result<PathBuf> {
    let source = work.join("source");
    if source.join("go.mod").is_file() {
        return Ok(source);
    }
    fs::create_dir_all(work).with_context(|| format!("cannot make {}", work.display()))?;
    remove_partials(work)?;
    let partial = work.join("source.partial");
    let module = go::module_folder(&K3S, "github.com/k3s-io/k3s")?;
    let fill = || -> Result<()> {
        fs::create_dir(&partial)?;
        let k3s = partial.join("k3s");
        // The module cache is read-only, and so would a plain copy be.
        run(Command::new("cp").args(["--recursive", "--no-preserve=mode"]).arg(&module).arg(&k3s))?;
        run(Command::new("cp")
            .arg("--recursive")
            .arg(k3s.join("manifests/."))
            .arg(k3s.join("pkg/deploy/embed")))?;
        for (name, content) in K3S.files() {
            let local = if name == "go.mod" { "\nreplace github.com/k3s-io/k3s => ./k3s\n" } else { "" };
            fs::write(partial.join(name), format!("{content}{local}"))?;
        }
        Ok(())
    };
    fill().with_context(|| format!("cannot copy {}", module.display()))?;
    publish(&partial, &source)?;
    Ok(source)
}

fn build_parts(work: &Path, progress: Progress<'_>) -> Result<PathBuf> {
    let folder = work.join("parts");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let missing = || PARTS.iter().filter(|part| !folder.join(part.name).is_file());
    let (of_k3s, others): (Vec<&Part>, Vec<&Part>) = missing().partition(|part| part.is_go_of_k3s());
    let groups = others.into_iter().map(|part| vec![part]).chain((!of_k3s.is_empty()).then_some(of_k3s));
    for group in groups {
        build_group(&group, &folder, work, progress)?;
    }
    Ok(folder)
}

/// Parts of one module with the same flags, with one call.
fn build_group(group: &[&Part], folder: &Path, work: &Path, progress: Progress<'_>) -> Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    let names: Vec<&str> = group.iter().map(|part| part.name).collect();
    let label = format!("{} for k3s", names.join(", "));
    progress(&format!("{label}: building"));
    let is_runc = first.kind == PartKind::Runc;
    let ldflags = match is_runc {
        true => format!("{STATIC} -X main.version={}", RUNC.version.trim_start_matches('v')),
        false => "-s -w".to_owned(),
    };
    let build = Build {
        label: &label,
        folder: first.module.dir(),
        packages: group.iter().map(|part| part.package).collect(),
        ldflags,
        tags: if is_runc { RUNC_TAGS } else { "" },
        is_test: false,
        cgo: is_runc,
    };
    remove_partials(work)?;
    let partial = work.join("parts.partial");
    fs::create_dir(&partial).with_context(|| format!("cannot make {}", partial.display()))?;
    build.run(&partial, progress)?;
    for part in group {
        publish(&partial.join(go::file_name(part.package)), &folder.join(part.name))?;
    }
    remove_partials(work)
}

impl Part {
    /// Whether it is Go alone, from the module of k3s.
    fn is_go_of_k3s(&self) -> bool {
        std::ptr::eq(self.module, &K3S) && self.kind != PartKind::Runc
    }
}

struct Assembly<'a> {
    work: &'a Path,
    source: &'a Path,
    parts: &'a Path,
    version: &'a str,
    go_version: &'a str,
}

impl Assembly<'_> {
    fn stamps(&self) -> String {
        let Self { version, go_version, .. } = self;
        let commit = K3S.version.rsplit('-').next().unwrap_or_default();
        let containerd = K3S.replacement("github.com/containerd/containerd/v2").unwrap_or_default();
        let mut flags = String::new();
        for (variable, value) in [
            ("github.com/k3s-io/k3s/pkg/version.Version", *version),
            ("github.com/k3s-io/k3s/pkg/version.GitCommit", commit.get(..8).unwrap_or(commit)),
            // k3s does not start unless the Go it was made with is the one it was told.
            ("github.com/k3s-io/k3s/pkg/version.UpstreamGolang", go_version),
            ("k8s.io/component-base/version.gitVersion", version),
            ("k8s.io/component-base/version.gitTreeState", "clean"),
            ("k8s.io/client-go/pkg/version.gitVersion", version),
            ("github.com/containerd/containerd/v2/version.Version", containerd),
        ] {
            flags.push_str(&format!(" -X {variable}={value}"));
        }
        flags
    }
}

fn assemble(assembly: &Assembly<'_>, path: &Path, progress: Progress<'_>) -> Result<()> {
    let Assembly { work, source, parts, version, .. } = assembly;
    let folder = path.parent().context("it has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    remove_partials(folder)?;
    remove_partials(work)?;
    let label = format!("k3s {version}");
    let data = work.join("data.partial");
    let bin = data.join("bin");
    let lay_out = || -> Result<()> {
        fs::create_dir_all(bin.join("plugins"))?;
        fs::create_dir(data.join("etc"))?;
        Ok(())
    };
    lay_out().with_context(|| format!("cannot make {}", data.display()))?;
    let server = Build {
        label: &label,
        folder: source.to_path_buf(),
        packages: vec![SERVER],
        ldflags: format!("{STATIC}{}", assembly.stamps()),
        tags: SERVER_TAGS,
        is_test: false,
        cgo: true,
    };
    server.run(&bin.join("k3s"), progress)?;
    fill(&bin, parts).with_context(|| format!("cannot fill {}", bin.display()))?;

    let packed = work.join("data.tar.zst.partial");
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]);
    run(tar
        .arg(format!("--use-compress-program={COMPRESS}"))
        .arg("--file")
        .arg(&packed)
        .arg("--directory")
        .arg(&data)
        .args(["bin", "etc"]))?;
    embed(source, &packed)?;
    let wrapper = Build {
        label: &label,
        folder: source.to_path_buf(),
        packages: vec![WRAPPER],
        ldflags: format!("-s -w{}", assembly.stamps()),
        tags: WRAPPER_TAGS,
        is_test: false,
        cgo: false,
    };
    let partial = path.with_extension("partial");
    wrapper.run(&partial, progress)?;
    check::stamped(&partial, version.trim_start_matches('v'))?;
    Artifact::publish(&partial, path)?;
    remove_partials(work)
}

/// Puts everything beside k3s, with the two lists it checks when it unpacks itself.
fn fill(bin: &Path, parts: &Path) -> Result<()> {
    let mut links = Vec::new();
    let mut link = |name: &str, target: &str| -> Result<()> {
        symlink(target, bin.join(name))?;
        links.push(format!("{name} {target}\n"));
        Ok(())
    };
    let mut files = vec!["k3s".to_owned(), "cni".to_owned()];
    for part in &PARTS {
        let name = match part.kind {
            PartKind::Plugin => {
                link(part.name, "cni")?;
                format!("plugins/{}", part.name)
            }
            PartKind::Runc | PartKind::Shim => part.name.to_owned(),
        };
        fs::copy(parts.join(part.name), bin.join(&name))?;
        files.push(name);
    }
    for alias in ALIASES {
        link(alias, "k3s")?;
    }
    fs::write(bin.join("cni"), CNI)?;
    fs::set_permissions(bin.join("cni"), fs::Permissions::from_mode(0o755))?;
    files.sort();
    let sums: Result<String> =
        files.iter().map(|name| Ok(format!("{}  {name}\n", sha256(&bin.join(name))?))).collect();
    fs::write(bin.join(".sha256sums"), sums?)?;
    links.sort();
    fs::write(bin.join(".links"), links.concat())?;
    Ok(())
}

/// Puts the archive where the executable is compiled with it. It unpacks into a folder of the archive's name.
fn embed(source: &Path, packed: &Path) -> Result<()> {
    let folder = source.join("k3s/pkg/data/embed");
    let replace = || -> Result<()> {
        for entry in fs::read_dir(&folder)? {
            fs::remove_file(entry?.path())?;
        }
        fs::rename(packed, folder.join(format!("{}.tar.zst", sha256(packed)?)))?;
        Ok(())
    };
    replace().with_context(|| format!("cannot replace what is in {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_of_the_kubernetes_inside() {
        let fork = K3S.replacement("k8s.io/kubernetes").expect("k3s has a fork of Kubernetes");
        let kubernetes = fork.split('-').next().expect("a version");
        for version in K3S_VERSIONS {
            assert!(version.starts_with(&format!("{kubernetes}+k3s")), "{version} is not {kubernetes}");
        }
        assert_ne!(K3S_VERSIONS[0], K3S_VERSIONS[1]);
    }

    #[test]
    fn every_fork_of_kubernetes_is_of_one_version() {
        let (_, go_mod) = K3S.files()[0];
        let mut versions: Vec<&str> = go_mod
            .lines()
            .filter(|line| line.contains("=> github.com/k3s-io/kubernetes"))
            .filter_map(|line| line.split_whitespace().nth(3))
            .collect();
        assert!(versions.len() > 20, "{versions:?}");
        versions.dedup();
        assert_eq!(versions.len(), 1, "{versions:?}");
    }

    #[test]
    fn every_part_is_a_tool_of_its_module() {
        let own = [(&K3S, SERVER), (&K3S, WRAPPER)];
        for (module, package) in PARTS.iter().map(|part| (part.module, part.package)).chain(own) {
            let (_, go_mod) = module.files()[0];
            let (tools, _) = go_mod.split_once("require").expect("tools come before requirements");
            assert!(tools.split_whitespace().any(|word| word == package), "{package}");
        }
    }

    #[test]
    fn versions_are_stamped() {
        let nowhere = Path::new("");
        let assembly = Assembly {
            work: nowhere,
            source: nowhere,
            parts: nowhere,
            version: "v1.2.3+k3s9",
            go_version: "go1.26.8",
        };
        let flags = assembly.stamps();
        for expected in [
            "-X github.com/k3s-io/k3s/pkg/version.Version=v1.2.3+k3s9 ",
            "-X github.com/k3s-io/k3s/pkg/version.UpstreamGolang=go1.26.8 ",
            "-X k8s.io/component-base/version.gitVersion=v1.2.3+k3s9 ",
            "containerd/v2/version.Version=v",
        ] {
            assert!(flags.contains(expected), "{flags}");
        }
    }

    #[test]
    fn plugins_are_found_by_the_name_they_are_called_by() {
        let folder = std::env::temp_dir().join(format!("capstan-cni-test-{}", std::process::id()));
        fs::create_dir_all(folder.join("bin/plugins")).expect("made");
        fs::create_dir_all(folder.join("cni")).expect("made");
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
        };
        write("bin/cni", CNI);
        write("bin/plugins/bridge", "#!/bin/sh\necho bridge \"$1\"\n");
        // As k3s links them: from elsewhere, to the one program.
        symlink(folder.join("bin/cni"), folder.join("cni/bridge")).expect("linked");
        let said = run(Command::new(folder.join("cni/bridge")).arg("x")).expect("runs");
        assert_eq!(said, "bridge x\n");
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn an_unknown_version_is_refused_by_name() {
        let error = k3s_bundle("v1.0.0+k3s1").expect_err("unknown").to_string();
        assert!(error.contains(K3S_VERSIONS[0]) && error.contains(K3S_VERSIONS[1]), "{error}");
    }
}
