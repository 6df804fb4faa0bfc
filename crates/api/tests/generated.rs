//! What is committed under `config/crd` is what the types say.

#![allow(clippy::unwrap_used)]

use capstan_api::crd;
use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn committed_crds_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd");
    let committed: BTreeMap<String, String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    let generated: BTreeMap<String, String> =
        crd::all().iter().map(|crd| (crd::file_name(crd), crd::to_yaml(crd).unwrap())).collect();

    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&committed), names(&generated), "run `make generate` and commit config/crd");
    for (name, yaml) in &generated {
        assert!(committed[name] == *yaml, "{name} is out of date: run `make generate` and commit it");
    }
}
