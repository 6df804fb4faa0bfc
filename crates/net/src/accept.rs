//! Accepting connections: no error ends the server, and no more connections are open than it can hold.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Wait after a failed accept. The process has no free file descriptors then, most likely: connections that end free some.
const BACK_OFF: Duration = Duration::from_millis(50);

/// The next connection. Cancel safe.
pub async fn accept(listener: &TcpListener, server: &'static str) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, server, "cannot accept a connection");
                tokio::time::sleep(BACK_OFF).await;
            }
        }
    }
}

/// Handles connections until `stop` is done, at most `most` at once; others wait in the listener's backlog. Ends the open
/// connections with itself.
pub async fn serve<F>(
    listener: TcpListener,
    server: &'static str,
    most: usize,
    stop: impl Future<Output = ()>,
    mut handle: impl FnMut(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            (stream, _) = accept(&listener, server), if connections.len() < most => {
                connections.spawn(handle(stream));
            }
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    connections.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(10);

    /// Answers each connection with one byte and keeps it open until the client closes it.
    async fn echo(mut stream: TcpStream) {
        let _ = stream.write_all(b"x").await;
        let _ = stream.read(&mut [0]).await;
    }

    async fn greeted(stream: &mut TcpStream) -> bool {
        matches!(stream.read(&mut [0]).await, Ok(1))
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_wait_for_one_that_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(serve(
            listener,
            "test",
            2,
            async {
                let _ = stopped.await;
            },
            echo,
        ));
        let connect = || async { TcpStream::connect(address).await.expect("a connection") };
        let (mut first, mut second, mut third) = (connect().await, connect().await, connect().await);
        for open in [&mut first, &mut second] {
            assert!(timeout(SOON, greeted(open)).await.expect("a greeting"));
        }
        let waits = timeout(Duration::from_millis(100), greeted(&mut third)).await;
        assert!(waits.is_err(), "the third connection is not handled yet");
        drop(first);
        assert!(timeout(SOON, greeted(&mut third)).await.expect("a greeting"));

        stop.send(()).expect("the server runs");
        timeout(SOON, server).await.expect("it ends").expect("without a panic");
        // A stopped server has closed its connections and its port.
        assert!(!timeout(SOON, greeted(&mut second)).await.expect("an end"));
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn a_handler_that_panics_frees_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let handled = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&handled);
        let handle = move |stream| {
            let earlier = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async move {
                assert!(earlier > 0, "the first connection panics");
                echo(stream).await;
            }
        };
        let server = serve(listener, "test", 1, std::future::pending(), handle);
        let client = async {
            let mut first = TcpStream::connect(address).await.expect("a connection");
            assert!(!greeted(&mut first).await);
            let mut second = TcpStream::connect(address).await.expect("a connection");
            assert!(greeted(&mut second).await);
        };
        tokio::select! {
            () = server => panic!("the server ended"),
            done = timeout(SOON, client) => done.expect("in time"),
        }
    }
}
