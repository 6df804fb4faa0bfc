//! Killed at any moment, the store has every write that was acknowledged, and no revision twice.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use capstan_apiserver::{Options, Storage};
use serde_json::json;
use support::{MAPS, Plane, map};

const FOLDER: &str = "CAPSTAN_CRASH_WRITER";
const ROUNDS: u64 = 5;

/// Not a test of its own: the process that is killed. Four tasks write and say what was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn writer() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let plane = Plane::open(Options { history: 50, ..Options::new(Storage::Folder(folder.into())) }).await;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..4 {
        let admin = plane.admin.clone();
        tasks.spawn(async move {
            for n in 0.. {
                let name = format!("t{task}-{}", n % 7);
                let mut object = map(&name);
                object["data"]["n"] = n.to_string().into();
                let (mut code, mut written) = admin.post(MAPS, &object).await;
                if code == 409 {
                    (code, written) =
                        admin.merge(&format!("{MAPS}/{name}"), &json!({"data": object["data"]})).await;
                }
                assert!(code == 200 || code == 201, "{written}");
                let revision = written["metadata"]["resourceVersion"].as_str().unwrap();
                // One write call: a line is whole or not there.
                let line = format!("acked {name} {revision} {n}\n");
                std::io::stdout().write_all(line.as_bytes()).unwrap();
            }
        });
    }
    tasks.join_next().await;
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    let seed = match std::env::var("CAPSTAN_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() % 1_000_000)
            .unwrap(),
    };
    eprintln!("CAPSTAN_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..ROUNDS {
        let pause = Duration::from_millis(
            300 + (seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round * 977)) % 700,
        );
        let acked = run_and_kill(folder.path(), pause);
        assert!(!acked.is_empty(), "round {round} wrote nothing in {pause:?} (seed {seed})");
        let plane =
            Plane::open(Options { history: 50, ..Options::new(Storage::Folder(folder.path().into())) }).await;
        let newest = acked.values().map(|(revision, _)| *revision).max().unwrap();
        assert!(acked.values().all(|(revision, _)| *revision > last), "a revision came back (seed {seed})");
        assert!(plane.server.revision() >= newest, "seed {seed}");
        for (name, (revision, n)) in &acked {
            let (code, found) = plane.admin.get(&format!("{MAPS}/{name}")).await;
            assert_eq!(code, 200, "{name} is lost (seed {seed})");
            let stored: u64 = found["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            // A later write may have been made and not acknowledged in time.
            assert!(
                stored > *revision || found["data"]["n"] == n.as_str(),
                "{name} is older than acknowledged (seed {seed})"
            );
            assert!(stored >= *revision, "{name} is older than acknowledged (seed {seed})");
        }
        last = plane.server.revision();
        plane.server.shutdown().await;
    }
}

/// What the writer acknowledged last for each name before it was killed.
fn run_and_kill(folder: &std::path::Path, pause: Duration) -> BTreeMap<String, (u64, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acked = BTreeMap::new();
    let mut note = |line: String| {
        let mut words = line.split_once("acked ").map_or("", |(_, rest)| rest).split(' ');
        if let (Some(name), Some(revision), Some(n)) = (words.next(), words.next(), words.next()) {
            acked.insert(name.to_owned(), (revision.parse().unwrap(), n.to_owned()));
        }
    };
    // The clock runs from the first acknowledgement: starting up takes longer on a busy machine.
    while let Some(Ok(line)) = lines.next() {
        let first = line.contains("acked ");
        note(line);
        if first {
            break;
        }
    }
    let id = child.id();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(pause);
        let status = Command::new("kill").args(["-KILL", &id.to_string()]).status().unwrap();
        assert!(status.success());
    });
    lines.map_while(Result::ok).for_each(&mut note);
    killer.join().unwrap();
    child.wait().unwrap();
    acked
}
