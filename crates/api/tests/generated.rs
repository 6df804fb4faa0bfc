//! What is committed under `config/crd`, in `config/crd.jsonl` and under `docs/reference/api` is what the types say.

#![cfg(test)]

use capstan_api::crd::{self, reference};
use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn committed_crds_are_those_of_the_types() {
    let crds = crd::all();
    is_committed(
        "config/crd",
        &crds.iter().map(|crd| (crd::file_name(crd), crd::to_yaml(crd).unwrap())).collect(),
    );
}

#[test]
fn the_committed_lines_are_those_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd.jsonl");
    let committed = std::fs::read_to_string(path).unwrap();
    let is_current = committed == crd::to_json_lines(&crd::all()).unwrap();
    assert!(is_current, "config/crd.jsonl is out of date: run `make generate` and commit it");
}

#[test]
fn the_committed_reference_is_that_of_the_types() {
    let crds = crd::all();
    let mut pages: BTreeMap<String, String> =
        crds.iter().map(|crd| (reference::file_name(crd), reference::page(crd))).collect();
    pages.insert("README.md".to_owned(), reference::index(&crds));
    is_committed("docs/reference/api", &pages);
}

fn is_committed(folder: &str, generated: &BTreeMap<String, String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let committed: BTreeMap<String, String> = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&committed), names(generated), "run `make generate` and commit {folder}");
    for (name, text) in generated {
        assert!(committed[name] == *text, "{name} is out of date: run `make generate` and commit it");
    }
}
