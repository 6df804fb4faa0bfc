//! Reads the manifests to plan: files, folders, standard input.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// All objects in the files, in order. Folders are read one level deep, as in kubectl.
pub(super) fn read(files: &[PathBuf], namespace: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for file in files {
        for (name, text) in texts(file)? {
            let found = parse(&text, namespace).with_context(|| format!("cannot use {name}"))?;
            objects.extend(found);
        }
    }
    if objects.is_empty() {
        bail!("there is no object in what was given: pass a file with -f");
    }
    Ok(objects)
}

fn texts(path: &Path) -> Result<Vec<(String, String)>> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(vec![("standard input".to_owned(), text)]);
    }
    let read = |path: &Path| -> Result<(String, String)> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        Ok((name, text))
    };
    if !path.is_dir() {
        return Ok(vec![read(path)?]);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.is_file() && file.extension().is_some_and(is_manifest));
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

fn is_manifest(extension: &std::ffi::OsStr) -> bool {
    ["yaml", "yml", "json"].iter().any(|known| extension == *known)
}

/// All objects in a text of YAML or JSON documents. Objects without a namespace get `namespace`; for cluster-scoped
/// kinds it is ignored later.
pub(crate) fn parse(text: &str, namespace: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("that is no YAML")?;
    let mut objects = Vec::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let is_list = document["kind"].as_str().is_some_and(|kind| kind == "List");
        match document["items"].as_array().filter(|_| is_list) {
            Some(items) => objects.extend(items.iter().cloned()),
            None => objects.push(document),
        }
    }
    for object in &mut objects {
        for field in ["/apiVersion", "/kind", "/metadata/name"] {
            let is_there = object.pointer(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
            if !is_there {
                bail!("an object has no {}", field.trim_start_matches('/').replace('/', "."));
            }
        }
        if object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        // What a server says of itself is not asked for.
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"] {
                metadata.remove(field);
            }
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "kind: A\napiVersion: v1\nmetadata: {name: a}\n---\n---\n\
                       kind: List\napiVersion: v1\nitems: [{kind: B, apiVersion: g/v1, metadata: {name: b, namespace: x, \
                       uid: u}, status: {a: 1}}]\n";

    #[test]
    fn documents_and_lists_are_objects() {
        let objects = parse(TWO, "ns").expect("objects");
        let described = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["namespace"]);
        assert_eq!(objects.iter().map(described).collect::<Vec<_>>(), [r#""A" "ns""#, r#""B" "x""#]);
        assert!(objects[1]["status"].is_null() && objects[1]["metadata"]["uid"].is_null());
        for wrong in ["kind: A", "[]: :", "kind: A\napiVersion: v1\nmetadata: {}"] {
            assert!(parse(wrong, "ns").is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_and_folders_are_read_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, object: &str| {
            let text = format!("{{kind: {object}, apiVersion: v1, metadata: {{name: a}}}}");
            std::fs::write(folder.path().join(name), text).expect("a file");
        };
        write("2.yaml", "B");
        write("1.yml", "A");
        write("README.md", "C");
        let objects = read(&[folder.path().to_owned()], "ns").expect("objects");
        assert_eq!(objects.iter().map(|o| o["kind"].as_str()).collect::<Vec<_>>(), [Some("A"), Some("B")]);
        assert!(read(&[folder.path().join("none.yaml")], "ns").is_err());
    }
}
