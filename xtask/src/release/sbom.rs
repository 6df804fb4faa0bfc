//! What the programs are made of: a CycloneDX document from cargo's own metadata.
//!
//! Of what is linked in: no test's and no build script's crates. No time and no random serial number, so that the same
//! tree gives the same document.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The document, for the programs of these packages.
pub(crate) fn sbom(metadata: &Value, lock: &str, packages: &[&str], version: &str) -> Result<String> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo's metadata has no graph")?;
    let all = metadata["packages"].as_array().context("cargo's metadata has no packages")?;
    let by_id: BTreeMap<&str, &Value> = all.iter().filter_map(|it| Some((it["id"].as_str()?, it))).collect();
    let needs: BTreeMap<&str, Vec<&str>> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, linked(node)))).collect();
    let mut reached = BTreeSet::new();
    let named = |id: &&&str| by_id[**id]["name"].as_str().is_some_and(|name| packages.contains(&name));
    let mut open: Vec<&str> = by_id.keys().filter(named).copied().collect();
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            open.extend(needs.get(id).into_iter().flatten());
        }
    }
    let checksums = checksums(lock);
    let mut components: Vec<(String, Value)> = reached
        .iter()
        .filter_map(|id| by_id.get(id))
        .map(|package| (address(package), component(package, &checksums)))
        .collect();
    components.sort_by(|one, other| one.0.cmp(&other.0));
    let mut dependencies: Vec<(String, Value)> = Vec::new();
    for id in &reached {
        let mut on: Vec<String> = needs.get(id).into_iter().flatten().map(|id| address(by_id[id])).collect();
        on.sort();
        on.dedup();
        let reference = address(by_id[id]);
        dependencies.push((reference.clone(), json!({ "ref": reference, "dependsOn": on })));
    }
    dependencies.sort_by(|one, other| one.0.cmp(&other.0));
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "capstan", "version": version } },
        "components": components.into_iter().map(|it| it.1).collect::<Vec<_>>(),
        "dependencies": dependencies.into_iter().map(|it| it.1).collect::<Vec<_>>(),
    });
    Ok(format!("{document:#}\n"))
}

/// What is linked into a package, and not only used to build or test it.
fn linked(node: &Value) -> Vec<&str> {
    let normal = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
        kinds.into_iter().any(|kind| kind["kind"].is_null())
    };
    let all = node["deps"].as_array().into_iter().flatten();
    all.filter(normal).filter_map(|dependency| dependency["pkg"].as_str()).collect()
}

/// The package URL, by which everybody knows it.
fn address(package: &Value) -> String {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Value {
    let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
    let (name, version) = (text("name"), text("version"));
    let mut component = json!({
        "type": "library",
        "bom-ref": address(package),
        "name": name,
        "version": version,
        "purl": address(package),
        // Old crates write a slash where SPDX has OR.
        "licenses": [{ "expression": text("license").replace('/', " OR ") }],
    });
    if let Some(checksum) = checksums.get(&(name, version)) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

/// What cargo has checked each crate against, from its lock file.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let field = |block: &str, name: &str| {
        let found = block.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"")));
        found.map(|value| value.trim_end_matches('"').to_owned())
    };
    let of =
        |block: &str| Some(((field(block, "name")?, field(block, "version")?), field(block, "checksum")?));
    lock.split("[[package]]").filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str) -> Value {
        json!({ "id": format!("{name} 1.0.0"), "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" })
    }

    fn needs(name: &str, on: &[(&str, Option<&str>)]) -> Value {
        let dependency = |(name, kind): &(&str, Option<&str>)| json!({ "pkg": format!("{name} 1.0.0"), "dep_kinds": [{ "kind": kind }] });
        json!({ "id": format!("{name} 1.0.0"), "deps": on.iter().map(dependency).collect::<Vec<_>>() })
    }

    #[test]
    fn only_what_is_linked_in_is_listed() {
        let packages = ["app", "used", "deep", "test", "tool", "other"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                needs("app", &[("used", None), ("test", Some("dev")), ("tool", Some("build"))]),
                needs("used", &[("deep", None)]),
                needs("deep", &[]),
                needs("test", &[]),
                needs("tool", &[]),
                needs("other", &[]),
            ] },
        });
        let lock = "[[package]]\nname = \"used\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let text = sbom(&metadata, lock, &["app"], "v0.1.0").expect("a document");
        assert_eq!(text, sbom(&metadata, lock, &["app"], "v0.1.0").expect("a document"));
        let document: Value = serde_json::from_str(&text).expect("JSON");
        let names: Vec<&str> = document["components"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|it| it["name"].as_str())
            .collect();
        assert_eq!(names, ["app", "deep", "used"]);
        assert_eq!(document["components"][2]["hashes"][0]["content"], "abc");
        assert_eq!(document["components"][2]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(document["dependencies"][2]["dependsOn"][0], "pkg:cargo/deep@1.0.0");
    }
}
