//! An image without a daemon: an OCI layout in one archive, which containerd, podman and docker all import.
//!
//! Pure: bytes in, bytes out, and the same ones every time. What is in an archive has no owner but root or the
//! image's user, no time, and one order.

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use std::io::Write as _;

use super::digest::sha256;

/// A user that is nobody on any node.
const USER: u64 = 65532;

/// What goes into the image.
pub(crate) struct Image<'a> {
    /// Its name with its tag.
    pub(crate) name: &'a str,
    /// Its tag alone.
    pub(crate) version: &'a str,
    /// Its architecture, in Go's words.
    pub(crate) arch: &'a str,
    /// Programs, by the name they have in the root folder; the first one is what runs.
    pub(crate) programs: &'a [(&'a str, &'a [u8])],
}

/// The archive.
pub(crate) fn archive(image: &Image<'_>) -> Result<Vec<u8>> {
    let layer = layer(image)?;
    let packed = packed(&layer)?;
    let config = bytes(&config(image, &sha256(&layer)));
    let manifest = bytes(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described("application/vnd.oci.image.config.v1+json", &config),
        "layers": [described("application/vnd.oci.image.layer.v1.tar+gzip", &packed)],
    }));
    let mut entry = described(MANIFEST, &manifest);
    entry["platform"] = json!({ "architecture": image.arch, "os": "linux" });
    entry["annotations"] =
        json!({ "io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": image.version });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] });
    // For a docker that does not read the layout above.
    let saved = json!([{
        "Config": blob(&config),
        "RepoTags": [image.name],
        "Layers": [blob(&packed)],
    }]);
    let mut files = vec![
        (blob(&config), config),
        (blob(&manifest), manifest),
        (blob(&packed), packed),
        ("index.json".to_owned(), bytes(&index)),
        ("manifest.json".to_owned(), bytes(&saved)),
        ("oci-layout".to_owned(), bytes(&json!({ "imageLayoutVersion": "1.0.0" }))),
    ];
    files.sort();
    let mut tar = tar::Builder::new(Vec::new());
    for folder in ["blobs/", "blobs/sha256/"] {
        add_folder(&mut tar, folder, 0)?;
    }
    for (path, bytes) in &files {
        add_file(&mut tar, path, bytes, 0o644)?;
    }
    tar.into_inner().context("cannot write an archive")
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// What the container sees as its root: the programs, who runs them, and a folder to mount something on.
fn layer(image: &Image<'_>) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, program) in image.programs {
        add_file(&mut tar, name, program, 0o755)?;
    }
    add_folder(&mut tar, "etc/", 0)?;
    let groups = format!("root:x:0:\nnonroot:x:{USER}:\n");
    let users = format!("root:x:0:0:root:/:/nonexistent\nnonroot:x:{USER}:{USER}:nonroot:/:/nonexistent\n");
    add_file(&mut tar, "etc/group", groups.as_bytes(), 0o644)?;
    add_file(&mut tar, "etc/passwd", users.as_bytes(), 0o644)?;
    for folder in ["var/", "var/lib/"] {
        add_folder(&mut tar, folder, 0)?;
    }
    add_folder(&mut tar, "var/lib/capstan/", USER)?;
    tar.into_inner().context("cannot write a layer")
}

fn config(image: &Image<'_>, layer: &str) -> Value {
    let runs = image.programs.first().map(|(name, _)| format!("/{name}"));
    json!({
        "architecture": image.arch,
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Entrypoint": [runs],
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": "capstan",
                "org.opencontainers.image.version": image.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created": "1970-01-01T00:00:00Z", "created_by": "make release" }],
    })
}

fn add_file(tar: &mut tar::Builder<Vec<u8>>, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let mut header = header(mode, 0);
    header.set_size(bytes.len() as u64);
    tar.append_data(&mut header, path, bytes).with_context(|| format!("cannot archive {path}"))
}

fn add_folder(tar: &mut tar::Builder<Vec<u8>>, path: &str, owner: u64) -> Result<()> {
    let mut header = header(0o755, owner);
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    tar.append_data(&mut header, path, std::io::empty()).with_context(|| format!("cannot archive {path}"))
}

fn header(mode: u32, owner: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_uid(owner);
    header.set_gid(owner);
    header.set_mtime(0);
    header
}

fn packed(layer: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    gzip.write_all(layer).and_then(|()| gzip.finish()).context("cannot compress a layer")
}

fn described(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len() })
}

fn blob(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", sha256(bytes))
}

/// What is made of text and numbers always becomes JSON.
fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Read as _;

    fn image<'a>(programs: &'a [(&'a str, &'a [u8])]) -> Image<'a> {
        Image { name: "registry.example/capstan:v0.1.0", version: "v0.1.0", arch: "amd64", programs }
    }

    fn entries(archive: &[u8]) -> BTreeMap<String, (tar::Header, Vec<u8>)> {
        let mut tar = tar::Archive::new(archive);
        let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.expect("an entry");
            let (name, header) =
                (entry.path().expect("a name").display().to_string(), entry.header().clone());
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("bytes");
            (name, (header, bytes))
        };
        tar.entries().expect("entries").map(read).collect()
    }

    fn json(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).expect("JSON")
    }

    #[test]
    fn the_same_programs_make_the_same_image() {
        let programs: &[(&str, &[u8])] = &[("capstan", b"one"), ("capstan-agent", b"two")];
        let first = archive(&image(programs)).expect("an archive");
        assert_eq!(first, archive(&image(programs)).expect("an archive"));
        let other: &[(&str, &[u8])] = &[("capstan", b"one"), ("capstan-agent", b"2")];
        assert_ne!(first, archive(&image(other)).expect("an archive"));
    }

    #[test]
    fn every_reference_leads_to_its_bytes() {
        let archive = archive(&image(&[("capstan", b"one")])).expect("an archive");
        let files = entries(&archive);
        let follow = |reference: &Value| {
            let digest = reference["digest"].as_str().expect("a digest").replace(':', "/");
            let (_, bytes) = &files[&format!("blobs/{digest}")];
            assert_eq!(reference["size"], bytes.len());
            assert_eq!(digest, format!("sha256/{}", sha256(bytes)));
            bytes.clone()
        };
        let index = json(&files["index.json"].1);
        let entry = &index["manifests"][0];
        assert_eq!(entry["annotations"]["io.containerd.image.name"], "registry.example/capstan:v0.1.0");
        let manifest = json(&follow(entry));
        let config = json(&follow(&manifest["config"]));
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"][0], "/capstan");
        let mut layer = Vec::new();
        flate2::read::GzDecoder::new(&follow(&manifest["layers"][0])[..])
            .read_to_end(&mut layer)
            .expect("gzip");
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&layer)));
        let inside = entries(&layer);
        assert_eq!(inside["capstan"].0.mode().expect("a mode"), 0o755);
        assert_eq!(inside["var/lib/capstan/"].0.uid().expect("an owner"), 65532);
        assert!(inside.values().all(|(header, _)| header.mtime().expect("a time") == 0));
        assert!(!inside.keys().any(|name| name.ends_with("sh")), "no shell");
    }
}
