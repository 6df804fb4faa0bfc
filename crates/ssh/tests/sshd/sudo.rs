//! Becoming root. The `sudo` is a fake that behaves as the real one in two respects: its prompt, and how much of its
//! standard input it consumes.

use capstan_ssh::access::{Access, Hidden, Sudo};
use capstan_ssh::transport::Pool;
use std::os::unix::fs::PermissionsExt as _;
use tempfile::TempDir;

use crate::server::{Server, ed25519};
use crate::yard::{Yard, secret, settings};

struct SudoServer {
    yard: Yard,
    bin: TempDir,
}

/// A server on which `sudo` does this before it runs a command.
fn server_with_sudo(ask: &str) -> SudoServer {
    let bin = tempfile::tempdir().unwrap();
    let path = format!("SetEnv PATH={}:/usr/bin:/bin", bin.path().display());
    let yard = Yard::new(Server::start_with(&path, &ed25519()));
    let program = bin.path().join("sudo");
    std::fs::write(
        &program,
        format!(
            "#!/bin/bash\nstdin=\nwhile :; do\ncase $1 in\n-n|-k) shift ;;\n-S) stdin=yes; shift ;;\n-p) shift 2 ;;\n\
             --) shift; break ;;\n*) break ;;\nesac\ndone\n{ask}\necho \"$@\" >> {}\nexec \"$@\"\n",
            bin.path().join("log").display()
        ),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    SudoServer { yard, bin }
}

impl SudoServer {
    /// Connects as a user without root rights, independent of the user that runs the test.
    async fn enter(&self, password: Option<&str>) -> Result<String, String> {
        let data = secret(&[("ssh-privatekey", &self.yard.server.client_key)]);
        let ssh = self.yard.host().spec.ssh.unwrap();
        let mut access = Access::read(&ssh, &data).unwrap();
        access.sudo = Sudo::Yes(password.map(Hidden::new));
        let pool = Pool::new(settings());
        let output =
            pool.run(&access, "testing", "echo it runs; cat\n").await.map_err(|error| error.to_string())?;
        let again =
            pool.run(&access, "testing", "echo it runs; cat\n").await.map_err(|error| error.to_string())?;
        assert_eq!(output, again);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn ran(&self) -> String {
        std::fs::read_to_string(self.bin.path().join("log")).unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sudo_that_asks_for_nothing_is_given_nothing() {
    let server_with_sudo = server_with_sudo(":");
    assert_eq!(server_with_sudo.enter(Some("pl4nted")).await.unwrap(), "it runs\n");
    assert!(
        server_with_sudo.ran().contains("/bin/sh -s") && !server_with_sudo.ran().contains("pl4nted"),
        "{}",
        server_with_sudo.ran()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sudo_that_asks_is_answered_through_standard_input() {
    // One line, and not a byte more.
    let server_with_sudo = server_with_sudo(
        "[ -n \"$stdin\" ] || exit 1; IFS= read -r word; [ \"$word\" = 'open sesame' ] || exit 1",
    );
    assert_eq!(server_with_sudo.enter(Some("open sesame")).await.unwrap(), "it runs\n");
    let error = server_with_sudo.enter(Some("wrong")).await.unwrap_err();
    assert!(
        error.starts_with("spec.ssh.sudo: ") && error.contains("`sudo-password` of Secret creds"),
        "{error}"
    );
    let error = server_with_sudo.enter(None).await.unwrap_err();
    assert!(error.contains("NOPASSWD") && error.contains("`sudo-password`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_sudo_says_so() {
    let server_with_sudo = server_with_sudo("exit 127");
    assert!(server_with_sudo.enter(None).await.unwrap_err().contains("there is no `sudo` on the host"));
}
