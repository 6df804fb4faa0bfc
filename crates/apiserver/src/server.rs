//! The server: opened once, asked in-process or over sockets, shut down in order. Every task it starts is
//! in its set and is awaited.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use http_body_util::BodyExt as _;
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    auth::{
        User,
        authenticate::{self, Shown},
        token::KeyError,
    },
    bootstrap,
    certificates::{
        authority::{AuthorityError, Signer},
        cleaner, signer,
    },
    cleanup, gc,
    limits::Crowd,
    namespace,
    options::Options,
    patient::Patient,
    plane::Plane,
    request::{Query, RequestInfo, Verb},
    service::{self, InProcess, Sender},
    store::{
        OpenError,
        backup::{Backup, BackupError},
    },
    tls::{Clients, Tls, TlsError},
};

/// How long open requests may take to end once the server stops.
const DRAIN: std::time::Duration = std::time::Duration::from_secs(5);

/// How long the headers of a request may take to come, also on a connection that waits for its next one. Longer than clients
/// keep those, so that none is closed under a request.
const HEADERS: std::time::Duration = std::time::Duration::from_secs(120);

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store.
    #[error("cannot open the store")]
    Store(#[from] OpenError),
    /// The key that signs the tokens of service accounts.
    #[error("cannot sign tokens")]
    TokenKey(#[from] KeyError),
    /// The authority that signs client certificates.
    #[error("cannot sign client certificates")]
    Authority(#[from] AuthorityError),
    /// The audit log.
    #[error("cannot write the audit log")]
    Audit(#[source] std::io::Error),
    /// TLS.
    #[error("cannot set up TLS")]
    Tls(#[from] TlsError),
    /// The listener.
    #[error("cannot listen")]
    Listen(#[source] std::io::Error),
    /// The first objects could not be written.
    #[error("cannot write the first objects")]
    Bootstrap(#[from] crate::status::ApiError),
}

/// An embedded API server. Dropping it stops it abruptly; [`ApiServer::shutdown`] in order.
pub struct ApiServer {
    plane: Arc<Plane>,
    shutdown: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

impl ApiServer {
    /// Opens the store, makes what must exist from the start, and starts the controllers.
    ///
    /// # Errors
    /// If the store cannot be opened or written.
    pub async fn open(options: Options) -> Result<Arc<Self>, StartError> {
        let signing = options.client_authority.as_ref().map(Signer::new).transpose()?;
        let plane = Arc::new(Plane::open(options)?);
        // Boxed, so that this does not make the types of callers deeper than the compiler likes.
        Box::pin(bootstrap::run(&plane)).await?;
        let (shutdown, stopping) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(gc::run(Arc::clone(&plane), stopping.clone()));
        tasks.spawn(namespace::run(Arc::clone(&plane), stopping.clone()));
        tasks.spawn(cleanup::run(Arc::clone(&plane), stopping.clone()));
        tasks.spawn(cleaner::run(Arc::clone(&plane), stopping.clone()));
        if let Some(signing) = signing {
            tasks.spawn(signer::run(Arc::clone(&plane), signing, stopping));
        }
        Ok(Arc::new(Self { plane, shutdown, tasks: Mutex::new(tasks) }))
    }

    /// The server as a tower service, for `kube::Client::new`: the same answers as over a socket, to this
    /// user.
    pub fn service(&self, user: User) -> InProcess {
        InProcess { plane: Arc::clone(&self.plane), user, shutdown: self.shutdown.subscribe() }
    }

    /// Serves on a listener until the server is shut down. Returns at once, with the address.
    ///
    /// # Errors
    /// If the certificate cannot be used or the listener has no address.
    pub fn serve(&self, listener: TcpListener, tls: &Tls) -> Result<SocketAddr, StartError> {
        let address = listener.local_addr().map_err(StartError::Listen)?;
        let (config, clients) = tls.config()?;
        let door = Door { acceptor: TlsAcceptor::from(Arc::new(config)), clients };
        let plane = Arc::clone(&self.plane);
        let task = accept(plane, listener, door, self.shutdown.subscribe());
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(task);
        Ok(address)
    }

    /// The last revision that has been written.
    pub fn revision(&self) -> u64 {
        self.plane.store.revision()
    }

    /// Everything as of one revision, without stopping anybody. Also served at `/capstan/v1/backup`.
    ///
    /// # Errors
    /// If one of [`Options::backup_files`] cannot be read.
    pub fn backup(&self) -> Result<Backup, BackupError> {
        self.plane.backup()
    }

    /// Ends watches, waits for requests and tasks, closes the store.
    pub async fn shutdown(&self) {
        self.shutdown.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
        let plane = Arc::clone(&self.plane);
        // Joins a thread.
        let _ = tokio::task::spawn_blocking(move || {
            plane.store.close();
            plane.audit.as_ref().inspect(|audit| audit.close());
        })
        .await;
    }
}

/// How a connection gets in, and who is believed once it is.
#[derive(Clone)]
struct Door {
    acceptor: TlsAcceptor,
    clients: Clients,
}

async fn accept(plane: Arc<Plane>, listener: TcpListener, door: Door, mut stopping: watch::Receiver<bool>) {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let crowd = Crowd::new(&plane.limits);
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of files, most likely: the connections that end will free some.
                    tracing::warn!(%error, "cannot accept");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stopped(&mut stopping) => break,
            Some(_) = connections.join_next() => continue,
        };
        let Some(visitor) = crowd.enter(peer.ip()) else {
            tracing::warn!(address = %peer.ip(), "too many connections from one address");
            continue;
        };
        let watcher = graceful.watcher();
        let served =
            connection(Arc::clone(&plane), stream, peer.ip(), door.clone(), stopping.clone(), watcher);
        connections.spawn(async move {
            served.await;
            drop(visitor);
        });
    }
    drop(listener);
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(DRAIN) => tracing::warn!("connections were cut"),
    }
    connections.shutdown().await;
}

async fn connection(
    plane: Arc<Plane>,
    stream: TcpStream,
    address: IpAddr,
    door: Door,
    stopping: watch::Receiver<bool>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Answers are small and watches must be prompt.
    let _ = stream.set_nodelay(true);
    let handshake = tokio::time::timeout(std::time::Duration::from_secs(10), door.acceptor.accept(stream));
    let stream = match handshake.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake"),
        Err(_) => return tracing::debug!("TLS handshake timed out"),
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let shown = door.clients.judge(chain, plane.now());
    http(plane, stream, shown, address, stopping, watcher).await;
}

async fn http<S>(
    plane: Arc<Plane>,
    stream: S,
    shown: Shown,
    address: IpAddr,
    stopping: watch::Receiver<bool>,
    watcher: hyper_util::server::graceful::Watcher,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let patience = plane.limits.patience;
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (plane, shown, stopping) = (Arc::clone(&plane), shown.clone(), stopping.clone());
        async move {
            let entered = authenticate::user(&plane, &shown, request.headers())
                .and_then(|user| Ok((plane.gate.enter(&user, is_watch(&request), Instant::now())?, user)));
            Ok::<_, std::convert::Infallible>(match entered {
                Ok((pass, user)) => {
                    let sender = Sender { user, pass, address: Some(address) };
                    let response = service::respond(&plane, &sender, request, stopping).await;
                    // Held until the last of the answer has gone.
                    response.map(|body| body.map_frame(move |frame| (&sender, frame).1).boxed_unsync())
                }
                Err(error) => {
                    let sender = Sender { user: User::unknown(), pass: None, address: Some(address) };
                    service::refuse(&plane, &sender, request, &error).await
                }
            })
        }
    });
    let stream = Patient::new(stream, patience);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Whoever begins a request and does not go on does not hold the connection for ever.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    // Many requests in one connection have no such limit: whoever is there answers a ping.
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(HEADERS / 4))
        .keep_alive_timeout(patience);
    let served = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(served).await {
        tracing::debug!(error, "connection");
    }
}

fn is_watch<B>(request: &http::Request<B>) -> bool {
    let query = Query::parse(request.uri().query());
    let info = RequestInfo::parse(request.method(), request.uri().path(), &query);
    matches!(info, Some(RequestInfo::Resource(request)) if request.verb == Verb::Watch)
}

/// Waits until the server stops.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error says that the server itself is gone.
    drop(stopping.wait_for(|stopping| *stopping).await);
}
