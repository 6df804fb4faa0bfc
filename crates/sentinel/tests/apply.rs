//! Plans applied to a folder that stands for `/`, with real commands.

#![cfg(test)]

use capstan_agent::SystemClock;
use capstan_agent::image::ImageReference;
use capstan_agent::machine::MachineError;
use capstan_agent::real::Linux;
use capstan_plan::Digest;
use capstan_sentinel::apply::{Applier, Pulled, Registry, Settings};
use capstan_sentinel::output::{Bytes, Periodics, Saved};
use capstan_sentinel::plan::Plan;
use capstan_sentinel::probe::Statuses;
use capstan_sentinel::progress::{Identity, Progress};
use capstan_sentinel::report::Outcome;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A registry with the images `example/there:v1` and `example/damaged:v1`, which lacks its last layer. Layers are in this folder.
struct Shelf(PathBuf);

impl Registry for Shelf {
    async fn pull(&self, image: &ImageReference) -> Result<Pulled, MachineError> {
        let last = match image.to_string().as_str() {
            "docker.io/example/there:v1" => None,
            "docker.io/example/damaged:v1" => Some(Digest::of(b"missing")),
            _ => {
                let reasons = "there is none".to_owned();
                return Err(MachineError::NotFetched { reasons, transient: false, is_full: false });
            }
        };
        let layer = layer("#!/bin/sh\necho from the image; pwd\n");
        fs::create_dir_all(&self.0).unwrap();
        fs::write(self.0.join(Digest::of(&layer).to_string()), &layer).unwrap();
        let layers = std::iter::once(Digest::of(&layer)).chain(last).collect();
        Ok(Pulled { folder: "/var/pulled".parse().unwrap(), layers })
    }

    async fn forget(&self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A tar archive with an executable file `run.sh`.
fn layer(script: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o755);
    header.set_size(script.len() as u64);
    builder.append_data(&mut header, "run.sh", script.as_bytes()).unwrap();
    builder.into_inner().unwrap()
}

struct Yard {
    root: TempDir,
    applier: Applier<Linux, Shelf>,
}

impl Yard {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let user = fs::metadata("/proc/self").unwrap();
        let settings = Settings {
            work: "/var/work".parse().unwrap(),
            state: "/var/work.capstan".parse().unwrap(),
            images: "/var/images".parse().unwrap(),
            preserves: false,
            root: root.path().to_owned(),
            environment: vec![
                ("PATH".to_owned(), std::env::var("PATH").unwrap()),
                ("INHERITED".to_owned(), "yes".to_owned()),
            ],
            owner: (user.uid(), user.gid()),
        };
        let shelf = Shelf(root.path().join("var/pulled"));
        let applier = Applier::new(Linux::rooted(root.path()).unwrap(), shelf, settings);
        Self { root, applier }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_default()
    }

    async fn run(&self, plan: &Value) -> Outcome {
        let bytes = plan.to_string().into_bytes();
        let plan = Plan::parse(&bytes).unwrap();
        self.applier.run(&identity(&bytes), &plan, 3, Saved::new(), Timestamp::now()).await.unwrap()
    }

    async fn ends_well(&self, plan: &Value) -> Outcome {
        let outcome = self.run(plan).await;
        assert!(outcome.succeeded, "{}", outcome.message);
        outcome
    }
}

fn identity(plan: &[u8]) -> Identity {
    Identity { source: "uid".to_owned(), checksum: Digest::of(plan), revision: None, attempt: Some(1) }
}

/// A file of this user, because only root may give files away.
fn file(fields: &Value) -> Value {
    let mut file = json!({"uid": -1, "gid": -1});
    fields.as_object().unwrap().iter().for_each(|(key, value)| file[key] = value.clone());
    file
}

fn sh(name: &str, script: &str) -> Value {
    json!({"name": name, "command": "sh", "args": ["-c", script], "saveOutput": true})
}

fn saved(outcome: &Outcome, name: &str) -> String {
    String::from_utf8(outcome.saved[name].0.clone()).unwrap()
}

#[tokio::test]
async fn files_are_written_changed_and_deleted() {
    let yard = Yard::new();
    let mode = |path: &str| fs::metadata(yard.at(path)).unwrap().permissions().mode() & 0o7777;
    let plan = json!({"files": [
        file(&json!({"path": "/etc/a/one", "content": "MQ=="})),
        file(&json!({"path": "/etc/a/two", "content": "Mg==", "permissions": "0644"})),
        file(&json!({"path": "/srv/x/y", "directory": true, "permissions": "0700"})),
        file(&json!({"path": "/srv/default", "directory": true})),
        file(&json!({"path": "/missing", "action": "delete"})),
        file(&json!({"path": "/missing", "action": "delete", "directory": true})),
    ]});
    yard.ends_well(&plan).await;
    assert_eq!((yard.read("/etc/a/one"), yard.read("/etc/a/two")), ("1".to_owned(), "2".to_owned()));
    let modes = ["/etc/a/one", "/etc/a/two", "/etc/a", "/srv/x/y", "/srv/x", "/srv/default"].map(mode);
    assert_eq!(modes, [0o600, 0o644, 0o755, 0o700, 0o700, 0o755]);

    // A file that is as wanted is not written: its inode stays. One with another mode gets its mode.
    let inode = |path: &str| fs::metadata(yard.at(path)).unwrap().ino();
    let before = inode("/etc/a/one");
    fs::set_permissions(yard.at("/etc/a/two"), fs::Permissions::from_mode(0o777)).unwrap();
    let again = json!({"files": plan["files"], "probes": {}});
    yard.ends_well(&again).await;
    assert_eq!((inode("/etc/a/one"), mode("/etc/a/two")), (before, 0o644));

    let plan = json!({"files": [
        file(&json!({"path": "/etc/a/one", "action": "delete"})),
        file(&json!({"path": "/srv", "action": "delete", "directory": true})),
    ]});
    yard.ends_well(&plan).await;
    assert!(!yard.at("/etc/a/one").exists() && !yard.at("/srv").exists());
}

#[tokio::test]
async fn links_of_the_own_user_are_followed_to_files_and_not_deleted() {
    let yard = Yard::new();
    fs::create_dir_all(yard.at("/data/rancher")).unwrap();
    fs::create_dir_all(yard.at("/var/lib")).unwrap();
    // Absolute links lead to the folder that stands for `/`.
    symlink("/data/rancher", yard.at("/var/lib/rancher")).unwrap();
    symlink("../../data/rancher/target", yard.at("/var/lib/link")).unwrap();
    let plan = json!({"files": [
        file(&json!({"path": "/var/lib/rancher/k3s/a", "content": "MQ=="})),
        file(&json!({"path": "/var/lib/link", "content": "Mg=="})),
    ]});
    yard.ends_well(&plan).await;
    assert_eq!(yard.read("/data/rancher/k3s/a"), "1");
    assert_eq!(yard.read("/data/rancher/target"), "2");
    assert!(fs::symlink_metadata(yard.at("/var/lib/link")).unwrap().is_symlink());
    let outcome =
        yard.run(&json!({"files": [file(&json!({"path": "/var/lib/link", "action": "delete"}))]})).await;
    assert!(
        !outcome.succeeded && outcome.message.starts_with("files[0]: /var/lib/link is a symbolic link"),
        "{}",
        outcome.message
    );
    symlink("loop", yard.at("/var/lib/loop")).unwrap();
    let outcome =
        yard.run(&json!({"files": [file(&json!({"path": "/var/lib/loop", "content": "Mg=="}))]})).await;
    assert!(!outcome.succeeded && outcome.message.contains("/var/lib/loop"), "{}", outcome.message);
}

#[tokio::test]
async fn a_plan_with_an_invalid_value_changes_nothing() {
    let yard = Yard::new();
    for (file, field) in [
        (json!({"path": "relative"}), "files[1].path"),
        (json!({"path": "/b", "permissions": "x"}), "files[1].permissions"),
    ] {
        let plan = json!({
            "files": [{"path": "/a", "uid": -1, "gid": -1}, file], "instructions": [sh("i", "exit 0")],
        });
        let outcome = yard.run(&plan).await;
        assert!(!outcome.succeeded && outcome.message.starts_with(field), "{}", outcome.message);
        assert!(!yard.at("/a").exists());
    }
    for (image, expected) in [
        (
            "example/installer:v1",
            "no archive in /var/images contains docker.io/example/installer:v1, and cannot fetch it: there is none",
        ),
        ("a b", "it is not the name of an image"),
    ] {
        let message = yard.run(&json!({"instructions": [{"name": "i", "image": image}]})).await.message;
        assert_eq!(message, format!("instructions[0] (i): image: {expected}"));
    }
}

#[tokio::test]
async fn what_was_unpacked_of_an_image_that_cannot_be_used_is_removed() {
    let yard = Yard::new();
    let plan = json!({"instructions": [{"name": "i", "image": "example/damaged:v1"}]});
    let message = yard.run(&plan).await.message;
    assert!(message.contains("is missing"), "{message}");
    let runs = fs::read_dir(yard.at("/var/work")).unwrap().map(|run| run.unwrap().path());
    let left = runs.flat_map(|run| fs::read_dir(run).unwrap()).map(|entry| entry.unwrap().path());
    assert_eq!(left.collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn an_image_that_no_archive_contains_comes_from_the_registry() {
    let yard = Yard::new();
    let plan = json!({"instructions": [{"name": "i", "image": "example/there:v1", "saveOutput": true}]});
    let outcome = yard.ends_well(&plan).await;
    let printed = saved(&outcome, "i");
    let (said, folder) = printed.split_once('\n').unwrap();
    assert_eq!(said, "from the image");
    assert!(PathBuf::from(folder.trim()).join("run.sh").exists());
    assert!(!yard.at("/var/pulled").exists(), "what was downloaded is removed");
}

#[tokio::test]
async fn instructions_run_one_after_the_other_with_their_surroundings() {
    let yard = Yard::new();
    let show = "pwd; echo $CATTLE_AGENT_EXECUTION_PWD; echo $CATTLE_AGENT_ATTEMPT_NUMBER $GIVEN $INHERITED; \
                case $PATH in *:$PWD) echo suffix;; esac; echo err >&2; echo out";
    let mut first = sh("first", show);
    first["env"] = json!(["GIVEN=a=b"]);
    let mut quiet = sh("quiet", "echo quiet");
    quiet["saveOutput"] = json!(false);
    let plan = json!({"instructions": [first, quiet, sh("", "echo unnamed"), sh("last", "true")]});
    let outcome = yard.ends_well(&plan).await;
    let lines = saved(&outcome, "first");
    let lines: Vec<&str> = lines.lines().collect();
    let folder = yard.root.path().canonicalize().unwrap().join("var/work");
    assert!(lines[0].starts_with(folder.to_str().unwrap()) && lines[0].ends_with("_0"), "{lines:?}");
    assert_eq!(lines[1..], [lines[0], "3 a=b yes", "suffix", "err", "out"]);
    assert_eq!(outcome.saved.keys().collect::<Vec<_>>(), ["first", "last"]);

    let plan = json!({"instructions": [
        sh("ok", "true"), sh("bad", "echo evidence; echo why >&2; exit 7"), sh("never", "true"),
    ], "periodicInstructions": []});
    let outcome = yard.run(&plan).await;
    assert!(!outcome.succeeded);
    assert_eq!(saved(&outcome, "bad"), "evidence\nwhy\n");
    assert_eq!(outcome.message, "instructions[1] (bad): it exited with 7\nevidence\nwhy\n");
    assert!(!outcome.saved.contains_key("never"));
}

#[tokio::test]
async fn a_command_that_cannot_be_started_or_is_killed_has_failed() {
    let yard = Yard::new();
    for (command, args, message) in [
        ("/does/not/exist", json!([]), "instructions[0] (i): cannot start /does/not/exist"),
        ("", json!([]), "run.sh"),
        ("sh", json!(["-c", "kill -9 $$"]), "it was ended by signal 9"),
        ("sh", json!(["x".repeat(40_000)]), "command and args"),
    ] {
        let plan = json!({"instructions": [{"name": "i", "command": command, "args": args}]});
        let outcome = yard.run(&plan).await;
        assert!(!outcome.succeeded && outcome.message.contains(message), "{}", outcome.message);
    }
}

#[tokio::test]
async fn much_output_and_long_lines_do_not_block() {
    let yard = Yard::new();
    let plan = json!({"instructions": [
        sh("much", "echo begin; yes 0123456789012345678901234567890123456789 | head -c 10000000; echo end"),
        sh("line", "head -c 1000000 /dev/zero | tr '\\0' x >&2; echo end"),
    ]});
    let outcome = yard.ends_well(&plan).await;
    let much = saved(&outcome, "much");
    assert!(much.starts_with("begin\n") && much.ends_with("end\n") && much.contains("bytes left out]"));
    assert!(much.len() < 600_000, "{}", much.len());
    let line = saved(&outcome, "line");
    assert!(line.starts_with("xxxx") && line.ends_with("xxxend\n"), "{}", line.len());
}

#[tokio::test]
async fn a_service_that_keeps_the_output_open_is_not_waited_for() {
    let yard = Yard::new();
    let flag = yard.at("/go").display().to_string();
    let script = format!("(while [ ! -e {flag} ]; do sleep 0.05; done) & echo started");
    let outcome = yard.ends_well(&json!({"instructions": [sh("daemon", &script)]})).await;
    assert_eq!(saved(&outcome, "daemon"), "started\n");
    fs::write(yard.at("/go"), "").unwrap();
}

#[tokio::test]
async fn a_run_continues_where_an_earlier_process_has_ended() {
    let yard = Yard::new();
    let log = yard.at("/log").display().to_string();
    let append = |name: &str| sh(name, &format!("echo {name} >> {log}"));
    let plan = json!({"files": [file(&json!({"path": "/f", "content": "MQ=="}))],
        "instructions": [append("a"), append("b"), append("c")]});
    let bytes = plan.to_string().into_bytes();
    let state = yard.at("/var/work.capstan");
    fs::create_dir_all(&state).unwrap();
    let path = state.join(format!("progress-{}.json", Digest::of(b"uid").short()));
    let before = Saved::from([("a".to_owned(), Bytes(b"of a".to_vec()))]);
    let progress = Progress { done: 1, ..Progress::new(identity(&bytes), Timestamp::now(), 5, before) };
    fs::write(&path, progress.to_bytes()).unwrap();
    let outcome = yard.ends_well(&plan).await;
    assert_eq!(yard.read("/log"), "b\nc\n");
    assert_eq!((saved(&outcome, "a"), outcome.saved.len()), ("of a".to_owned(), 3));
    // It has ended, and is not reported: nothing runs.
    assert_eq!(yard.run(&plan).await, outcome);
    assert_eq!(yard.read("/log"), "b\nc\n");
    yard.applier.forget(&identity(&bytes)).await.unwrap();
    assert!(!path.exists());
    yard.ends_well(&plan).await;
    assert_eq!(yard.read("/log"), "b\nc\na\nb\nc\n");
    // Progress of another run is of no use, and neither is damaged progress.
    for other in [&b"{"[..], &progress.to_bytes()] {
        fs::write(&path, other).unwrap();
        fs::remove_file(yard.at("/log")).unwrap();
        let other = json!({"instructions": [append("a")], "probes": {}});
        yard.ends_well(&other).await;
        assert_eq!(yard.read("/log"), "a\n");
        yard.applier.forget(&identity(other.to_string().as_bytes())).await.unwrap();
        fs::write(yard.at("/log"), "").unwrap();
    }
}

#[tokio::test]
async fn execution_folders_are_removed_with_the_next_plan() {
    let yard = Yard::new();
    let plan = |name: &str| json!({"instructions": [sh(name, "echo > left; pwd")]});
    let folder = saved(&yard.ends_well(&plan("a")).await, "a");
    let left = PathBuf::from(folder.trim()).join("left");
    assert!(left.exists());
    yard.ends_well(&plan("b")).await;
    assert!(!left.exists());
}

#[tokio::test]
async fn a_periodic_instruction_that_fails_does_not_starve_the_others() {
    let yard = Yard::new();
    let plan = json!({"periodicInstructions": [
        {"name": "bad", "command": "sh", "args": ["-c", "echo out; echo err >&2; exit 3"], "saveStderrOutput": true},
        {"command": "sh", "args": ["-c", "echo without a name > /dev/null"]},
        {"name": "good", "command": "sh", "args": ["-c", "echo $CATTLE_AGENT_ATTEMPT_NUMBER; echo err >&2"]},
        {"name": "missing", "command": "/does/not/exist", "saveStderrOutput": true},
    ]});
    let plan = Plan::parse(plan.to_string().as_bytes()).unwrap();
    let (sum, now) = (Digest::of(b""), Timestamp::now());
    let stale = Periodics::from([("of another plan".to_owned(), Default::default())]);
    let (first, next) = yard.applier.periodics(&plan, &sum, &stale, false, now).await;
    assert_eq!(first.keys().collect::<Vec<_>>(), ["bad", "good", "missing"]);
    let text = |bytes: &Bytes| String::from_utf8(bytes.0.clone()).unwrap();
    let (bad, good, missing) = (&first["bad"], &first["good"], &first["missing"]);
    assert_eq!(
        (text(&bad.stdout), text(&bad.stderr), bad.exit_code, bad.failures),
        ("out\n".into(), "err\n".into(), 3, 1)
    );
    assert_eq!((text(&good.stdout), text(&good.stderr), good.exit_code), ("1\n".into(), String::new(), 0));
    assert_eq!(missing.exit_code, -1);
    assert!(text(&missing.stderr).contains("/does/not/exist"));
    let due = next.unwrap().duration_since(now).as_secs();
    assert!((29..=30).contains(&due), "{due}");
    // Nothing is due, until the plan is applied again.
    let (second, _) = yard.applier.periodics(&plan, &sum, &first, false, now).await;
    assert_eq!(second, first);
    let (third, _) = yard.applier.periodics(&plan, &sum, &first, true, now).await;
    assert_eq!(third["bad"].failures, 2);
    assert!(!yard.at("/var/work").exists() || fs::read_dir(yard.at("/var/work")).unwrap().count() == 0);
}

/// Answers every request by its path.
async fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let head = match request.split(' ').nth(1).unwrap() {
                "/ok" => "200 OK\r\n".to_owned(),
                "/here" => "302 Found\r\nLocation: /ok\r\n".to_owned(),
                "/loop" => "302 Found\r\nLocation: /loop\r\n".to_owned(),
                "/there" => "302 Found\r\nLocation: http://localhost.invalid/ok\r\n".to_owned(),
                _ => "500 Oops\r\n".to_owned(),
            };
            let answer = format!("HTTP/1.1 {head}Content-Length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    port
}

#[tokio::test]
async fn probes_count_only_answers_of_success() {
    let yard = Yard::new();
    let port = server().await;
    let get = |path: &str| json!({"timeoutSeconds": 30, "httpGet": {"url": format!("http://127.0.0.1:{port}{path}")}});
    let plan = json!({"probes": {
        "ok": get("/ok"), "here": get("/here"), "there": get("/there"), "loop": get("/loop"), "error": get("/error"),
        "closed": {"httpGet": {"url": "http://127.0.0.1:1/ok"}}, "none": {},
        "https": {"timeoutSeconds": 30, "httpGet": {"url": format!("https://127.0.0.1:{port}/ok"), "insecure": true}},
    }});
    let plan = Plan::parse(plan.to_string().as_bytes()).unwrap();
    let mut statuses = Statuses::from([("gone".to_owned(), Default::default())]);
    for _ in 0..3 {
        statuses = yard.applier.probe(&plan, &statuses, false, &SystemClock).await;
    }
    let counts: Vec<_> = statuses
        .iter()
        .map(|(name, status)| (name.as_str(), status.healthy, status.success_count, status.failure_count))
        .collect();
    let expected = [
        ("closed", false, 0, 3),
        ("error", false, 0, 3),
        ("here", true, 1, 0),
        ("https", false, 0, 3),
        ("loop", false, 0, 3),
        ("none", false, 0, 3),
        ("ok", true, 1, 0),
        ("there", false, 0, 3),
    ];
    assert_eq!(counts, expected);
}
