//! Embeds the committed CRDs into the program as one JSON array, because generating them from the types would dominate
//! the start time. A test in `crates/api` checks that they match the types.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../config/crd");
    println!("cargo::rerun-if-changed={}", folder.display());
    let files =
        fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, Box<dyn Error>>>();
    let mut files = files?;
    files.sort();
    let crds = files.iter().map(|file| {
        println!("cargo::rerun-if-changed={}", file.display());
        Ok(serde_saphyr::from_str(&fs::read_to_string(file)?)?)
    });
    let crds = crds.collect::<Result<Vec<serde_json::Value>, Box<dyn Error>>>()?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("crds.json"), serde_json::to_vec(&crds)?)?;
    Ok(())
}
