//! A small HTTP proxy with `CONNECT`, which knows one server by a name that nothing else resolves.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The name of the server. It is in no DNS.
pub(crate) const NAME: &str = "plane.invalid";

/// The proxy. Dropping it ends it.
pub(crate) struct ConnectProxy {
    pub(crate) url: String,
    heads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for ConnectProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ConnectProxy {
    /// A proxy that connects every client with this server, whatever port it asks for.
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&heads);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                tokio::spawn(async move { drop(pass_on(client, server, &kept).await) });
            }
        });
        Self { url, heads, task }
    }

    /// The head of each request.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn pass_on(client: TcpStream, server: SocketAddr, heads: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if client.read_line(&mut head).await? == 0 {
            return Ok(());
        }
    }
    heads.lock().unwrap_or_else(PoisonError::into_inner).push(head.clone());
    if !head.starts_with(&format!("CONNECT {NAME}:")) {
        return client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await;
    }
    let mut server = TcpStream::connect(server).await?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}
