//! Cache and loop on the embedded plane: what is read, what wakes a reconciler, and what does not stop it.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_controller::events::{Events, Tone, WrittenEvents};
use capstan_controller::{Caches, Metrics, Next, Reconciler, Result, Scope, Settings, run};
use futures::{StreamExt as _, TryStreamExt as _};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::runtime::reflector::ObjectRef;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
const DEADLINE: Duration = Duration::from_secs(60);

struct EnginePlane {
    client: Client,
    maps: Api<ConfigMap>,
    _server: Arc<ApiServer>,
}

impl EnginePlane {
    async fn open() -> Self {
        let server = ApiServer::open(Options::new(Storage::Memory)).await.unwrap();
        let client = Client::new(server.service(User::admin()), "default");
        let maps = Api::namespaced(client.clone(), "default");
        Self { client, maps, _server: server }
    }

    async fn make(&self, name: &str, cluster: &str) {
        let object =
            json!({"metadata": {"name": name, "labels": {CLUSTER: cluster}}, "data": {"count": "0"}});
        self.maps.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    async fn change(&self, name: &str, patch: &Value) {
        self.maps.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

/// Remembers what it has seen, and hangs on objects of one cluster.
#[derive(Clone, Default)]
struct Looks(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

impl Looks {
    fn last(&self, name: &str) -> Option<String> {
        self.0.lock().unwrap().get(name)?.last().cloned()
    }

    fn number(&self, name: &str) -> usize {
        self.0.lock().unwrap().get(name).map_or(0, Vec::len)
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let waits = async {
            while !is_so(self) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, waits).await.unwrap_or_else(|_| panic!("{what}: {:?}", self.0));
    }
}

impl Reconciler for Looks {
    type Object = ConfigMap;

    fn name(&self) -> &'static str {
        "looks"
    }

    async fn reconcile(&self, object: Arc<ConfigMap>) -> Result<Next> {
        let count = object.data.as_ref().and_then(|data| data.get("count").cloned()).unwrap_or_default();
        self.0.lock().unwrap().entry(object.name_any()).or_default().push(count);
        if object.labels().get(CLUSTER).is_some_and(|cluster| cluster == "hangs") {
            std::future::pending::<()>().await;
        }
        assert!(
            object.labels().get(CLUSTER).is_none_or(|cluster| cluster != "panics"),
            "as the test wants it"
        );
        Ok(Next::Changed)
    }
}

fn start(plane: &EnginePlane, scope: Scope) -> Looks {
    start_on(&Caches::new(plane.client.clone()), scope)
}

fn start_on(caches: &Caches, scope: Scope) -> Looks {
    let looks = Looks::default();
    let never = futures::stream::pending::<ObjectRef<ConfigMap>>();
    tokio::spawn(run::run(looks.clone(), caches.of(), scope, never, std::future::pending::<()>()));
    looks
}

type Answer = UnsyncBoxBody<Bytes, tower::BoxError>;

/// The way to an API server, which can be cut and made to fail.
#[derive(Clone)]
struct Way {
    inner: Client,
    /// Each change ends all watches.
    cut: Arc<tokio::sync::watch::Sender<()>>,
    /// So many watches are refused because what they ask for is too old, and so many lists fail.
    expired: Arc<AtomicUsize>,
    failing: Arc<AtomicUsize>,
    forbidden: Arc<AtomicUsize>,
}

impl Way {
    fn to(plane: &EnginePlane) -> Self {
        let cut = Arc::new(tokio::sync::watch::Sender::new(()));
        Self {
            inner: plane.client.clone(),
            cut,
            expired: Arc::default(),
            failing: Arc::default(),
            forbidden: Arc::default(),
        }
    }

    fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    fn refusal(code: u16, reason: &str) -> Response<Answer> {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "reason": reason, "message": reason});
        Response::builder()
            .status(code)
            .body(Full::new(Bytes::from(status.to_string())).map_err(|never| match never {}).boxed_unsync())
            .unwrap()
    }

    fn takes_one(number: &AtomicUsize) -> bool {
        number.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

impl tower::Service<Request<Body>> for Way {
    type Response = Response<Answer>;
    type Error = tower::BoxError;
    type Future = futures::future::BoxFuture<'static, std::result::Result<Response<Answer>, tower::BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), tower::BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let way = self.clone();
        Box::pin(async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            if is_watch && Self::takes_one(&way.expired) {
                return Ok(Self::refusal(410, "Expired"));
            }
            let is_list =
                request.method() == http::Method::GET && request.uri().path().ends_with("/configmaps");
            if is_list && !is_watch && Self::takes_one(&way.forbidden) {
                return Ok(Self::refusal(403, "Forbidden"));
            }
            if is_list && !is_watch && Self::takes_one(&way.failing) {
                return Ok(Self::refusal(503, "ServiceUnavailable"));
            }
            let mut cut = way.cut.subscribe();
            let (head, body) = way.inner.send(request).await?.into_parts();
            if !is_watch {
                return Ok(Response::from_parts(head, body.map_err(Into::into).boxed_unsync()));
            }
            let events = body
                .map_err(tower::BoxError::from)
                .into_data_stream()
                .take_until(async move { _ = cut.changed().await });
            let events = StreamBody::new(events.map_ok(Frame::data));
            Ok(Response::from_parts(head, events.boxed_unsync()))
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_went_while_the_watch_was_cut_off_is_reported() {
    let plane = EnginePlane::open().await;
    for name in ["stays", "goes", "changes"] {
        plane.make(name, "c").await;
    }
    let way = Way::to(&plane);
    let caches = Caches::new(way.client());
    let cache = caches.of::<ConfigMap>();
    let mut changed = Box::pin(cache.changed(|object| object.data.clone()));
    for _ in 0..3 {
        tokio::time::timeout(DEADLINE, changed.next()).await.unwrap().unwrap();
    }
    // The API server comes back without its history: the next watch is refused, and only a new list can tell.
    way.expired.store(1, Ordering::SeqCst);
    way.failing.store(2, Ordering::SeqCst);
    plane.maps.delete("goes", &DeleteParams::default()).await.unwrap();
    plane.change("changes", &json!({"data": {"count": "1"}})).await;
    plane.make("comes", "c").await;
    let before: BTreeSet<String> = BTreeSet::new();
    way.cut.send_replace(());
    let heard = async {
        let mut heard = before;
        while heard.len() < 3 {
            heard.insert(changed.next().await.unwrap().name_any());
        }
        heard
    };
    let heard = tokio::time::timeout(DEADLINE, heard).await.expect("news");
    assert_eq!(heard.into_iter().collect::<Vec<_>>(), ["changes", "comes", "goes"]);
    assert!(cache.get("default", "goes").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_list_that_fails_is_made_again() {
    let plane = EnginePlane::open().await;
    plane.make("a", "c").await;
    let way = Way::to(&plane);
    way.failing.store(3, Ordering::SeqCst);
    let looks = Looks::default();
    let caches = Caches::new(way.client());
    let never = futures::stream::pending::<ObjectRef<ConfigMap>>();
    tokio::spawn(run::run(looks.clone(), caches.of(), Scope::default(), never, std::future::pending::<()>()));
    looks.until("a look after failures", |looks| looks.number("a") > 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_reported_at_once_and_retried_until_it_is_granted() {
    let plane = EnginePlane::open().await;
    plane.make("a", "c").await;
    let way = Way::to(&plane);
    way.forbidden.store(2, Ordering::SeqCst);
    let caches = Caches::new(way.client());
    assert_eq!(caches.unsynced(Duration::ZERO), [""; 0]);
    let cache = caches.of::<ConfigMap>();
    let refused = cache.all().await.expect_err("no right");
    assert!(matches!(refused, capstan_controller::Error::Forbidden { .. }), "{refused:?}");
    assert_eq!(caches.unsynced(Duration::ZERO), ["ConfigMap"]);
    assert_eq!(caches.unsynced(DEADLINE), [""; 0], "it may still come");
    let given = async {
        while cache.all().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, given).await.expect("the right is given");
    assert_eq!(cache.all().await.unwrap().len(), 1);
    assert_eq!(caches.unsynced(Duration::ZERO), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_changes_is_seen_to_its_end_in_fewer_looks() {
    let plane = EnginePlane::open().await;
    plane.make("a", "c").await;
    let looks = start(&plane, Scope::default());
    looks.until("the first look", |looks| looks.number("a") > 0).await;
    for count in 1..=10_000 {
        plane.change("a", &json!({"data": {"count": count.to_string()}})).await;
    }
    looks.until("the last state", |looks| looks.last("a").as_deref() == Some("10000")).await;
    assert!(looks.number("a") < 2000, "{} looks", looks.number("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_hangs_does_not_stop_another() {
    let plane = EnginePlane::open().await;
    for number in 0..60 {
        plane.make(&format!("h{number}"), "hangs").await;
    }
    let looks = start(&plane, Scope::default());
    looks.until("the cluster to hang", |looks| looks.0.lock().unwrap().len() >= 20).await;
    plane.make("well", "well").await;
    looks.until("the other cluster", |looks| looks.number("well") > 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_ours_is_looked_at() {
    let plane = EnginePlane::open().await;
    let filter = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "blue"}}});
    for name in ["ours", "theirs"] {
        plane.make(name, "c").await;
    }
    plane.change("ours", &filter).await;
    let looks = start(&plane, Scope::new(None, Some("blue".to_owned())));
    looks.until("ours", |looks| looks.number("ours") > 0).await;
    assert_eq!(looks.number("theirs"), 0);
    plane.change("theirs", &filter).await;
    looks.until("what has become ours", |looks| looks.number("theirs") > 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_is_complete_and_never_too_old_to_exist() {
    let plane = EnginePlane::open().await;
    for (name, cluster) in [("a", "x"), ("b", "x"), ("c", "y")] {
        plane.make(name, cluster).await;
    }
    // The first read waits for the list.
    let cache = Caches::new(plane.client.clone()).of::<ConfigMap>();
    let names = |found: Vec<Arc<ConfigMap>>| -> Vec<String> { found.iter().map(|o| o.name_any()).collect() };
    assert_eq!(names(cache.of_cluster("default", "x").await.unwrap()), ["a", "b"]);
    // An object that was made a moment ago is found, whether or not the watch has brought it.
    plane.make("new", "x").await;
    assert!(cache.get("default", "new").await.unwrap().is_some());
    assert!(cache.get("default", "never").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_this_process_writes_is_read_at_once() {
    let plane = EnginePlane::open().await;
    plane.make("a", "x").await;
    let caches = Caches::new(plane.client.clone());
    let cache = caches.of::<ConfigMap>();
    cache.all().await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(caches.client().clone(), "default");
    let read = async || cache.peek("default", "a").await.unwrap();
    for count in 0..200 {
        let patch = json!({"data": {"count": count.to_string()}});
        let written = api.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        assert_eq!(read().await.and_then(|object| object.resource_version()), written.resource_version());
        // A write that is only tried is not in memory.
        let tried = PatchParams { dry_run: true, ..PatchParams::default() };
        api.patch("a", &tried, &Patch::Merge(&json!({"data": {"count": "tried"}}))).await.unwrap();
        assert_eq!(read().await.unwrap().data.as_ref().unwrap()["count"], count.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_memory_everything_is_asked_for() {
    let plane = EnginePlane::open().await;
    let cache = Caches::live(plane.client.clone()).of::<ConfigMap>();
    assert!(cache.all().await.unwrap().is_empty());
    for (name, cluster) in [("a", "x"), ("b", "x"), ("c", "y")] {
        plane.make(name, cluster).await;
    }
    assert_eq!(cache.of_cluster("default", "x").await.unwrap().len(), 2);
    assert_eq!(cache.in_namespace("default").await.unwrap().len(), 3);
    assert!(cache.peek("default", "c").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_hear_what_an_object_was_and_what_it_is() {
    let plane = EnginePlane::open().await;
    plane.make("a", "x").await;
    let cache = Caches::new(plane.client.clone()).of::<ConfigMap>();
    let mut changed = Box::pin(cache.changed(|object| object.labels().clone()));
    let heard = async |changed: &mut (dyn futures::Stream<Item = Arc<ConfigMap>> + Send + Unpin)| {
        let object = tokio::time::timeout(DEADLINE, changed.next()).await.unwrap().unwrap();
        object.labels()[CLUSTER].clone()
    };
    assert_eq!(heard(&mut changed).await, "x");
    // What nobody looks at is not told.
    plane.change("a", &json!({"data": {"count": "1"}})).await;
    plane.change("a", &json!({"metadata": {"labels": {CLUSTER: "y"}}})).await;
    let both: BTreeSet<String> = [heard(&mut changed).await, heard(&mut changed).await].into();
    assert_eq!(both, ["x".to_owned(), "y".to_owned()].into(), "who has lost it must know, too");
    plane.maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(heard(&mut changed).await, "y");
}

/// Waits until all of these lines are served.
async fn until_served(metrics: &Metrics, lines: &[&str]) {
    let waits = async {
        while !lines.iter().all(|line| metrics.text().lines().any(|found| found == *line)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waits).await.unwrap_or_else(|_| panic!("{lines:?}:\n{}", metrics.text()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_controller_does_is_counted_and_limited_as_the_process_says() {
    let plane = EnginePlane::open().await;
    let metrics = Metrics::default();
    let settings = Settings { concurrency: [("looks".to_owned(), 5)].into(), ..Settings::default() };
    let caches = Caches::new(plane.client.clone()).with_engine(metrics.clone(), settings);
    for number in 0..7 {
        plane.make(&format!("h{number}"), "hangs").await;
    }
    let _looks = start_on(&caches, Scope::default());
    // A lane has two of five places.
    until_served(
        &metrics,
        &[
            "controller_runtime_max_concurrent_reconciles{controller=\"looks\"} 5",
            "controller_runtime_active_workers{controller=\"looks\"} 2",
            "workqueue_depth{name=\"looks\",controller=\"looks\"} 5",
            "workqueue_adds_total{name=\"looks\",controller=\"looks\"} 7",
            "workqueue_queue_duration_seconds_count{name=\"looks\",controller=\"looks\"} 2",
        ],
    )
    .await;
    plane.make("well", "well").await;
    until_served(
        &metrics,
        &[
            "controller_runtime_reconcile_total{controller=\"looks\",result=\"success\"} 1",
            "controller_runtime_reconcile_time_seconds_count{controller=\"looks\"} 1",
            "capstan_cache_objects{kind=\"ConfigMap\"} 8",
        ],
    )
    .await;
    plane.make("bad", "panics").await;
    // It is tried again, so that there may be more by now.
    let waits = async {
        while metrics.text().contains("controller_runtime_reconcile_panics_total{controller=\"looks\"} 0\n") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waits).await.expect("the panic is counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_forbidden_is_counted() {
    let server = ApiServer::open(Options::new(Storage::Memory)).await.unwrap();
    let stranger = Client::new(server.service(User::new("stranger", ["x"])), "default");
    let metrics = Metrics::default();
    let caches = Caches::new(stranger).with_engine(metrics.clone(), Settings::default());
    let _cache = caches.of::<ConfigMap>();
    let waits = async {
        while metrics.text().contains("capstan_cache_watch_failures_total{kind=\"ConfigMap\"} 0\n") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waits).await.expect("the failure is counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_comes_again_is_one_request() {
    let plane = EnginePlane::open().await;
    plane.make("a", "c").await;
    let object = plane.maps.get("a").await.unwrap();
    let methods: Arc<Mutex<Vec<String>>> = Arc::default();
    let (noted, inner) = (Arc::clone(&methods), plane.client.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        noted.lock().unwrap().push(request.method().to_string());
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    let client = Client::new(service, "default");
    let written = WrittenEvents::default();
    let publish = async |written: &WrittenEvents| {
        let events = Events::new(client.clone(), "test").remembering(written);
        events.publish(&object, Tone::Normal, "Made", "made", jiff::Timestamp::now()).await;
        std::mem::take(&mut *methods.lock().unwrap())
    };
    assert_eq!(publish(&written).await, ["POST"]);
    assert_eq!(publish(&written).await, ["PATCH"]);
    let events: Api<Event> = Api::namespaced(plane.client.clone(), "default");
    let only = async || events.list(&kube::api::ListParams::default()).await.unwrap().items.pop().unwrap();
    assert_eq!(only().await.count, Some(2));
    // Another process does not know it.
    assert_eq!(publish(&WrittenEvents::default()).await, ["POST", "GET", "PATCH"]);
    assert_eq!(only().await.count, Some(3));
    // It has expired.
    events.delete(&only().await.name_any(), &DeleteParams::default()).await.unwrap();
    assert_eq!(publish(&written).await, ["PATCH", "POST"]);
    assert_eq!(only().await.count, Some(1));
}
