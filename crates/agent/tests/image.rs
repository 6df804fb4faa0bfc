//! Container images from archives in a folder.

use crate::support::{owner, path};
use capstan_agent::Machine as _;
use capstan_agent::image::ImageReference;
use capstan_agent::machine::MachineError;
use capstan_agent::real::Linux;
use capstan_plan::Digest;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use tempfile::TempDir;

/// A tar archive of files; a name with `/` at its end is a folder.
fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o755);
        header.set_size(content.len() as u64);
        if name.ends_with('/') {
            header.set_entry_type(tar::EntryType::Directory);
        }
        builder.append_data(&mut header, name, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn lower() -> Vec<u8> {
    tar(&[
        ("run.sh", b"lower"),
        ("bin/", b""),
        ("bin/a", b"a"),
        ("bin/b", b"b"),
        ("old/x", b"x"),
        ("file", b"f"),
    ])
}

/// Replaces, removes, empties a folder, and puts a folder in place of a file.
fn upper() -> Vec<u8> {
    tar(&[
        ("run.sh", b"upper"),
        ("bin/.wh.a", b""),
        ("old/.wh..wh..opq", b""),
        ("old/y", b"y"),
        ("file/inner", b"i"),
        (".wh.missing", b""),
    ])
}

struct Yard(TempDir);

impl Yard {
    fn new() -> Self {
        let yard = Self(TempDir::new().unwrap());
        fs::create_dir_all(yard.0.path().join("images")).unwrap();
        fs::create_dir_all(yard.0.path().join("work/into")).unwrap();
        yard
    }

    fn put(&self, name: &str, content: &[u8]) {
        fs::write(self.0.path().join("images").join(name), content).unwrap();
    }

    /// Whether an archive contains the image.
    async fn find(&self, reference: &str) -> Result<bool, MachineError> {
        let linux = Linux::rooted(self.0.path()).unwrap();
        let image = ImageReference::parse(reference).unwrap();
        linux.unpack_image(&image, &path("/images"), &path("/work/into"), owner()).await
    }

    async fn unpack(&self, reference: &str) -> Result<(), MachineError> {
        self.find(reference).await.map(|is_found| assert!(is_found, "no archive contains {reference}"))
    }

    /// Unpacks layers that are files, named by these digests.
    async fn unpack_layers(&self, layers: &[(Digest, &[u8])]) -> Result<(), MachineError> {
        let digests: Vec<Digest> = layers.iter().map(|(digest, _)| *digest).collect();
        layers.iter().for_each(|(digest, content)| self.put(&digest.to_string(), content));
        let linux = Linux::rooted(self.0.path()).unwrap();
        linux.unpack_layers(&digests, &path("/images"), &path("/work/into"), owner()).await
    }

    fn files(&self) -> Vec<(String, String)> {
        let root = self.0.path().join("work");
        let mut found = Vec::new();
        walk(&root, &root, &mut found);
        found.sort();
        found
    }
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(root, &path, found);
        } else {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

fn expected() -> Vec<(String, String)> {
    let files = [("bin/b", "b"), ("file/inner", "i"), ("old/y", "y"), ("run.sh", "upper")];
    files.map(|(name, content)| (format!("into/{name}"), content.to_owned())).into()
}

fn saved(tags: &Value) -> Vec<u8> {
    let manifest = json!([{"Config": "c.json", "RepoTags": tags, "Layers": ["1/layer.tar", "2/layer.tar"]}]);
    // The order of the files says nothing.
    tar(&[
        ("2/layer.tar", &upper()),
        ("manifest.json", manifest.to_string().as_bytes()),
        ("1/layer.tar", &lower()),
    ])
}

/// An OCI layout: a list of platforms, one of them with two layers. Returns the digest of the list, too.
fn layout(name: &str, damage: bool) -> (Vec<u8>, Digest) {
    let blob = |bytes: Vec<u8>| (format!("blobs/sha256/{}", Digest::of(&bytes)), bytes);
    let descriptor =
        |(path, _): &(String, Vec<u8>)| json!({"digest": path.replace("blobs/sha256/", "sha256:")});
    let layers = [blob(gz(&lower())), blob(upper())];
    let image =
        blob(json!({"layers": layers.iter().map(descriptor).collect::<Vec<_>>()}).to_string().into_bytes());
    let mut here = descriptor(&image);
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    here["platform"] = json!({"os": "linux", "architecture": architecture});
    let mut other = descriptor(&blob(Vec::new()));
    other["platform"] = json!({"os": "windows", "architecture": architecture});
    let list = blob(json!({"manifests": [other, here]}).to_string().into_bytes());
    let mut entry = descriptor(&list);
    entry["annotations"] = json!({"org.opencontainers.image.ref.name": name});
    let digest = Digest::of(&list.1);
    let mut files =
        vec![("index.json".to_owned(), json!({"manifests": [entry]}).to_string().into_bytes()), list, image];
    files.extend(layers);
    if damage {
        let last = files.last_mut().unwrap();
        last.1 = tar(&[("run.sh", b"other")]);
    }
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    (tar(&files), digest)
}

#[tokio::test]
async fn layers_of_a_saved_image_are_put_over_each_other() {
    let plain: fn(&[u8]) -> Vec<u8> = <[u8]>::to_vec;
    for compress in [plain, gz] {
        let yard = Yard::new();
        yard.put("a.txt", b"not an archive by its name");
        yard.put("b.tar", &saved(&json!(["example/other:v1"])));
        yard.put("c.tar.gz", &compress(&saved(&json!(["example/x:v1"]))));
        yard.unpack("docker.io/example/x:v1").await.unwrap();
        assert_eq!(yard.files(), expected());
        let mode = fs::metadata(yard.0.path().join("work/into/run.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
        // Once more over what is there.
        yard.unpack("example/x:v1").await.unwrap();
        assert_eq!(yard.files(), expected());
    }
}

#[tokio::test]
async fn an_image_of_a_layout_is_found_by_its_name_or_digest_and_verified() {
    let (archive, digest) = layout("example/x:v1", false);
    for reference in ["example/x:v1".to_owned(), format!("example/any@sha256:{digest}")] {
        let yard = Yard::new();
        yard.put("layout.tar", &archive);
        yard.unpack(&reference).await.unwrap();
        assert_eq!(yard.files(), expected());
    }
    let yard = Yard::new();
    yard.put("layout.tar", &layout("example/x:v1", true).0);
    let error = yard.unpack("example/x:v1").await.unwrap_err().to_string();
    assert!(error.contains("has another digest"), "{error}");
}

#[tokio::test]
async fn hostile_and_missing_images_are_refused() {
    let yard = Yard::new();
    assert!(!yard.find("example/x:v1").await.unwrap());
    let manifest = |layers: Value| json!([{"RepoTags": ["x:v1"], "Layers": layers}]).to_string();
    let mut link = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_mode(0o777);
    header.set_size(0);
    link.append_link(&mut header, "out", "../../../etc").unwrap();
    let mut long_name = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(2 * 1024 * 1024);
    long_name.append_data(&mut header, "name", &vec![b'x'; 2 * 1024 * 1024][..]).unwrap();
    let deep = "d/".repeat(300);
    for (layer, message) in [
        (link.into_inner().unwrap(), "is a link that leads out of the folder"),
        (long_name.into_inner().unwrap(), "a header in it is too large"),
        (tar(&[(&deep, b"")]), "more than 255 folders above each other"),
        (tar(&[(".wh...", b"")]), "cannot put the layers together"),
        (tar(&[(".wh..", b"")]), "cannot put the layers together"),
        (b"no tar at all".repeat(100), "the archive is not unpacked"),
    ] {
        let archive = tar(&[("manifest.json", manifest(json!(["l"])).as_bytes()), ("l", &layer)]);
        yard.put("x.tar", &archive);
        let error = yard.unpack("x:v1").await.unwrap_err().to_string();
        assert!(error.contains(message), "{message}: {error}");
        assert_eq!(yard.files(), []);
    }
    yard.put("x.tar", &tar(&[("manifest.json", manifest(json!(["missing"])).as_bytes())]));
    assert!(yard.unpack("x:v1").await.unwrap_err().to_string().contains("missing is missing"));
}

#[tokio::test]
async fn layers_that_are_files_are_verified_and_unpacked() {
    let (lower, upper) = (
        gz(&lower()),
        ruzstd::encoding::compress_to_vec(&upper()[..], ruzstd::encoding::CompressionLevel::Fastest),
    );
    let layers = [(Digest::of(&lower), lower.as_slice()), (Digest::of(&upper), upper.as_slice())];
    let yard = Yard::new();
    yard.unpack_layers(&layers).await.unwrap();
    assert_eq!(yard.files(), expected());

    let yard = Yard::new();
    let error = yard.unpack_layers(&[(Digest::of(b"other"), lower.as_slice())]).await.unwrap_err();
    assert!(error.to_string().contains("has another digest"), "{error}");
    assert_eq!(yard.files(), []);
    let linux = Linux::rooted(yard.0.path()).unwrap();
    let missing =
        linux.unpack_layers(&[Digest::of(b"x")], &path("/images"), &path("/work/into"), owner()).await;
    assert!(missing.unwrap_err().to_string().contains("is missing"));
}
