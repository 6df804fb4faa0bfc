//! Searches for planted secrets everywhere a person could see them.

use capstan_infrastructure::{BootstrapData, BootstrapState, HostDriver as _, ResetState};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

use crate::server::Server;
use crate::yard::{Yard, secret};

/// As they would be in real data: a token, a password, a key.
const PLANTED: [&str; 4] =
    ["pl4nted.t0kenpl4nted0k", "pl4nted-passw0rd-1234", "pl4ntedKeyM4terial99", "pl4nted-sudo-w0rd-77"];

/// Everything that is logged, at any level, by anybody.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Reads the arguments of all processes until it is told to stop, and gives those with a planted value in them.
fn watch_arguments(stop: Arc<AtomicBool>) -> std::thread::JoinHandle<(usize, Vec<String>)> {
    std::thread::spawn(move || {
        let (mut looks, mut found) = (0, Vec::new());
        while !stop.load(Ordering::Relaxed) {
            looks += 1;
            for entry in std::fs::read_dir("/proc").unwrap().flatten() {
                let Ok(words) = std::fs::read(entry.path().join("cmdline")) else { continue };
                let words = String::from_utf8_lossy(&words).replace('\0', " ");
                if PLANTED.iter().any(|planted| words.contains(planted)) {
                    found.push(words);
                }
            }
        }
        (looks, found)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_seen_anywhere() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = watch_arguments(Arc::clone(&stop));

    let yard = Yard::new(Server::start());
    let mut credential =
        secret(&[("ssh-privatekey", &yard.server.client_key), ("sudo-password", PLANTED[3])]);
    *yard.book.secret.lock().unwrap() = Some(credential.clone());
    let [token, password, key, _] = PLANTED;
    // It prints all it was given, in all ways, and fails.
    let data = format!(
        "#cloud-config\nwrite_files:\n- path: /etc/agent.json\n  permissions: '0600'\n  content: '{{\"token\":\"{token}\"}}'\n\
         - path: /etc/key\n  content: |\n    password: {password}\n    {key}\n\
         users:\n- {{name: nobody, passwd: {key}}}\n\
         runcmd:\n- cat {root}/etc/agent.json {root}/etc/key\n- set -x\n- read -r line < {root}/etc/key\n- echo \"$line\" >&2\n- exit 3\n",
        root = yard.root()
    );
    let data = BootstrapData { value: data.into_bytes(), format: "cloud-config".to_owned() };
    let driver = yard.driver();
    for program in ["useradd", "usermod", "chpasswd"] {
        let path = yard.at(&format!("/usr/local/bin/{program}"));
        std::fs::write(&path, "#!/bin/sh\nexec sleep 0.2\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let state = yard.carried_out(&driver, &data).await;
    let BootstrapState::Failed(failure) = &state else { panic!("{state:?}") };
    assert!(failure.last_lines.iter().any(|line| line.contains("[redacted]")), "{failure:?}");
    let mut output = format!("{state:?} {data:?} {:?}", driver.check(&yard.host()).await);
    output += &format!("{:?}", yard.given_back(&driver).await);

    // And what goes wrong with credentials.
    for (name, value) in [("ssh-privatekey", key), ("passphrase", password), ("password", password)] {
        credential.remove("ssh-privatekey");
        credential.insert(name.to_owned(), value.as_bytes().to_vec());
        *yard.book.secret.lock().unwrap() = Some(credential.clone());
        let error = yard.driver().facts(&yard.host()).await.unwrap_err();
        output += &format!("{error} {error:?}");
    }
    stop.store(true, Ordering::Relaxed);
    let (looks, found) = watcher.join().unwrap();
    assert!(looks > 10 && found.is_empty(), "in arguments, after {looks} looks: {found:?}");
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("connected"), "the log is not looked at: {logged}");
    for planted in PLANTED {
        assert!(!output.contains(planted), "{output}");
        assert!(!logged.contains(planted), "{logged}");
    }
    assert!(yard.at("/etc").read_dir().unwrap().next().is_none(), "nothing is left on the host");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_secret_does_not_stay_on_the_host() {
    let yard = Yard::new(Server::start());
    let data = format!(
        "#cloud-config\nwrite_files:\n- {{path: /run/x, content: {}}}\nruncmd: [[echo, hi]]\n",
        PLANTED[0]
    );
    let data = BootstrapData { value: data.into_bytes(), format: "cloud-config".to_owned() };
    let driver = yard.driver();
    assert_eq!(yard.carried_out(&driver, &data).await, BootstrapState::Done);
    let grep =
        std::process::Command::new("grep").args(["-rlF", PLANTED[0]]).arg(yard.at("/var")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&grep.stdout), "", "the claim's folder keeps it");
    assert_eq!(yard.given_back(&driver).await, ResetState::Clean);
}
