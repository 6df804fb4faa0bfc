//! A host behind the SSH server, and the inventory that contains it.

use capstan_api::infrastructure::{Host, HostSpec, SecretReference, SshAccess};
use capstan_infrastructure::{BootstrapData, BootstrapState, DriverError, HostDriver as _, ResetState};
use capstan_ssh::{Inventory, SecretData, Settings, SshDriver};
use futures::future::BoxFuture;
use russh::keys::PublicKey;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

use crate::server::Server;

pub(crate) const CLAIM: &str = "feedc0defeedc0defeedc0defeedc0de";
pub(crate) const DEADLINE: Duration = Duration::from_secs(40);

/// One Secret, and a place to pin a key to.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) secret: Mutex<Option<SecretData>>,
    pub(crate) pinned: Mutex<Vec<String>>,
    /// Somebody else is always faster.
    pub(crate) conflicts: bool,
}

impl Inventory for Book {
    fn secret<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Option<SecretData>, String>> {
        Box::pin(async { Ok(self.secret.lock().unwrap().clone()) })
    }

    fn pin<'a>(&'a self, _: &'a Host, key: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            if self.conflicts {
                return Err("somebody has changed the Host meanwhile".to_owned());
            }
            self.pinned.lock().unwrap().push(key.to_owned());
            Ok(())
        })
    }
}

pub(crate) fn secret(pairs: &[(&str, &str)]) -> SecretData {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

pub(crate) fn pinnable(key: &PublicKey) -> String {
    key.to_openssh().unwrap()
}

/// Short, so that tests of what takes too long do not.
pub(crate) fn settings() -> Settings {
    Settings { connect: Duration::from_secs(5), command: Duration::from_secs(30), ..Settings::default() }
}

pub(crate) struct Yard {
    pub(crate) server: Server,
    pub(crate) book: Arc<Book>,
    root: TempDir,
}

impl Yard {
    pub(crate) fn new(server: Server) -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["etc", "opt", "run", "usr/local/bin", "usr/bin", "var/lib"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let book = Book::default();
        *book.secret.lock().unwrap() = Some(secret(&[("ssh-privatekey", &server.client_key)]));
        Self { server, book: Arc::new(book), root }
    }

    pub(crate) fn root(&self) -> &str {
        self.root.path().to_str().unwrap()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// A manager; each knows nothing of the others.
    pub(crate) fn driver(&self) -> SshDriver {
        self.driver_with(settings())
    }

    pub(crate) fn driver_with(&self, mut settings: Settings) -> SshDriver {
        let book = Arc::clone(&self.book) as Arc<dyn Inventory>;
        settings.root = self.root().to_owned();
        SshDriver::with(book, settings)
    }

    pub(crate) fn host(&self) -> Host {
        self.host_with(vec![pinnable(&self.server.host_key)])
    }

    pub(crate) fn host_with(&self, host_keys: Vec<String>) -> Host {
        let ssh = SshAccess {
            address: "127.0.0.1".to_owned(),
            port: self.server.port.into(),
            user: self.server.user.clone(),
            sudo: None,
            credentials_ref: SecretReference { name: "creds".to_owned() },
            trust_on_first_use: Some(host_keys.is_empty()),
            host_keys,
        };
        let spec = HostSpec {
            ssh: Some(ssh),
            simulated: None,
            registration: None,
            failure_domain: None,
            unschedulable: None,
            claim: None,
            quarantine: None,
            config: None,
            windows: Vec::new(),
        };
        let mut host = Host::new("rack-1", spec);
        host.metadata.namespace = Some("default".to_owned());
        host
    }

    pub(crate) async fn carried_out(&self, driver: &SshDriver, data: &BootstrapData) -> BootstrapState {
        capstan_testkit::eventually(DEADLINE, "the data to be carried out", async || {
            match driver.bootstrap(&self.host(), CLAIM, data).await? {
                BootstrapState::Running => anyhow::bail!("it runs"),
                state => Ok(state),
            }
        })
        .await
        .unwrap()
    }

    pub(crate) async fn given_back(&self, driver: &SshDriver) -> ResetState {
        capstan_testkit::eventually(DEADLINE, "the host to be given back", async || {
            match driver.reset(&self.host(), CLAIM).await? {
                ResetState::Running => anyhow::bail!("it runs"),
                state => Ok(state),
            }
        })
        .await
        .unwrap()
    }

    pub(crate) async fn until(&self, what: &str, done: impl Fn() -> bool) {
        capstan_testkit::eventually(DEADLINE, what, async || {
            anyhow::ensure!(done());
            Ok(())
        })
        .await
        .unwrap();
    }
}

pub(crate) fn script(text: &str) -> BootstrapData {
    BootstrapData { value: text.as_bytes().to_vec(), format: "script".to_owned() }
}

pub(crate) fn reason(error: &DriverError) -> &'static str {
    error.cause().reason
}
