//! The server: opened once, called in-process or over sockets, shut down in order. Every task it starts is in its set
//! and is awaited.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use capstan_net::{Connection, ConnectionLimits, Connections};
use http_body_util::BodyExt as _;
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    auth::client_certificate::ClientCertificate,
    authentication,
    authority::Signer,
    bootstrap,
    controllers::{
        api_services, certificate_cleaner, certificate_signer, crd_deletion, event_cleaner, flow_schemas, gc,
        kubernetes_service, namespace, policy_status, resource_quota,
    },
    cpu_time::{Charged, ChargedBody},
    options::Options,
    plane::Plane,
    request::{Head, negotiate::Format},
    respond,
    sender::Sender,
    service::{self, InProcess},
    shutdown::stopped,
    start_error::StartError,
    status::ApiError,
    store::backup::{Backup, BackupError},
    tls::{Clients, Tls},
    user::User,
};

/// Its name in the log.
const NAME: &str = "apiserver";
/// How long a client may take for the TLS handshake.
const HANDSHAKE: std::time::Duration = std::time::Duration::from_secs(10);
/// How long a connection is silent before the kernel asks whether the other end is there.
const KEEP_ALIVE: std::time::Duration = std::time::Duration::from_secs(60);
/// How long open requests may take to end once the server stops.
const DRAIN: std::time::Duration = std::time::Duration::from_secs(5);

/// How long the headers of a request may take to come, also on a connection that waits for its next one. Longer than clients
/// keep those, so that none is closed under a request.
const HEADERS: std::time::Duration = std::time::Duration::from_secs(120);

/// An embedded API server. [`ApiServer::shutdown`] stops it gracefully; dropping it stops it at once.
pub struct ApiServer {
    plane: Arc<Plane>,
    shutdown: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
    /// Whether the Service `kubernetes` has the address of a listener: that of the first one.
    is_published: AtomicBool,
}

impl ApiServer {
    /// Opens the store, creates the initial objects, and starts the controllers.
    ///
    /// # Errors
    /// If the store cannot be opened or written.
    pub async fn open(options: Options) -> Result<Arc<Self>, StartError> {
        let signing = options.client_authority.as_ref().map(Signer::new).transpose()?;
        let event_ttl = options.event_ttl;
        let plane = Arc::new(Plane::open(options)?);
        // Boxed, so that this does not make the types of callers deeper than the compiler likes.
        Box::pin(bootstrap::run(&plane)).await?;
        let (shutdown, stopping) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(gc::run(Arc::clone(&plane), stopping.clone()));
        tasks.spawn(namespace::run(Arc::clone(&plane), stopping.clone()));
        tasks.spawn(crd_deletion::run(Arc::clone(&plane), stopping.clone()));
        tasks.spawn(api_services::run(Arc::clone(&plane), stopping.clone()));
        tasks.spawn(policy_status::run(Arc::clone(&plane), stopping.clone()));
        tasks.spawn(flow_schemas::run(Arc::clone(&plane), stopping.clone()));
        tasks.spawn(resource_quota::run(Arc::clone(&plane), stopping.clone()));
        tasks.spawn(certificate_cleaner::run(Arc::clone(&plane), stopping.clone()));
        tasks.spawn(event_cleaner::run(Arc::clone(&plane), event_ttl, stopping.clone()));
        if let Some(signing) = signing {
            tasks.spawn(certificate_signer::run(Arc::clone(&plane), signing, stopping));
        }
        Ok(Arc::new(Self { plane, shutdown, tasks: Mutex::new(tasks), is_published: AtomicBool::new(false) }))
    }

    /// The server as a tower service for `kube::Client::new`, with the same responses as over a socket, for requests
    /// of this user.
    pub fn service(&self, user: User) -> InProcess {
        InProcess { plane: Arc::clone(&self.plane), user, shutdown: self.shutdown.subscribe() }
    }

    /// Serves on a listener until the server is shut down. Returns immediately, with the address.
    ///
    /// # Errors
    /// If the certificate cannot be used or the listener has no address.
    pub fn serve(&self, listener: TcpListener, tls: &Tls) -> Result<SocketAddr, StartError> {
        let address = listener.local_addr().map_err(StartError::Listen)?;
        let (config, clients) = tls.config()?;
        self.plane.certificates.add(tls);
        let tls = TlsTermination { acceptor: TlsAcceptor::from(Arc::new(config)), clients };
        let plane = Arc::clone(&self.plane);
        let task = accept(plane, listener, tls, self.shutdown.subscribe());
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.spawn(task);
        if !self.is_published.swap(true, Ordering::Relaxed) {
            let plane = Arc::clone(&self.plane);
            tasks.spawn(kubernetes_service::run(plane, address, self.shutdown.subscribe()));
        }
        Ok(address)
    }

    /// The latest revision in the store.
    pub fn revision(&self) -> u64 {
        self.plane.store.revision()
    }

    /// A backup of all objects at one revision. Requests are served meanwhile. Also served at `/capstan/v1/backup`.
    ///
    /// # Errors
    /// If one of [`Options::backup_files`] cannot be read.
    pub fn backup(&self) -> Result<Backup, BackupError> {
        self.plane.backup()
    }

    /// Ends watches, waits for requests and tasks, and closes the store.
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

/// TLS settings of a listener, and the verifier of client certificates.
#[derive(Clone)]
struct TlsTermination {
    acceptor: TlsAcceptor,
    clients: Clients,
}

async fn accept(
    plane: Arc<Plane>,
    listener: TcpListener,
    tls: TlsTermination,
    mut stopping: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let open = Connections::new(ConnectionLimits {
        per_address: plane.limits.connections,
        total: plane.limits.all_connections,
        unaccepted: plane.limits.unauthenticated,
    });
    loop {
        let (stream, peer) = tokio::select! {
            accepted = capstan_net::accept(&listener, NAME) => accepted,
            () = stopped(&mut stopping) => break,
            Some(_) = connections.join_next() => continue,
        };
        let Some(permit) = open.accept(peer.ip()) else {
            tracing::warn!(address = %peer.ip(), "too many connections");
            continue;
        };
        let watcher = graceful.watcher();
        let permit = Arc::new(permit);
        let served = connection(
            Arc::clone(&plane),
            stream,
            (peer.ip(), Arc::clone(&permit)),
            tls.clone(),
            stopping.clone(),
            watcher,
        );
        connections.spawn(async move {
            tokio::select! {
                () = served => {}
                () = permit.must_close() => tracing::debug!(address = %peer.ip(), "closed an unauthenticated connection"),
            }
        });
    }
    drop(listener);
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(DRAIN) => tracing::warn!("connections were cut"),
    }
    connections.shutdown().await;
}

/// The address of a client, and its place among the open connections.
type Peer = (IpAddr, Arc<Connection>);

/// Has the kernel find out when the other end is gone without a word, such as after a power failure.
fn keep_alive(stream: &TcpStream) {
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE / 4).with_retries(4);
    if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keep_alive) {
        tracing::debug!(%error, "cannot set TCP keep-alive");
    }
}

async fn connection(
    plane: Arc<Plane>,
    stream: TcpStream,
    peer: Peer,
    tls: TlsTermination,
    stopping: watch::Receiver<bool>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Responses are small and watch events must not be delayed.
    let _ = stream.set_nodelay(true);
    keep_alive(&stream);
    let handshake = capstan_net::handshake(&tls.acceptor, stream, HANDSHAKE, NAME);
    let Some(stream) = handshake.await else { return };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificate = tls.clients.judge(chain, plane.now());
    http(plane, stream, certificate, peer, stopping, watcher).await;
}

/// Why a request is not handled.
enum Rejected {
    /// It has a credential that is not valid.
    Unauthenticated(ApiError),
    /// Its client has too many requests.
    OverLimit(ApiError),
}

async fn http<S>(
    plane: Arc<Plane>,
    stream: S,
    certificate: ClientCertificate,
    (address, permit): Peer,
    stopping: watch::Receiver<bool>,
    watcher: hyper_util::server::graceful::Watcher,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stall_timeout = plane.limits.stall_timeout;
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (plane, certificate, stopping) = (Arc::clone(&plane), certificate.clone(), stopping.clone());
        let permit = Arc::clone(&permit);
        let (parts, body) = request.into_parts();
        let head = Head::parse(parts);
        async move {
            let entered = authentication::user(&plane, &certificate, &head.parts.headers)
                .map_err(Rejected::Unauthenticated)
                .and_then(|user| {
                    let pass = plane.gate.enter(&user, address, head.is_watch(), Instant::now());
                    Ok((pass.map_err(Rejected::OverLimit)?, user))
                });
            Ok::<_, std::convert::Infallible>(match entered {
                Ok((pass, user)) => {
                    if user != User::anonymous() {
                        permit.request_accepted();
                    }
                    let sender =
                        Sender { user, pass, address: Some(address), certificate: Some(certificate) };
                    let work = service::respond(&plane, &sender, head, body, stopping);
                    let response = Charged::new(sender.pass.as_ref(), work).await;
                    response.map(|body| ChargedBody { body, sender }.boxed_unsync())
                }
                Err(Rejected::Unauthenticated(_)) if !plane.gate.may_fail(address, Instant::now()) => {
                    respond::error(&ApiError::too_many_requests(), Format::Json)
                }
                Err(Rejected::Unauthenticated(error) | Rejected::OverLimit(error)) => {
                    let (user, address) = (User::unknown(), Some(address));
                    let sender = Sender { user, pass: None, address, certificate: None };
                    service::refuse(&plane, &sender, &head, &error).await
                }
            })
        }
    });
    let stream = capstan_net::WriteTimeout::new(stream, stall_timeout);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // A client that does not complete its headers must not hold the connection.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    // HTTP/2 has no such limit: a client that is alive answers a ping.
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(HEADERS / 4))
        .keep_alive_timeout(stall_timeout);
    let served = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(served).await {
        tracing::debug!(error, "connection");
    }
}
