//! The SSH server of a test.

use russh::keys::key::safe_rng;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, EcdsaCurve, PrivateKey, PublicKey};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SSHD: &str = "/usr/sbin/sshd";
const DEADLINE: Duration = Duration::from_secs(20);

/// A running server, and the folder it lives in.
pub(crate) struct Server {
    folder: TempDir,
    pub(crate) port: u16,
    /// What it shows.
    pub(crate) host_key: PublicKey,
    /// What it lets in.
    pub(crate) client_key: String,
    /// Who it lets in.
    pub(crate) user: String,
    child: Option<Child>,
}

pub(crate) fn ed25519() -> PrivateKey {
    PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap()
}

pub(crate) fn openssh(key: &PrivateKey) -> String {
    key.to_openssh(LineEnding::LF).unwrap().to_string()
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with("", &ed25519())
    }

    /// With more lines for its configuration.
    pub(crate) fn start_with(config: &str, host_key: &PrivateKey) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let client_key = ed25519();
        write(&at("host_key"), &openssh(host_key), 0o600);
        write(&at("authorized_keys"), &client_key.public_key().to_openssh().unwrap(), 0o600);
        // Where an older server must have an empty folder to lock its children into.
        if rustix::process::geteuid().is_root() {
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
        write(
            &at("config"),
            &format!(
                "ListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
                 PermitRootLogin yes\nPasswordAuthentication yes\nKbdInteractiveAuthentication no\nPrintMotd no\n\
                 LogLevel VERBOSE\nMaxStartups 100:30:200\n{config}\n",
                at("host_key").display(),
                at("authorized_keys").display()
            ),
            0o600,
        );
        let mut server = Self {
            port: 0,
            host_key: host_key.public_key().clone(),
            client_key: openssh(&client_key),
            user: user.trim().to_owned(),
            child: None,
            folder,
        };
        server.listen();
        server
    }

    /// Starts it, again if need be, on a port of its own.
    pub(crate) fn listen(&mut self) {
        assert!(Path::new(SSHD).exists(), "{SSHD} is missing: run tools/packages.sh");
        if self.port == 0 {
            self.port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        }
        let log = std::fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let child = Command::new("/usr/bin/setpriv")
            .args(["--pdeathsig", "KILL", "--", SSHD, "-D", "-e", "-p", &self.port.to_string(), "-f"])
            .arg(self.path("config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(started.elapsed() < DEADLINE, "it does not listen: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Cuts every connection, as a cable that is pulled.
    pub(crate) fn cut(&self) {
        let Some(child) = &self.child else { return };
        for pid in descendants(child.id()) {
            kill(pid);
        }
    }

    /// Takes it down, with every connection.
    pub(crate) fn stop(&mut self) {
        self.cut();
        if let Some(mut child) = self.child.take() {
            _ = child.kill();
            _ = child.wait();
        }
        // A child of it may still hold the port for a moment.
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() && started.elapsed() < DEADLINE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
        self.stop();
    }
}

/// The processes of the server itself, which call themselves so; not what scripts have started.
fn descendants(of: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let Some((head, tail)) = stat.rsplit_once(')') else { continue };
        let parent = tail.split_whitespace().nth(1).and_then(|word| word.parse::<u32>().ok());
        if parent == Some(of) && head.contains("(sshd") {
            found.extend(descendants(pid));
            found.push(pid);
        }
    }
    found
}

fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        // An error says that it is gone already.
        _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn write(path: &Path, content: &str, mode: u32) {
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn ecdsa() -> PrivateKey {
    PrivateKey::random(&mut safe_rng(), Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 }).unwrap()
}
