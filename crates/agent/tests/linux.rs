//! The machine that exists, in temporary folders and with real programs.

use crate::support::{owner, path};
use capstan_agent::Machine;
use capstan_agent::machine::{Exit, Found, Invocation, MachineError, Metadata, Ran};
use capstan_agent::real::Linux;
use capstan_plan::{Argv, EnvVar, HttpUrl};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn machine() -> (TempDir, Linux) {
    let root = TempDir::new().unwrap();
    let linux = Linux::rooted(root.path()).unwrap();
    (root, linux)
}

fn mine(mode: u32) -> Metadata {
    let (owner, group) = owner();
    Metadata { mode, owner, group }
}

async fn sh(script: &str, env: &[EnvVar], timeout: Duration) -> Ran {
    let argv = Argv::new(["sh", "-c", script]).unwrap();
    Linux::new().unwrap().run(Invocation { argv: &argv, env, timeout, key: None }).await.unwrap()
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn files_are_written_read_and_removed() {
    let (root, linux) = machine();
    let at = path("/config");
    assert_eq!(linux.inspect(&at).await.unwrap(), Found::Nothing);
    linux.write(&at, b"one", mine(0o640)).await.unwrap();
    assert_eq!(linux.inspect(&at).await.unwrap(), Found::File { metadata: mine(0o640), size: 3 });
    // Whoever has the old file open goes on reading the old file.
    let old = fs::File::open(root.path().join("config")).unwrap();
    linux.write(&at, b"three", mine(0o4711)).await.unwrap();
    assert_eq!(std::io::read_to_string(old).unwrap(), "one");
    assert_eq!(linux.read(&at, 5).await.unwrap(), b"three");
    assert_eq!(linux.inspect(&at).await.unwrap(), Found::File { metadata: mine(0o4711), size: 5 });
    assert!(matches!(linux.read(&at, 4).await, Err(MachineError::TooLarge { size: 5, .. })));
    linux.remove_file(&at).await.unwrap();
    linux.remove_file(&at).await.unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "nothing is left, no temporary file either");
}

#[tokio::test]
async fn folders_are_made_changed_and_removed() {
    let (_root, linux) = machine();
    let (a, b) = (path("/a"), path("/a/b"));
    let missing = linux.make_directory(&b, mine(0o755)).await.unwrap_err();
    assert!(!missing.is_transient(), "{missing}");
    linux.make_directory(&a, mine(0o750)).await.unwrap();
    linux.make_directory(&a, mine(0o2755)).await.unwrap();
    assert_eq!(linux.inspect(&a).await.unwrap(), Found::Directory { metadata: mine(0o2755) });
    linux.write(&b, b"", mine(0o600)).await.unwrap();
    assert!(matches!(linux.remove_directory(&a).await, Err(MachineError::NotEmpty(_))));
    assert!(matches!(linux.remove_directory(&b).await, Err(MachineError::WrongKind { .. })));
    assert!(matches!(linux.remove_file(&a).await, Err(MachineError::WrongKind { .. })));
    assert!(matches!(linux.make_directory(&b, mine(0o755)).await, Err(MachineError::WrongKind { .. })));
    assert!(matches!(linux.inspect(&path("/a/b/c")).await, Err(MachineError::WrongKind { .. })));
    linux.remove_file(&b).await.unwrap();
    linux.remove_directory(&a).await.unwrap();
    linux.remove_directory(&a).await.unwrap();
    linux.remove_file(&b).await.unwrap();
}

#[tokio::test]
async fn links_are_not_followed() {
    let (root, linux) = machine();
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("victim"), "safe").unwrap();
    symlink(outside.path(), root.path().join("way")).unwrap();
    symlink(outside.path().join("victim"), root.path().join("end")).unwrap();
    for at in ["/way/victim", "/way/new"] {
        for error in [
            linux.write(&path(at), b"gotcha", mine(0o644)).await.unwrap_err(),
            linux.remove_file(&path(at)).await.unwrap_err(),
            linux.make_directory(&path(at), mine(0o755)).await.unwrap_err(),
            linux.read(&path(at), 10).await.unwrap_err(),
            linux.inspect(&path(at)).await.unwrap_err(),
        ] {
            assert!(matches!(&error, MachineError::Link(link) if *link == path("/way")), "{error}");
            assert!(!error.is_transient());
        }
    }
    assert_eq!(linux.inspect(&path("/end")).await.unwrap(), Found::Other("a symbolic link"));
    assert!(linux.read(&path("/end"), 10).await.is_err());
    assert!(linux.remove_file(&path("/end")).await.is_err());
    assert!(linux.make_directory(&path("/end"), mine(0o755)).await.is_err());
    // Written over, the link itself goes, and what it pointed to stays.
    linux.write(&path("/end"), b"new", mine(0o644)).await.unwrap();
    assert_eq!(fs::read_to_string(outside.path().join("victim")).unwrap(), "safe");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn what_a_crash_left_behind_is_cleaned_up() {
    let (root, linux) = machine();
    linux.write(&path("/a"), b"x", mine(0o600)).await.unwrap();
    // The name of the temporary file is the same each time: find it by making the rename fail.
    fs::create_dir(root.path().join("b")).unwrap();
    fs::write(root.path().join("b/child"), "").unwrap();
    assert!(linux.write(&path("/b"), b"x", mine(0o600)).await.is_err());
    let names = || -> Vec<_> { fs::read_dir(root.path()).unwrap().map(|e| e.unwrap().file_name()).collect() };
    assert_eq!(names().len(), 2, "{:?}", names());
    let leftover = root.path().join(format!(".capstan-{}.tmp", capstan_plan::Digest::of(b"a").short()));
    fs::write(&leftover, "half").unwrap();
    linux.write(&path("/a"), b"y", mine(0o600)).await.unwrap();
    assert!(!leftover.exists());
    fs::write(&leftover, "half").unwrap();
    linux.remove_file(&path("/a")).await.unwrap();
    assert!(!leftover.exists());
}

#[tokio::test]
async fn a_pipe_in_the_way_makes_nobody_wait() {
    let (root, linux) = machine();
    let fifo = root.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert_eq!(linux.inspect(&path("/fifo")).await.unwrap(), Found::Other("a pipe"));
    let read = tokio::time::timeout(LONG, linux.read(&path("/fifo"), 10)).await.unwrap();
    assert!(matches!(read, Err(MachineError::WrongKind { .. })));
}

#[tokio::test]
async fn programs_end_with_their_code_and_both_outputs() {
    let ran = sh("echo out; echo err >&2; exit 3", &[], LONG).await;
    assert_eq!(ran.exit, Exit::Code(3));
    assert_eq!((&ran.stdout.head[..], &ran.stderr.head[..]), (&b"out\n"[..], &b"err\n"[..]));
    assert_eq!(sh("kill -9 $$", &[], LONG).await.exit, Exit::Signal(9));
    let missing = Argv::new(["/no/such/program"]).unwrap();
    let linux = Linux::new().unwrap();
    let error =
        linux.run(Invocation { argv: &missing, env: &[], timeout: LONG, key: None }).await.unwrap_err();
    assert!(!error.is_transient());
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

#[tokio::test]
async fn programs_see_the_variables_of_the_plan_and_no_others() {
    let env = [EnvVar::new("MODE", "server"), EnvVar::secret("TOKEN", "a b\nc")];
    let argv = Argv::new(["/usr/bin/env", "-0"]).unwrap();
    let ran = Linux::new()
        .unwrap()
        .run(Invocation { argv: &argv, env: &env, timeout: LONG, key: None })
        .await
        .unwrap();
    let text = String::from_utf8(ran.stdout.head).unwrap();
    let mut variables: Vec<&str> = text.split_terminator('\0').collect();
    variables.sort_unstable();
    assert_eq!(variables.len(), 3, "{variables:?}");
    assert_eq!(variables[0], "MODE=server");
    assert!(variables[1].starts_with("PATH=/usr/local/sbin:"));
    assert_eq!(variables[2], "TOKEN=a b\nc");
}

#[tokio::test]
async fn a_line_of_any_length_makes_nobody_wait() {
    let script =
        "printf begin; head -c 3000000 /dev/zero | tr '\\0' x; printf end; head -c 200000 /dev/zero >&2";
    let ran = sh(script, &[], LONG).await;
    assert_eq!(ran.exit, Exit::Code(0));
    assert!(ran.stdout.head.starts_with(b"beginxxx"));
    assert!(ran.stdout.tail.ends_with(b"xxxend"));
    assert_eq!(ran.stdout.omitted, 3_000_008 - 8192);
    assert_eq!(ran.stderr.omitted, 200_000 - 8192);
}

/// Whether a process runs: one that has ended and waits for its parent does not.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

async fn gone(pid: &str) -> bool {
    for _ in 0..200 {
        if !is_running(pid) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    false
}

fn pid(ran: &Ran) -> String {
    String::from_utf8(ran.stdout.head.clone()).unwrap().lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn a_service_that_was_left_behind_delays_nothing_and_lives_on() {
    let linux = Linux::new().unwrap();
    // It goes on printing into a pipe that nobody is interested in.
    let script = "(while :; do echo noise; sleep 0.02; done) & echo $! >&2";
    let argv = Argv::new(["sh", "-c", script]).unwrap();
    let begin = Instant::now();
    let ran = linux.run(Invocation { argv: &argv, env: &[], timeout: LONG, key: None }).await.unwrap();
    assert_eq!(ran.exit, Exit::Code(0));
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    let service = String::from_utf8(ran.stderr.head).unwrap().trim().to_owned();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(is_running(&service), "it was ended by its output");
    assert!(std::process::Command::new("kill").arg(&service).status().unwrap().success());
    assert!(gone(&service).await);
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_ended_with_its_children() {
    let begin = Instant::now();
    let ran = sh("sleep 300 & echo $!; wait", &[], Duration::from_secs(1)).await;
    assert_eq!(ran.exit, Exit::TimedOut);
    assert!(gone(&pid(&ran)).await);
    // One that does not listen is ended all the same.
    let ran = sh("trap '' TERM; echo $$; while :; do sleep 1; done", &[], Duration::from_secs(1)).await;
    assert_eq!(ran.exit, Exit::TimedOut);
    assert!(gone(&pid(&ran)).await);
    assert!(begin.elapsed() < Duration::from_secs(40), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_program_whose_future_is_dropped_is_ended() {
    let note = TempDir::new().unwrap();
    let file = note.path().join("pid");
    let script = format!("echo $$ > {}; sleep 300", file.display());
    let running = tokio::spawn(async move { sh(&script, &[], LONG).await });
    let pid = loop {
        match fs::read_to_string(&file) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    assert!(is_running(&pid));
    running.abort();
    assert!(gone(&pid).await);
}

async fn answering(answer: &'static [u8]) -> HttpUrl {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let length = stream.read(&mut request).await.unwrap();
        assert!(request[..length].starts_with(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:"));
        stream.write_all(answer).await.unwrap();
        // Held open: only the status is waited for.
        tokio::time::sleep(LONG).await;
    });
    HttpUrl::new(format!("http://127.0.0.1:{port}/healthz")).unwrap()
}

#[tokio::test]
async fn responses_over_http_are_read() {
    let linux = Linux::new().unwrap();
    let ok = answering(b"HTTP/1.1 200 OK\r\n").await;
    assert_eq!(linux.get(&ok, LONG).await.unwrap(), 200);
    let away = answering(b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n").await;
    assert_eq!(linux.get(&away, LONG).await.unwrap(), 302);
    let odd = answering(b"SSH-2.0-OpenSSH\r\n").await;
    assert!(linux.get(&odd, LONG).await.is_err());
    let mute = answering(b"").await;
    let error = linux.get(&mute, Duration::from_millis(200)).await.unwrap_err();
    assert!(error.to_string().contains("no answer in time") && error.is_transient(), "{error}");
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        HttpUrl::new(format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port())).unwrap()
    };
    assert!(linux.get(&closed, LONG).await.unwrap_err().is_transient());
}

#[tokio::test]
async fn modes_of_files_do_not_depend_on_the_umask_of_the_agent() {
    let (root, linux) = machine();
    linux.write(&path("/a"), b"", mine(0o777)).await.unwrap();
    linux.make_directory(&path("/b"), mine(0o777)).await.unwrap();
    for name in ["a", "b"] {
        let mode = fs::metadata(root.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o777);
    }
}
