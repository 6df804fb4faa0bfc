//! A minimal round-robin load balancer in front of API servers; it skips servers that do not respond.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Another than that of the API servers.
pub(super) const PORT: u16 = 7443;

/// Machines that are off do not answer at all.
const PATIENCE: Duration = Duration::from_secs(1);

/// Ends when dropped.
pub(super) struct Balancer {
    task: JoinHandle<()>,
}

impl Balancer {
    /// Listens on `address`, for these servers.
    pub(super) async fn start(address: Ipv4Addr, mut servers: Vec<SocketAddr>) -> Result<Self> {
        let listener = TcpListener::bind((address, PORT)).await.context("cannot listen")?;
        let task = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                servers.rotate_left(1);
                let servers = servers.clone();
                tokio::spawn(async move {
                    for server in servers {
                        let connected = tokio::time::timeout(PATIENCE, TcpStream::connect(server)).await;
                        if let Ok(Ok(mut server)) = connected {
                            // Either side may hang up whenever it likes.
                            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                            return;
                        }
                    }
                });
            }
        });
        Ok(Self { task })
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
