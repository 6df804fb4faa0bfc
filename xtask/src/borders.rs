//! Which crates of the workspace may depend on which, and what some of them must never depend on.
//!
//! The list allows: a dependency between two crates of the workspace that it does not have is a fault, and so is an entry
//! that no crate uses. It is checked against cargo's metadata, so that no way of writing a manifest gets around it. Only
//! normal dependencies count: tests may use whatever they need.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Where faults send the reader.
const LIST: &str = "BORDERS in xtask/src/borders.rs";

/// What a crate without I/O never reaches.
const IO: &[&str] = &["tokio", "kube", "kube-core", "k8s-openapi", "hyper", "reqwest", "rustls"];

/// What a crate that does not know Kubernetes never reaches.
const KUBERNETES: &[&str] = &["kube", "kube-core", "k8s-openapi"];

/// The borders of one crate.
struct Border {
    name: &'static str,
    /// The crates of the workspace that it depends on, all of them.
    uses: &'static [&'static str],
    /// What it must not reach, whatever is between.
    never: &'static [&'static str],
    /// What it must not depend on itself, although something that it uses may.
    never_itself: &'static [&'static str],
}

/// A crate with nothing but an exact list of what it uses.
const fn of(name: &'static str, uses: &'static [&'static str]) -> Border {
    Border { name, uses, never: &[], never_itself: &[] }
}

impl Border {
    const fn never(self, never: &'static [&'static str]) -> Self {
        Self { never, ..self }
    }

    /// For crates below an API object: cargo's metadata sums up the features that all crates of the workspace ask for,
    /// so kube always comes with its client there.
    const fn never_itself(self, never_itself: &'static [&'static str]) -> Self {
        Self { never_itself, ..self }
    }
}

const BORDERS: &[Border] = &[
    // Pure: data in, data out.
    of("capstan-plan", &[]).never(IO),
    of("capstan-text", &[]).never(IO),
    of("capstan-planner", &["capstan-plan", "capstan-text"]).never(IO),
    of("capstan-template", &[]).never(IO).never_itself(&["serde"]),
    of("capstan-apiserver-proto", &[]).never(IO).never_itself(&["http"]),
    of("capstan-apiserver-schema", &[]).never(IO),
    of("capstan-apiserver-merge", &[]).never(IO),
    of("capstan-apiserver-store", &["capstan-files", "capstan-text"])
        .never_itself(&["hyper", "http", "rustls", "kube"]),
    of(
        "capstan-apiserver-registry",
        &[
            "capstan-apiserver-merge",
            "capstan-apiserver-schema",
            "capstan-apiserver-store",
            "capstan-pki",
            "capstan-text",
        ],
    )
    .never(KUBERNETES)
    .never_itself(&["tokio", "hyper", "http", "rustls"]),
    of("capstan-api", &[]).never_itself(&["tokio", "rustls", "reqwest", "hyper"]),
    of("capstan-distro", &["capstan-api", "capstan-pki", "capstan-plan", "capstan-planner"]).never_itself(IO),
    of(
        "capstan-topology",
        &["capstan-api", "capstan-apiserver-merge", "capstan-apiserver-schema", "capstan-text"],
    )
    .never_itself(IO),
    of("capstan-admission", &["capstan-api", "capstan-text", "capstan-topology"]).never_itself(IO),
    of("capstan-components", &["capstan-api", "capstan-text"])
        .never_itself(&["tokio", "kube", "rustls", "hyper"]),
    // Files, connections and certificates. The agent carries `files` and `pki`, so they stay small.
    of("capstan-files", &[]).never(IO),
    of("capstan-net", &[]).never(&["hyper", "kube"]),
    of("capstan-pki", &["capstan-files"]).never(&["tokio", "kube", "hyper"]),
    // The machine.
    of("capstan-agent", &["capstan-files", "capstan-pki", "capstan-plan"]).never(KUBERNETES),
    // Unsigned plans: the engine of signed ones must not know them.
    of("capstan-sentinel", &["capstan-agent", "capstan-plan"])
        .never(KUBERNETES)
        .never_itself(&["tokio", "hyper", "rustls"]),
    of(
        "capstan-agentd",
        &["capstan-agent", "capstan-files", "capstan-pki", "capstan-plan", "capstan-sentinel"],
    )
    .never(KUBERNETES),
    of("capstan-artifacts", &["capstan-files", "capstan-net", "capstan-pki", "capstan-plan"])
        .never(KUBERNETES),
    // The embedded API server.
    of(
        "capstan-apiserver",
        &[
            "capstan-apiserver-merge",
            "capstan-apiserver-proto",
            "capstan-apiserver-registry",
            "capstan-apiserver-schema",
            "capstan-apiserver-store",
            "capstan-files",
            "capstan-net",
            "capstan-pki",
            "capstan-text",
        ],
    )
    .never(KUBERNETES),
    // Controllers. A provider never depends on another one.
    of(
        "capstan-controller",
        &["capstan-api", "capstan-pki", "capstan-plan", "capstan-planner", "capstan-text"],
    ),
    of(
        "capstan-core",
        &[
            "capstan-api",
            "capstan-controller",
            "capstan-pki",
            "capstan-plan",
            "capstan-text",
            "capstan-topology",
        ],
    ),
    of("capstan-infrastructure", &["capstan-api", "capstan-controller", "capstan-pki", "capstan-plan"])
        .never(&["russh"]),
    of(
        "capstan-bootstrap",
        &["capstan-api", "capstan-artifacts", "capstan-controller", "capstan-pki", "capstan-plan"],
    ),
    of(
        "capstan-controlplane",
        &[
            "capstan-api",
            "capstan-artifacts",
            "capstan-controller",
            "capstan-distro",
            "capstan-pki",
            "capstan-plan",
            "capstan-planner",
        ],
    ),
    of(
        "capstan-hooks",
        &[
            "capstan-api",
            "capstan-controller",
            "capstan-distro",
            "capstan-net",
            "capstan-pki",
            "capstan-plan",
        ],
    ),
    // What it decides is in `capstan-admission`.
    of(
        "capstan-webhooks",
        &["capstan-admission", "capstan-api", "capstan-controller", "capstan-net", "capstan-pki"],
    ),
    of("capstan-ssh", &["capstan-api", "capstan-infrastructure", "capstan-pki", "capstan-plan"]),
    of(
        "capstan-sim",
        &[
            "capstan-agent",
            "capstan-api",
            "capstan-apiserver",
            "capstan-controller",
            "capstan-files",
            "capstan-infrastructure",
            "capstan-pki",
            "capstan-plan",
        ],
    ),
    of("capstan-mover", &["capstan-api", "capstan-files", "capstan-text"]).never(&["clap"]),
    // Pages and access; objects reach it through a trait.
    of("capstan-ui", &[]).never(KUBERNETES),
    of(
        "capstan",
        &[
            "capstan-admission",
            "capstan-api",
            "capstan-apiserver",
            "capstan-artifacts",
            "capstan-bootstrap",
            "capstan-components",
            "capstan-controller",
            "capstan-controlplane",
            "capstan-core",
            "capstan-distro",
            "capstan-files",
            "capstan-hooks",
            "capstan-infrastructure",
            "capstan-mover",
            "capstan-net",
            "capstan-nspawn",
            "capstan-pki",
            "capstan-plan",
            "capstan-planner",
            "capstan-sim",
            "capstan-ssh",
            "capstan-template",
            "capstan-text",
            "capstan-ui",
            "capstan-webhooks",
        ],
    ),
    // Tests and chores.
    of("capstan-nspawn", &["capstan-files"]).never(KUBERNETES),
    of("capstan-testkit", &["capstan-nspawn", "capstan-tools"]),
    of(
        "capstan-fuzz",
        &[
            "capstan-admission",
            "capstan-agent",
            "capstan-api",
            "capstan-apiserver",
            "capstan-apiserver-schema",
            "capstan-hooks",
            "capstan-pki",
            "capstan-plan",
            "capstan-sentinel",
            "capstan-ssh",
        ],
    ),
    of(
        "capstan-tests",
        &[
            "capstan-api",
            "capstan-apiserver-proto",
            "capstan-nspawn",
            "capstan-pki",
            "capstan-plan",
            "capstan-template",
            "capstan-testkit",
            "capstan-tools",
        ],
    ),
    of("capstan-benches", &[]),
    of("capstan-tools", &["capstan-files"]).never(IO),
    of("xtask", &["capstan-files", "capstan-tools"]).never(IO),
];

/// Every border that is crossed, from what `cargo metadata` prints.
pub(crate) fn faults(metadata: &[u8]) -> Result<Vec<String>> {
    let metadata: Value = serde_json::from_slice(metadata).context("cannot read cargo's metadata")?;
    Ok(faults_of(&Workspace::read(&metadata)?, BORDERS))
}

/// The packages of a workspace, by their cargo ID.
struct Workspace<'a> {
    /// ID and name of the members.
    members: Vec<(&'a str, &'a str)>,
    names: BTreeMap<&'a str, &'a str>,
    /// Normal dependencies, as names, of members only.
    direct: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Normal dependencies as they were resolved, of every package.
    resolved: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Workspace<'a> {
    fn read(metadata: &'a Value) -> Result<Self> {
        let list = |value: &'a Value, what: &str| {
            value.as_array().with_context(|| format!("cargo's metadata has no {what}"))
        };
        let is_normal = |value: &Value| value["kind"].is_null();
        let mut names = BTreeMap::new();
        let mut of_package = BTreeMap::new();
        for package in list(&metadata["packages"], "packages")? {
            let id = package["id"].as_str().context("a package without an ID")?;
            names.insert(id, package["name"].as_str().context("a package without a name")?);
            let dependencies = list(&package["dependencies"], "dependencies of a package")?;
            let normal = dependencies.iter().filter(|dependency| is_normal(dependency));
            of_package.insert(id, normal.filter_map(|dependency| dependency["name"].as_str()).collect());
        }
        let mut resolved = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"], "resolved packages")? {
            let is_normal = |dependency: &&Value| {
                dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(is_normal))
            };
            let normal = list(&node["deps"], "resolved dependencies")?.iter().filter(is_normal);
            let id = node["id"].as_str().context("a resolved package without an ID")?;
            resolved.insert(id, normal.filter_map(|dependency| dependency["pkg"].as_str()).collect());
        }
        let members: Vec<&str> =
            list(&metadata["workspace_members"], "members")?.iter().filter_map(Value::as_str).collect();
        let direct = members.iter().filter_map(|id| Some((*id, of_package.remove(id)?))).collect();
        let members = members.into_iter().filter_map(|id| Some((id, *names.get(id)?))).collect();
        Ok(Self { members, names, direct, resolved })
    }

    /// The names on the shortest way from a package to one of this name, both included.
    fn way(&self, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        let mut next = VecDeque::from([from]);
        while let Some(id) = next.pop_front() {
            if self.names.get(id).is_some_and(|name| *name == to) && id != from {
                let mut way = vec![id];
                while let Some(earlier) = way.last().and_then(|id| before.get(id)) {
                    way.push(earlier);
                }
                return Some(way.into_iter().rev().filter_map(|id| self.names.get(id).copied()).collect());
            }
            for dependency in self.resolved.get(id).into_iter().flatten().copied() {
                if dependency != from && !before.contains_key(dependency) {
                    before.insert(dependency, id);
                    next.push_back(dependency);
                }
            }
        }
        None
    }
}

fn faults_of(workspace: &Workspace<'_>, borders: &[Border]) -> Vec<String> {
    let mut faults = Vec::new();
    let is_member = |name: &str| workspace.members.iter().any(|(_, member)| *member == name);
    for border in borders.iter().filter(|border| !is_member(border.name)) {
        faults.push(format!("{} is not a crate of the workspace: remove it from {LIST}", border.name));
    }
    for (id, name) in &workspace.members {
        let Some(border) = borders.iter().find(|border| border.name == *name) else {
            faults.push(format!("{name} is not in {LIST}: add it, with the crates that it may depend on"));
            continue;
        };
        let direct = workspace.direct.get(id).cloned().unwrap_or_default();
        for used in direct.iter().filter(|used| is_member(used) && !border.uses.contains(used)) {
            faults.push(format!("{name} depends on {used}, which {LIST} does not allow"));
        }
        for unused in border.uses.iter().filter(|allowed| !direct.contains(*allowed)) {
            faults.push(format!("{name} may depend on {unused} and does not: remove that from {LIST}"));
        }
        for found in border.never_itself.iter().filter(|never| direct.contains(*never)) {
            faults.push(format!("{name} depends on {found}, which {LIST} forbids"));
        }
        for way in border.never.iter().filter_map(|never| workspace.way(id, never)) {
            faults.push(format!("{} must not be reached: {LIST} forbids it", way.join(" → ")));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Name, then normal, test and build dependencies.
    type Package<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str]);

    /// What cargo would print of these. All that begin with `capstan` are members.
    fn metadata(packages: &[Package<'_>]) -> Value {
        let kinds = |package: &Package<'_>| -> Vec<(String, Value)> {
            let of = |names: &[&str], kind: Value| {
                names.iter().map(|name| ((*name).to_owned(), kind.clone())).collect::<Vec<_>>()
            };
            [of(package.1, Value::Null), of(package.2, json!("dev")), of(package.3, json!("build"))].concat()
        };
        let all = packages.iter().map(|package| {
            let dependencies: Vec<Value> =
                kinds(package).iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
            json!({"id": format!("{} 1", package.0), "name": package.0, "dependencies": dependencies})
        });
        let nodes = packages.iter().map(|package| {
            let deps: Vec<Value> = kinds(package)
                .iter()
                .map(|(name, kind)| json!({"pkg": format!("{name} 1"), "dep_kinds": [{"kind": kind}]}))
                .collect();
            json!({"id": format!("{} 1", package.0), "deps": deps})
        });
        let members = packages.iter().filter(|package| package.0.starts_with("capstan"));
        json!({
            "packages": all.collect::<Vec<_>>(),
            "workspace_members": members.map(|package| format!("{} 1", package.0)).collect::<Vec<_>>(),
            "resolve": {"nodes": nodes.collect::<Vec<_>>()},
        })
    }

    const B: Package<'_> = ("capstan-b", &[], &[], &[]);
    const TOKIO: Package<'_> = ("tokio", &[], &[], &[]);

    const LISTED: &[Border] =
        &[of("capstan-a", &["capstan-b"]).never(&["tokio"]).never_itself(&["clap"]), of("capstan-b", &[])];

    #[test]
    fn every_fault_is_found_and_named() {
        let table: &[(&[Package<'_>], &[&str])] = &[
            (&[("capstan-a", &["capstan-b"], &[], &[]), B], &[]),
            (&[("capstan-a", &["capstan-b"], &["tokio"], &["tokio"]), B, TOKIO], &[]),
            (&[("capstan-a", &["capstan-b"], &[], &[]), ("capstan-b", &[], &["capstan-a"], &[])], &[]),
            (
                &[("capstan-a", &["capstan-b"], &[], &[]), ("capstan-b", &["capstan-a"], &[], &[])],
                &["capstan-b depends on capstan-a, which BORDERS in xtask/src/borders.rs does not allow"],
            ),
            (
                &[("capstan-a", &[], &["capstan-b"], &[]), B],
                &[
                    "capstan-a may depend on capstan-b and does not: remove that from BORDERS in xtask/src/borders.rs",
                ],
            ),
            (
                &[("capstan-a", &["capstan-b", "clap"], &[], &[]), B],
                &["capstan-a depends on clap, which BORDERS in xtask/src/borders.rs forbids"],
            ),
            (
                &[
                    ("capstan-a", &["capstan-b"], &[], &[]),
                    ("capstan-b", &["x"], &[], &[]),
                    ("x", &["tokio"], &[], &[]),
                    TOKIO,
                ],
                &[
                    "capstan-a → capstan-b → x → tokio must not be reached: BORDERS in xtask/src/borders.rs forbids it",
                ],
            ),
            (
                &[("capstan-a", &["capstan-b"], &[], &[]), B, ("capstan-new", &[], &[], &[])],
                &[
                    "capstan-new is not in BORDERS in xtask/src/borders.rs: add it, with the crates that it may depend on",
                ],
            ),
            (
                &[B],
                &[
                    "capstan-a is not a crate of the workspace: remove it from BORDERS in xtask/src/borders.rs",
                ],
            ),
        ];
        for (packages, expected) in table {
            let metadata = metadata(packages);
            let workspace = Workspace::read(&metadata).expect("metadata");
            assert_eq!(faults_of(&workspace, LISTED), *expected, "{packages:?}");
        }
    }

    #[test]
    fn metadata_without_a_resolved_tree_is_refused() {
        assert!(faults(b"{\"packages\": [], \"workspace_members\": []}").is_err());
    }
}
