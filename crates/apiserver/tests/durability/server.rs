//! The server that is killed, in a process of its own.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use capstan_apiserver::{ApiServer, Options, Storage};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::net::TcpListener;

use crate::support::pki;

pub(crate) const FOLDER: &str = "CAPSTAN_KILLS_FOLDER";
/// As many events as a watch can be resumed from.
pub(crate) const HISTORY: usize = 200;
const READY: &str = "ready to be killed";

/// Serves the store of a folder until the process is killed.
pub(crate) async fn serve(folder: &Path) {
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let options = Options { history: HISTORY, ..Options::new(Storage::Folder(folder.join("store"))) };
    let server = ApiServer::open(options).await.unwrap();
    let authority = pki::Authority::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.serve(listener, &authority.server().unwrap()).unwrap();
    let kubeconfig = authority.kubeconfig(address.port(), "admin", "system:masters").unwrap();
    std::fs::write(folder.join("kubeconfig"), kubeconfig).unwrap();
    // One call, so that the line is whole.
    std::io::stdout().write_all(format!("\n{READY}\n").as_bytes()).unwrap();
    std::future::pending::<()>().await;
}

/// A running one; dropping it kills it.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    pub(crate) fn spawn(folder: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::serve", "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, folder: folder.to_owned() }
    }

    /// A client, once it is ready.
    pub(crate) async fn client(&mut self) -> Client {
        let lines = BufReader::new(self.child.stdout.take().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line == READY);
        assert!(ready, "the server ended instead of starting");
        let kubeconfig = Kubeconfig::read_from(self.folder.join("kubeconfig")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.unwrap()).unwrap()
    }

    /// With a signal that it does not see coming.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        assert!(killed.is_ok() || std::thread::panicking(), "{killed:?}");
    }
}
