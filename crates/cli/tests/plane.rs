//! `capstan up` from outside: its output when it is ready and when it cannot start, its shutdown, and the restore of a
//! backup.

#![cfg(test)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn capstan() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.env_clear().env("RUST_BACKTRACE", "1").env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// A plane in this folder, on a free port.
fn up(data: &Path, more: &[&str]) -> Command {
    let mut command = capstan();
    command.args(["up", "--listen", "127.0.0.1:0", "--hooks-listen", "127.0.0.1:0", "--data-dir"]).arg(data);
    command.args(["--artifacts-listen", "127.0.0.1:0"]).args(more);
    command
}

const NO_CONTROLLERS: &[&str] = &["--controllers", "none"];

/// What a command that must fail complains of: one line, and not with success.
fn refused(mut command: Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    let complaint = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(complaint.starts_with("capstan: "), "{complaint}");
    complaint
}

fn done(mut command: Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    let stderr_text = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{stderr_text}");
    stderr_text
}

/// A plane that runs; dropping it kills it.
struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// All lines up to the one that says it is ready.
    said: Vec<String>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut running = Self { child, stderr, said: Vec::new() };
        while !running.said.last().is_some_and(|line| line.starts_with("ready: ")) {
            let mut line = String::new();
            let read = running.stderr.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended instead of starting: {:?}", running.said);
            running.said.push(line.trim_end().to_owned());
        }
        running
    }

    /// Stops it as a service manager would.
    fn stop(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let mut rest = String::new();
        while self.stderr.read_line(&mut rest).unwrap() > 0 {}
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn store(data: &Path) -> PathBuf {
    data.join("store/store.redb")
}

#[test]
fn ready_is_one_line_and_a_signal_stops_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let kubeconfig = folder.path().join("kubeconfig");
    for _ in 0..2 {
        let more = [NO_CONTROLLERS, &["--kubeconfig-out", kubeconfig.to_str().unwrap()]].concat();
        let plane = Running::start(up(&data, &more));
        assert_eq!(plane.said.len(), 1, "{:?}", plane.said);
        assert!(plane.said[0].contains("https://127.0.0.1:") && plane.said[0].contains("controllers: none"));
        assert!(kubeconfig.exists());
        plane.stop();
    }
}

#[test]
fn what_keeps_it_from_starting_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    Running::start(up(&data, NO_CONTROLLERS)).stop();

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = capstan();
    let listen = taken.local_addr().unwrap().to_string();
    command.args(["up", "--controllers", "none", "--listen", &listen, "--data-dir"]).arg(&data);
    let complaint = refused(command);
    assert!(complaint.contains(&listen) && complaint.contains("--listen"), "{complaint}");

    let running = Running::start(up(&data, NO_CONTROLLERS));
    let complaint = refused(up(&data, NO_CONTROLLERS));
    let process = format!("process {}", running.child.id());
    assert!(complaint.contains(&process) && complaint.contains("--data-dir"), "{complaint}");
    running.stop();

    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for unusable in [file.join("data"), file, PathBuf::from("/proc/capstan")] {
        let complaint = refused(up(&unusable, NO_CONTROLLERS));
        assert!(complaint.contains("--data-dir"), "{complaint}");
    }

    let sound = fs::read(store(&data)).unwrap();
    let mut scribbled = sound.clone();
    scribbled[..4096].fill(7);
    for damaged in [&sound[..sound.len() / 2], &scribbled, b"", b"not a store"] {
        fs::write(store(&data), damaged).unwrap();
        let complaint = refused(up(&data, NO_CONTROLLERS));
        assert!(complaint.contains("damaged") && complaint.contains("capstan restore"), "{complaint}");
        assert_eq!(fs::read(store(&data)).unwrap(), damaged, "it was touched");
    }
    fs::write(store(&data), &sound).unwrap();

    {
        const META: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
        let database = redb::Database::open(store(&data)).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert("format", 99).unwrap();
        transaction.commit().unwrap();
    }
    let newer = fs::read(store(&data)).unwrap();
    let complaint = refused(up(&data, NO_CONTROLLERS));
    assert!(complaint.contains("format 99") && complaint.contains("newer program"), "{complaint}");
    assert_eq!(fs::read(store(&data)).unwrap(), newer, "it was touched");

    // Nothing was damaged by any of it.
    fs::write(store(&data), &sound).unwrap();
    Running::start(up(&data, NO_CONTROLLERS)).stop();

    for wrong in [&["--listen", "here"][..], &["--controllers", "cor"], &["--no-such-flag"]] {
        let output = up(&data, wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: "), "{wrong:?}");
    }
}

fn backup(to: &Path, from: &[&str]) -> Command {
    let mut command = capstan();
    command.arg("backup").arg(to).args(from);
    command
}

fn restore(from: &Path, data: &Path, more: &[&str]) -> Command {
    let mut command = capstan();
    command.arg("restore").arg(from).arg("--data-dir").arg(data).args(more);
    command
}

#[test]
fn a_backup_brings_a_plane_back_and_its_controllers_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (data, restored) = (path("data"), path("restored"));
    let data_dir = ["--data-dir", data.to_str().unwrap()];
    let kubeconfig = path("kubeconfig");
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];

    assert!(refused(backup(&path("none"), &data_dir)).contains("no plane"));
    let more = [NO_CONTROLLERS, &["--kubeconfig-out", kubeconfig[1]]].concat();
    let plane = Running::start(up(&data, &more));
    let stderr = done(backup(&path("by-folder"), &data_dir));
    assert!(stderr.contains("objects") && stderr.contains("keep it safe"), "{stderr}");
    done(backup(&path("by-kubeconfig"), &kubeconfig));
    assert!(refused(backup(&path("by-kubeconfig"), &kubeconfig)).contains("by-kubeconfig"));
    assert!(refused(restore(&path("by-folder"), &data, &[])).contains("in use"));
    assert!(refused(restore(&path("by-folder"), &data, &["--force"])).contains("in use"));
    plane.stop();
    done(backup(&path("at-rest"), &data_dir));

    let whole = fs::read(path("at-rest")).unwrap();
    fs::write(path("cut"), &whole[..whole.len() - 10]).unwrap();
    assert!(refused(restore(&path("cut"), &restored, &[])).contains("not complete"));
    assert!(!restored.exists(), "nothing is begun with half a backup");

    for name in ["by-folder", "by-kubeconfig", "at-rest"] {
        let data = path(&format!("from-{name}"));
        let stderr = done(restore(&path(name), &data, &[]));
        assert!(stderr.contains("--resume-after-restore"), "{stderr}");
        assert_eq!(
            fs::read(data.join("pki/ca.key")).unwrap(),
            fs::read(path("data").join("pki/ca.key")).unwrap(),
            "machines know the plane by its authority"
        );
    }
    let restored = path("from-by-folder");
    let paused = Running::start(up(&restored, &[]));
    assert!(paused.said.iter().any(|line| line.contains("NO CONTROLLERS RUN")), "{:?}", paused.said);
    assert!(paused.said.last().unwrap().contains("controllers: none"), "{:?}", paused.said);
    paused.stop();
    let resumed = Running::start(up(&restored, &["--resume-after-restore"]));
    assert!(!resumed.said.last().unwrap().contains("controllers: none"), "{:?}", resumed.said);
    resumed.stop();
    let again = Running::start(up(&restored, &[]));
    assert!(!again.said.last().unwrap().contains("controllers: none"), "{:?}", again.said);
    again.stop();

    // Over a plane: refused, or moved aside.
    assert!(refused(restore(&path("at-rest"), &restored, &[])).contains("--force"));
    done(restore(&path("at-rest"), &restored, &["--force"]));
    let aside = fs::read_dir(&restored).unwrap().map(|entry| entry.unwrap().file_name());
    let aside: Vec<_> = aside.filter(|name| name.to_string_lossy().contains(".before-")).collect();
    assert_eq!(aside.len(), 2, "the store and the keys: {aside:?}");

    // Cut off half-way, it does not start.
    fs::write(restored.join("restored"), "unfinished\n").unwrap();
    assert!(refused(up(&restored, NO_CONTROLLERS)).contains("cut off"));
}

/// Every controller has a flag for its concurrency, under the name that its metrics have.
#[tokio::test(flavor = "multi_thread")]
async fn controllers_run_as_flags_say_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let controllers = [
        "capstanconfig",
        "capstancontrolplane",
        "cluster",
        "clusterclass",
        "clusterresourceset",
        "clusterresourcesetbinding",
        "clustertopology",
        "extensionconfig",
        "host",
        "hostcluster",
        "hostmachine",
        "hostmachinetemplate",
        "hostpool",
        "hostregistration",
        "machine",
        "machinedeployment",
        "machinehealthcheck",
        "machinepool",
        "machineset",
    ];
    let flags: Vec<String> =
        (3..).zip(controllers).map(|(number, name)| format!("--{name}-concurrency={number}")).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let plane = Running::start(up(&data, &flags));
    let file = kube::config::Kubeconfig::read_from(data.join("admin.kubeconfig")).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let name = "controller_runtime_max_concurrent_reconciles";
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    // Some begin only once others are there.
    let text = loop {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let text = client.request_text(request).await.unwrap();
        let begun = text.lines().filter(|line| line.starts_with(&format!("{name}{{"))).count();
        // Two more share the flags of MachineDeployments and MachineSets.
        if begun == controllers.len() + 2 {
            break text;
        }
        assert!(tokio::time::Instant::now() < deadline, "{begun} controllers:\n{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let number_of = |flag: &str| 3 + controllers.iter().position(|name| *name == flag).unwrap();
    let more = ["machinedeployment", "machineset"].map(|flag| (number_of(flag), format!("topology-{flag}")));
    for (number, controller) in (3..).zip(controllers.map(str::to_owned)).chain(more) {
        let line = format!("{name}{{controller=\"{controller}\"}} {number}");
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    for part in [
        "apiserver_request_total{",
        "rest_client_requests_total{",
        "capstan_cache_objects{kind=\"Machine\"} 0",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // All run, and have listed what they watch.
    let ready = "[+]ping ok\n[+]store ok\n[+]certificates ok\n[+]controllers ok\nreadyz check passed\n";
    loop {
        let request = http::Request::get("/readyz?verbose").body(Vec::new()).unwrap();
        match client.request_text(request).await {
            Ok(text) => break assert_eq!(text, ready),
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    plane.stop();
}

#[test]
fn a_lost_kubeconfig_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let issue = |file: &Path, life: &str| {
        let mut command = capstan();
        command.args(["admin", "kubeconfig", "--valid-for", life, "--data-dir"]).arg(&data);
        command.arg("--kubeconfig-out").arg(file);
        command
    };
    let lost = folder.path().join("lost.kubeconfig");
    let complaint = refused(issue(&lost, "12h"));
    assert!(complaint.contains("there is no embedded plane in") && !data.join("pki").exists(), "{complaint}");
    let _running = Running::start(up(&data, NO_CONTROLLERS));
    done(issue(&lost, "12h"));
    let with = |file: &Path, words: &[&str]| {
        let mut command = capstan();
        command.args(words).arg("--kubeconfig").arg(file);
        command
    };
    let asked = ["get", "hosts"];
    done(with(&lost, &asked));
    let own = data.join("admin.kubeconfig");
    let copy = folder.path().join("copy.kubeconfig");
    fs::copy(&own, &copy).unwrap();
    done(with(&lost, &["admin", "revoke", "--group", "system:masters"]));
    for file in [&lost, &copy] {
        let complaint = refused(with(file, &asked));
        assert!(complaint.contains("Unauthorized"), "{complaint}");
    }
    // At once, as in a script.
    let new = folder.path().join("new.kubeconfig");
    done(issue(&new, "30d"));
    done(with(&new, &asked));
    let Output { stdout, .. } = with(&new, &["admin", "revocations", "-o", "json"]).output().unwrap();
    let all: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!(all["revocations"][0]["name"], "system:masters");
    // The plane renews its own.
    let deadline = Instant::now() + Duration::from_secs(120);
    while !with(&own, &asked).output().unwrap().status.success() {
        assert!(Instant::now() < deadline, "the plane has not renewed its kubeconfig");
        std::thread::sleep(Duration::from_millis(200));
    }
}
