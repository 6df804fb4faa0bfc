//! Artifacts on the machine that exists: fetched, checked, unpacked, whole or not at all.

use crate::support::mirror::{Behaviour, Mirror};
use crate::support::{owner, path};
use capstan_agent::Machine;
use capstan_agent::machine::{Found, MachineError};
use capstan_agent::real::Linux;
use capstan_plan::{Artifact, Digest, Mode, ProxyCredentials, SecretText, Source, SourceProxy, Unpack};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tar::{EntryType, Header};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

const LONG: Duration = Duration::from_secs(60);

/// A machine in a folder, with a folder `srv` for sources and `opt` for what comes of them.
fn machine() -> (TempDir, Linux) {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("srv")).unwrap();
    fs::create_dir(root.path().join("opt")).unwrap();
    let linux = Linux::rooted(root.path()).unwrap();
    (root, linux)
}

fn artifact(content: &[u8], sources: Vec<Source>, unpack: Option<Unpack>) -> Artifact {
    let (owner, group) = owner();
    Artifact {
        sha256: Digest::of(content),
        size: content.len() as u64,
        sources,
        path: path("/opt/it"),
        unpack,
        mode: Mode::new(0o750).unwrap(),
        owner,
        group,
    }
}

fn source(url: &str) -> Source {
    Source::new(url.parse().unwrap())
}

/// An artifact that lies on the machine itself.
fn local(root: &Path, content: &[u8], unpack: Option<Unpack>) -> Artifact {
    fs::write(root.join("srv/it"), content).unwrap();
    artifact(content, vec![source("file:///srv/it")], unpack)
}

enum Item<'a> {
    File(&'a str, &'a [u8], u32),
    Folder(&'a str, u32),
    Symlink(&'a str, &'a str),
    Link(&'a str, &'a str),
    Odd(&'a str, EntryType),
}

fn archive(items: &[Item<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for item in items {
        let mut header = Header::new_gnu();
        header.set_mode(0o777);
        let (name, content, target) = match item {
            Item::File(name, content, mode) => {
                header.set_mode(*mode);
                (name, *content, None)
            }
            Item::Folder(name, mode) => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(*mode);
                (name, &[][..], None)
            }
            Item::Symlink(name, target) => {
                header.set_entry_type(EntryType::Symlink);
                (name, &[][..], Some(target))
            }
            Item::Link(name, target) => {
                header.set_entry_type(EntryType::Link);
                (name, &[][..], Some(target))
            }
            Item::Odd(name, kind) => {
                header.set_entry_type(*kind);
                (name, &[][..], None)
            }
        };
        header.set_size(content.len() as u64);
        // By hand: the library would refuse to write what a hostile archive holds.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        if let Some(target) = target {
            header.as_gnu_mut().unwrap().linkname[..target.len()].copy_from_slice(target.as_bytes());
        }
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn a_file_is_put_in_its_place() {
    let (root, linux) = machine();
    let content = vec![b'x'; 300_000];
    let wanted = local(root.path(), &content, None);
    linux.install(&wanted, LONG).await.unwrap();
    let place = root.path().join("opt/it");
    assert_eq!(fs::read(&place).unwrap(), content);
    assert_eq!(mode(&place), 0o750);
    assert_eq!(names(&root.path().join("opt")), ["it"], "nothing else is left");
    // It is there: it is neither written nor fetched again.
    let inode = fs::metadata(&place).unwrap().ino();
    fs::remove_file(root.path().join("srv/it")).unwrap();
    linux.keep_fetched(&BTreeSet::new()).await.unwrap();
    assert_eq!(names(&root.path().join("var/lib/capstan/cache")), [""; 0]);
    linux.install(&wanted, LONG).await.unwrap();
    assert_eq!(fs::metadata(&place).unwrap().ino(), inode);
    // One that was changed is replaced, and without a source that fails.
    fs::write(&place, vec![b'y'; 300_000]).unwrap();
    assert!(matches!(linux.install(&wanted, LONG).await, Err(MachineError::NotFetched { .. })));
    fs::write(root.path().join("srv/it"), &content).unwrap();
    linux.install(&wanted, LONG).await.unwrap();
    assert_eq!(fs::read(&place).unwrap(), content);
}

#[tokio::test]
async fn what_was_fetched_is_kept_and_checked_again() {
    let (root, linux) = machine();
    let wanted = local(root.path(), b"content", None);
    linux.install(&wanted, LONG).await.unwrap();
    fs::remove_file(root.path().join("srv/it")).unwrap();
    fs::remove_file(root.path().join("opt/it")).unwrap();
    linux.install(&wanted, LONG).await.unwrap();
    let cached = root.path().join("var/lib/capstan/cache").join(wanted.sha256.to_string());
    assert_eq!(mode(cached.parent().unwrap()), 0o700);
    // Somebody changes it on the disk: it is not used, and the next attempt fetches it again.
    fs::write(&cached, "c0ntent").unwrap();
    fs::remove_file(root.path().join("opt/it")).unwrap();
    let error = linux.install(&wanted, LONG).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("has changed"), "{error}");
    assert!(!root.path().join("opt/it").exists());
    fs::write(root.path().join("srv/it"), "content").unwrap();
    linux.install(&wanted, LONG).await.unwrap();
}

#[tokio::test]
async fn archives_are_unpacked_whole_and_replaced_whole() {
    let (root, linux) = machine();
    let first = archive(&[
        Item::Folder("./", 0o777),
        Item::Folder("bin/", 0o555),
        Item::File("bin/k3s", b"program", 0o4755),
        Item::File("etc/deep/config", b"a=1", 0o640),
        Item::Symlink("bin/kubectl", "k3s"),
        Item::Symlink("bin/up", "../etc/deep"),
        Item::Link("bin/again", "bin/k3s"),
    ]);
    for (compressed, unpack) in [(gz(&first), Unpack::TarGz), (zst(&first), Unpack::TarZst)] {
        let wanted = local(root.path(), &compressed, Some(unpack));
        linux.install(&wanted, LONG).await.unwrap();
        let place = root.path().join("opt/it");
        assert_eq!(mode(&place), 0o750, "the plan says whose the folder is, not the archive");
        assert_eq!(mode(&place.join("bin")), 0o555);
        assert_eq!(mode(&place.join("bin/k3s")), 0o755, "nothing is set-user-ID");
        assert_eq!(mode(&place.join("etc/deep/config")), 0o640);
        assert_eq!(mode(&place.join("etc")), 0o755, "folders that the archive does not name");
        assert_eq!(fs::read_link(place.join("bin/kubectl")).unwrap(), Path::new("k3s"));
        assert_eq!(fs::read_to_string(place.join("bin/again")).unwrap(), "program");
        assert_eq!(fs::read_to_string(place.join("bin/up/config")).unwrap(), "a=1");
        assert_eq!(names(&root.path().join("opt")), ["it"]);
    }
    let second = gz(&archive(&[Item::File("only", b"this", 0o644)]));
    linux.install(&local(root.path(), &second, Some(Unpack::TarGz)), LONG).await.unwrap();
    assert_eq!(names(&root.path().join("opt/it")), ["only"]);
    assert_eq!(names(&root.path().join("opt")), ["it"]);
    linux.remove_tree(&path("/opt/it")).await.unwrap();
    linux.remove_tree(&path("/opt/it")).await.unwrap();
    linux.remove_tree(&path("/nowhere/it")).await.unwrap();
    assert_eq!(names(&root.path().join("opt")), [""; 0]);
}

#[tokio::test]
async fn hostile_archives_are_refused_and_leave_nothing() {
    let (root, linux) = machine();
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("victim"), "safe").unwrap();
    let away = outside.path().to_str().unwrap();
    let cases: Vec<(Vec<Item<'_>>, &str)> = vec![
        (vec![Item::File("../evil", b"x", 0o644)], "leads out"),
        (vec![Item::File("a/../../evil", b"x", 0o644)], "leads out"),
        (vec![Item::File("/etc/evil", b"x", 0o644)], "leads out"),
        (vec![Item::Symlink("a", "/etc")], "leads out"),
        (vec![Item::Symlink("a", "../b")], "leads out"),
        (vec![Item::Symlink("a/b", "../../c")], "leads out"),
        (vec![Item::Symlink("a/b", "c/../../../d")], "leads out"),
        // By its names alone it leads to `d/e`: only where `up` leads decides.
        (
            vec![
                Item::Folder("d/e/", 0o755),
                Item::Symlink("d/e/up", "../.."),
                Item::Symlink("a", "d/e/up/../srv/it"),
            ],
            "leads out",
        ),
        // Also if that link comes later.
        (vec![Item::Symlink("a", "d/e/up/../srv/it"), Item::Symlink("d/e/up", "../..")], "leads out"),
        (vec![Item::Symlink("a", "b"), Item::Symlink("b", "a")], "without an end"),
        (vec![Item::Symlink("a", "b"), Item::File("a/x", b"x", 0o644)], "no folder"),
        (vec![Item::Symlink("a", "."), Item::File("a/x", b"x", 0o644)], "no folder"),
        (vec![Item::Link("a", "../../srv/it")], "leads out"),
        (vec![Item::Link("a", "/etc/passwd")], "leads out"),
        (vec![Item::Link("a", "missing")], "nothing that came before"),
        (vec![Item::Symlink("l", "x"), Item::Link("a", "l")], "nothing that came before"),
        (vec![Item::Odd("dev", EntryType::Char)], "neither a file"),
        (vec![Item::Odd("dev", EntryType::Block)], "neither a file"),
        (vec![Item::Odd("pipe", EntryType::Fifo)], "neither a file"),
        (vec![Item::File("a", b"1", 0o644), Item::File("a", b"2", 0o644)], "twice"),
        (vec![Item::File("a", b"1", 0o644), Item::File("a/b", b"2", 0o644)], "no folder"),
        (vec![Item::File("a", b"1", 0o644), Item::Symlink("a", "b")], "twice"),
        (vec![Item::Symlink("a", away), Item::File("a/victim", b"x", 0o644)], "leads out"),
        (vec![Item::File(".", b"1", 0o644)], "has no name"),
    ];
    for (items, said) in cases {
        for (bytes, unpack) in
            [(gz(&archive(&items)), Unpack::TarGz), (zst(&archive(&items)), Unpack::TarZst)]
        {
            let wanted = local(root.path(), &bytes, Some(unpack));
            let error = linux.install(&wanted, LONG).await.expect_err(said);
            assert!(matches!(error, MachineError::Archive(_)) && !error.is_transient(), "{error}");
            assert!(error.to_string().contains(said), "{error} should say {said}");
            assert_eq!(names(&root.path().join("opt")), [""; 0], "{said}");
        }
    }
    assert_eq!(fs::read_to_string(outside.path().join("victim")).unwrap(), "safe");
    // Bytes that are no archive at all, or only half of one.
    let whole = gz(&archive(&[Item::File("a", &[7; 5000], 0o644)]));
    for bytes in [b"no archive".to_vec(), whole[..whole.len() / 2].to_vec()] {
        for unpack in [Unpack::TarGz, Unpack::TarZst] {
            let error = linux.install(&local(root.path(), &bytes, Some(unpack)), LONG).await.unwrap_err();
            assert!(!error.is_transient(), "{error}");
            assert_eq!(names(&root.path().join("opt")), [""; 0]);
        }
    }
}

/// What is looked at, and the step that finds it out.
#[tokio::test]
async fn what_was_changed_is_seen_without_reading_it_and_found_out_by_reading_it() {
    let (root, linux) = machine();
    let items = || {
        archive(&[
            Item::Folder("bin/", 0o755),
            Item::File("bin/k3s", b"program", 0o755),
            Item::File("etc/config", b"a=1", 0o640),
            Item::Symlink("bin/kubectl", "k3s"),
            Item::Link("bin/again", "bin/k3s"),
        ])
    };
    let place = root.path().join("opt/it");
    let rewrite = |name: &str, content: &str| {
        let changed = if name.is_empty() { place.clone() } else { place.join(name) };
        fs::write(&changed, content).unwrap();
        // Whoever wants to hide it sets the time back.
        let file = fs::File::options().write(true).open(&changed).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    };
    type Change<'a> = (&'a str, bool, Box<dyn Fn() + 'a>);
    let changes: [Change<'_>; 9] = [
        ("content", false, Box::new(|| rewrite("etc/config", "a=2"))),
        ("length", false, Box::new(|| rewrite("bin/k3s", "pro"))),
        ("a missing file", false, Box::new(|| fs::remove_file(place.join("etc/config")).unwrap())),
        ("a missing folder", false, Box::new(|| fs::remove_dir_all(place.join("bin")).unwrap())),
        (
            "a mode",
            false,
            Box::new(|| fs::set_permissions(place.join("bin/k3s"), Permissions::from_mode(0o4755)).unwrap()),
        ),
        (
            "another link",
            false,
            Box::new(|| {
                fs::remove_file(place.join("bin/kubectl")).unwrap();
                symlink("again", place.join("bin/kubectl")).unwrap();
            }),
        ),
        (
            "no hard link",
            false,
            Box::new(|| {
                fs::remove_file(place.join("bin/again")).unwrap();
                fs::copy(place.join("bin/k3s"), place.join("bin/again")).unwrap();
            }),
        ),
        ("nothing at all", false, Box::new(|| fs::remove_dir_all(&place).unwrap())),
        ("something beside it", true, Box::new(|| fs::write(place.join("cache"), "x").unwrap())),
    ];
    for (compressed, unpack) in [(gz(&items()), Unpack::TarGz), (zst(&items()), Unpack::TarZst)] {
        let wanted = local(root.path(), &compressed, Some(unpack));
        for (case, is_right, change) in &changes {
            linux.install(&wanted, LONG).await.unwrap();
            assert_eq!(linux.is_installed(&wanted).await.unwrap(), Some(true), "{case}");
            let stamp = linux.stamp(&wanted.path).await.unwrap();
            assert_eq!(linux.stamp(&wanted.path).await.unwrap(), stamp, "{case}");
            change();
            assert_ne!(linux.stamp(&wanted.path).await.unwrap(), stamp, "{case}");
            assert_eq!(linux.is_installed(&wanted).await.unwrap(), Some(*is_right), "{case}");
        }
        // Without what it was unpacked from nobody knows.
        linux.install(&wanted, LONG).await.unwrap();
        linux.keep_fetched(&BTreeSet::new()).await.unwrap();
        assert_eq!(linux.is_installed(&wanted).await.unwrap(), None);
        linux.remove_tree(&wanted.path).await.unwrap();
    }
    let file = local(root.path(), b"program", None);
    linux.install(&file, LONG).await.unwrap();
    let stamp = linux.stamp(&file.path).await.unwrap();
    assert_eq!(linux.is_installed(&file).await.unwrap(), Some(true));
    rewrite("", "Program");
    assert_ne!(linux.stamp(&file.path).await.unwrap(), stamp);
    assert_eq!(linux.is_installed(&file).await.unwrap(), Some(false));
    fs::remove_file(&place).unwrap();
    assert_eq!(linux.stamp(&file.path).await.unwrap(), None);
    assert_eq!(linux.is_installed(&file).await.unwrap(), Some(false));
}

#[tokio::test]
async fn what_is_in_the_way_stays() {
    let (root, linux) = machine();
    let bytes = gz(&archive(&[Item::File("a", b"1", 0o644)]));
    let tree = local(root.path(), &bytes, Some(Unpack::TarGz));
    fs::write(root.path().join("opt/it"), "a file").unwrap();
    assert!(matches!(linux.install(&tree, LONG).await, Err(MachineError::WrongKind { .. })));
    assert!(matches!(linux.remove_tree(&path("/opt/it")).await, Err(MachineError::WrongKind { .. })));
    assert_eq!(names(&root.path().join("opt")), ["it"]);
    fs::remove_file(root.path().join("opt/it")).unwrap();
    // A link on the way, and one in the place itself.
    let outside = TempDir::new().unwrap();
    symlink(outside.path(), root.path().join("opt/it")).unwrap();
    assert!(linux.install(&tree, LONG).await.is_err());
    assert!(linux.remove_tree(&path("/opt/it")).await.is_err());
    symlink(outside.path(), root.path().join("way")).unwrap();
    let through = Artifact { path: path("/way/it"), ..tree.clone() };
    assert!(matches!(linux.install(&through, LONG).await, Err(MachineError::Link(_))));
    assert!(matches!(linux.remove_tree(&path("/way/it")).await, Err(MachineError::Link(_))));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    // A tree is removed with the links in it, and without what they point to.
    fs::remove_file(root.path().join("opt/it")).unwrap();
    linux.install(&tree, LONG).await.unwrap();
    fs::write(outside.path().join("victim"), "safe").unwrap();
    symlink(outside.path(), root.path().join("opt/it/away")).unwrap();
    linux.remove_tree(&path("/opt/it")).await.unwrap();
    assert_eq!(fs::read_to_string(outside.path().join("victim")).unwrap(), "safe");
    assert_eq!(linux.inspect(&path("/opt/it")).await.unwrap(), Found::Nothing);
}

#[tokio::test]
async fn only_what_has_its_size_and_digest_is_taken() {
    let (root, linux) = machine();
    let wanted = local(root.path(), b"content", None);
    for (bytes, said) in
        [(&b"c0ntent"[..], "has the digest"), (b"content and more", "more than 7"), (b"cont", "4 of 7")]
    {
        fs::write(root.path().join("srv/it"), bytes).unwrap();
        let error = linux.install(&wanted, LONG).await.unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("file:///srv/it"), "{error}");
        assert_eq!(names(&root.path().join("opt")), [""; 0]);
    }
    fs::remove_file(root.path().join("srv/it")).unwrap();
    let error = linux.install(&wanted, LONG).await.unwrap_err();
    assert!(!error.is_transient(), "{error}");
}

#[tokio::test]
async fn servers_are_believed_by_the_authority_of_the_plan_alone() {
    let (root, linux) = machine();
    let content = vec![7; 400_000];
    let mirror = Mirror::start(&content).await;
    let stranger = Mirror::start(&content).await;
    let at = |mirror: &Mirror, ca: Option<&str>| {
        let url = format!("https://localhost:{}/it?token=s3cret", mirror.port);
        artifact(&content, vec![Source { ca: ca.map(str::to_owned), ..source(&url) }], None)
    };
    for wanted in [at(&mirror, None), at(&mirror, Some(&stranger.ca))] {
        let error = linux.install(&wanted, LONG).await.unwrap_err().to_string();
        assert!(error.contains("certificate") && !error.contains("s3cret"), "{error}");
        assert_eq!(names(&root.path().join("opt")), [""; 0]);
    }
    linux.install(&at(&mirror, Some(&mirror.ca)), LONG).await.unwrap();
    assert_eq!(fs::read(root.path().join("opt/it")).unwrap(), content);
    assert!(mirror.asked()[0].starts_with("GET /it?token=s3cret "), "{:?}", mirror.asked());
}

#[tokio::test]
async fn transient_responses_are_distinguished_from_permanent_ones() {
    let content = vec![7; 50_000];
    for (behaviour, transient, said) in [
        (Behaviour::Status("404 Not Found"), false, "404"),
        (Behaviour::Status("503 Service Unavailable"), true, "503"),
        (Behaviour::Status("429 Too Many Requests"), true, "429"),
        (
            Behaviour::Status("302 Found\r\nLocation: https://elsewhere/"),
            false,
            "redirections are not followed",
        ),
        (Behaviour::Other(vec![8; 50_000]), false, "has the digest"),
        (Behaviour::Other(vec![7; 60_000]), false, "would send 60000 bytes"),
        (Behaviour::CutAt(20_000), true, "https://localhost"),
    ] {
        let (root, linux) = machine();
        let mirror = Mirror::start(&content).await;
        mirror.behave(behaviour);
        let url = format!("https://localhost:{}/it", mirror.port);
        let sources = vec![Source { ca: Some(mirror.ca.clone()), ..source(&url) }];
        let wanted = artifact(&content, sources, None);
        let error = linux.install(&wanted, LONG).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error} should say {said}");
        assert_eq!(error.is_transient(), transient, "{error}");
        assert_eq!(names(&root.path().join("opt")), [""; 0]);
    }
}

#[tokio::test]
async fn a_download_goes_on_where_it_was_cut_off_and_at_the_next_source() {
    let (root, linux) = machine();
    let content: Vec<u8> = (0..500_000u32).map(|i| (i % 251) as u8).collect();
    let (first, second) = (Mirror::start(&content).await, Mirror::start(&content).await);
    let at = |mirror: &Mirror| {
        let url = format!("https://localhost:{}/it", mirror.port);
        Source { ca: Some(mirror.ca.clone()), ..source(&url) }
    };
    let wanted = artifact(&content, vec![at(&first), at(&second)], None);
    first.behave(Behaviour::CutAt(200_000));
    linux.install(&wanted, LONG).await.unwrap();
    assert_eq!(fs::read(root.path().join("opt/it")).unwrap(), content);
    let asked = second.asked();
    let range = asked[0].lines().find_map(|line| line.strip_prefix("range: bytes=")).unwrap().to_owned();
    let from: usize = range.trim_end_matches('-').parse().unwrap();
    assert!((1..=200_000).contains(&from), "{range}");

    // Somebody began with something else: it is noticed, and fetched from the beginning.
    let (root, linux) = machine();
    let liar = Mirror::start(&content).await;
    liar.behave(Behaviour::LieThenCutAt(200_000));
    let wanted = artifact(&content, vec![at(&liar), at(&second)], None);
    linux.install(&wanted, LONG).await.unwrap();
    assert_eq!(fs::read(root.path().join("opt/it")).unwrap(), content);
    // A server that knows no ranges begins anew as well.
    let (root, linux) = machine();
    let simple = Mirror::start(&content).await;
    simple.behave(Behaviour::NoRanges);
    first.behave(Behaviour::CutAt(200_000));
    let wanted = artifact(&content, vec![at(&first), at(&simple)], None);
    linux.install(&wanted, LONG).await.unwrap();
    assert_eq!(fs::read(root.path().join("opt/it")).unwrap(), content);
}

#[tokio::test]
async fn one_that_takes_too_long_is_given_up_and_leaves_nothing_in_its_place() {
    let (root, linux) = machine();
    let content = vec![7; 50_000];
    let mirror = Mirror::start(&content).await;
    mirror.behave(Behaviour::HangAt(10_000));
    let url = format!("https://localhost:{}/it", mirror.port);
    let wanted = artifact(&content, vec![Source { ca: Some(mirror.ca.clone()), ..source(&url) }], None);
    let error = linux.install(&wanted, Duration::from_millis(500)).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("too long"), "{error}");
    assert_eq!(names(&root.path().join("opt")), [""; 0]);
    mirror.behave(Behaviour::Good);
    linux.install(&wanted, LONG).await.unwrap();
}

/// A proxy that requires a password. Returns its port, and what it was asked.
async fn proxy() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let heard = Arc::clone(&heard);
            tokio::spawn(async move {
                let mut client = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    client.read_line(&mut head).await.unwrap();
                }
                heard.lock().unwrap().push(head.clone());
                // `user:hunter2`
                if !head.contains("Proxy-Authorization: Basic dXNlcjpodW50ZXIy\r\n") {
                    let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
                    return client.write_all(refusal).await.unwrap();
                }
                let server = head.split(' ').nth(1).unwrap();
                let mut server = TcpStream::connect(server).await.unwrap();
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
                // Ends with an error when one side hangs up.
                drop(tokio::io::copy_bidirectional(&mut client, &mut server).await);
            });
        }
    });
    (port, asked)
}

#[tokio::test]
async fn a_download_through_a_proxy_is_verified_by_the_machine() {
    let content = vec![7; 400_000];
    let mirror = Mirror::start(&content).await;
    let (port, asked) = proxy().await;
    let through = |password: Option<&str>, ca: &str| {
        let credentials = password.map(|password| ProxyCredentials {
            username: "user".to_owned(),
            password: SecretText::new(password),
        });
        let proxy = SourceProxy { address: format!("127.0.0.1:{port}").parse().unwrap(), credentials };
        let url = format!("https://localhost:{}/it", mirror.port);
        let source = Source { ca: Some(ca.to_owned()), proxy: Some(proxy), ..source(&url) };
        artifact(&content, vec![source], None)
    };
    let (root, linux) = machine();
    linux.install(&through(Some("hunter2"), &mirror.ca), LONG).await.unwrap();
    assert_eq!(fs::read(root.path().join("opt/it")).unwrap(), content);
    let first = asked.lock().unwrap()[0].clone();
    assert!(first.starts_with(&format!("CONNECT localhost:{} HTTP/1.1\r\n", mirror.port)), "{first}");
    assert_eq!(mirror.asked().len(), 1, "the proxy has passed it on");

    let stranger = Mirror::start(&content).await;
    for (wanted, said) in [
        (through(None, &mirror.ca), "status 407"),
        (through(Some("hunter3"), &mirror.ca), "status 407"),
        (through(Some("hunter2"), &stranger.ca), "certificate"),
    ] {
        let (root, linux) = machine();
        let error = linux.install(&wanted, LONG).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(said) && !text.contains("hunter") && !text.contains("dXNlc"), "{text}");
        assert!(error.is_transient(), "{text}");
        assert_eq!(names(&root.path().join("opt")), [""; 0]);
    }
}
