//! Accepting connections: no error ends the server, and no more connections are open than it can hold.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::address_rate::AddressRate;
use crate::connections::{Connection, ConnectionLimits, Connections};

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

/// Handles connections until `stop` is done, within `limits` and at most `rate` new ones. Others are closed at once.
/// A connection is closed when it must make room, or when the server has accepted none of its requests in time. Ends the open
/// connections with itself.
pub async fn serve_limited<F>(
    listener: TcpListener,
    server: &'static str,
    limits: ConnectionLimits,
    rate: &AddressRate,
    stop: impl Future<Output = ()>,
    mut handle: impl FnMut(TcpStream, IpAddr, Arc<Connection>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let open = Connections::new(limits);
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut stop => break,
            accepted = accept(&listener, server) => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let address = peer.ip().to_canonical();
        if !rate.take(address, Instant::now()) {
            tracing::debug!(%address, server, "too many new connections");
            continue;
        }
        let Some(place) = open.accept(address) else {
            tracing::debug!(%address, server, "too many connections");
            continue;
        };
        let place = Arc::new(place);
        let handled = handle(stream, address, Arc::clone(&place));
        connections.spawn(async move {
            tokio::select! {
                () = handled => {}
                () = place.must_close() => tracing::debug!(%address, server, "closed a connection without a valid request"),
            }
        });
    }
    drop(listener);
    connections.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_rate::Rate;
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

    const LIMITS: ConnectionLimits =
        ConnectionLimits { per_address: 2, total: 10, unaccepted: Duration::from_secs(600) };

    /// A server that answers each connection with one byte, and accepts its request if it sends one.
    async fn limited(limits: ConnectionLimits, rate: Rate) -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut server = JoinSet::new();
        server.spawn(async move {
            let handle = |mut stream: TcpStream, _, place: Arc<Connection>| async move {
                let _ = stream.write_all(b"x").await;
                while matches!(stream.read(&mut [0]).await, Ok(1)) {
                    place.request_accepted();
                }
            };
            let rate = AddressRate::each(rate);
            serve_limited(listener, "test", limits, &rate, std::future::pending(), handle).await;
        });
        (address, server)
    }

    const FAST: Rate = Rate { per_second: 1000.0, burst: 1000.0 };

    async fn connect(address: SocketAddr) -> (TcpStream, bool) {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let is_handled = timeout(SOON, greeted(&mut stream)).await.expect("a greeting or an end");
        (stream, is_handled)
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_of_an_address_are_closed() {
        let (address, _server) = limited(LIMITS, FAST).await;
        let (first, second) = (connect(address).await, connect(address).await);
        assert!(first.1 && second.1);
        assert!(!connect(address).await.1);
        drop(first);
        let again = async {
            while !connect(address).await.1 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(SOON, again).await.expect("room for another one");
    }

    #[tokio::test]
    async fn a_connection_without_a_request_is_closed_in_time() {
        let limits = ConnectionLimits { unaccepted: Duration::from_millis(200), ..LIMITS };
        let (address, _server) = limited(limits, FAST).await;
        let (mut silent, mut known) = (connect(address).await.0, connect(address).await.0);
        known.write_all(b"x").await.expect("a request");
        assert!(!timeout(SOON, greeted(&mut silent)).await.expect("an end"));
        assert!(timeout(Duration::from_millis(300), greeted(&mut known)).await.is_err(), "it stays open");
    }

    #[tokio::test]
    async fn new_connections_have_a_rate() {
        let limits = ConnectionLimits { per_address: 100, total: 1000, ..LIMITS };
        let (address, _server) = limited(limits, Rate { per_second: 0.001, burst: 3.0 }).await;
        let mut handled = 0;
        for _ in 0..10 {
            handled += usize::from(connect(address).await.1);
        }
        assert_eq!(handled, 3);
    }
}
