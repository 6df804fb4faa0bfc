//! kube-rs's runtime over TLS, as controllers use it: reflectors that outlive the server and its history, and a
//! controller with a finalizer and objects of its own.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::support::{eventually, pki::Authority};
use capstan_apiserver::{ApiServer, Options, Storage, User};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        Controller, WatchStreamExt,
        controller::Action,
        finalizer::{Error, Event, finalizer},
        reflector, watcher,
    },
};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;

/// Small, so that it is forgotten soon.
const HISTORY: usize = 50;
const FINALIZER: &str = "clients.capstan.dev/runtime";

/// A server on a folder and a port, which dies and comes back.
struct Stage {
    folder: TempDir,
    authority: Authority,
    port: u16,
    server: Option<Arc<ApiServer>>,
}

impl Stage {
    async fn start() -> Self {
        // An error says that another test was first.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new().unwrap());
        let mut stage = Self { folder, authority, port: 0, server: None };
        stage.open().await;
        stage.serve().await;
        stage
    }

    /// Opens the store, and does not listen yet.
    async fn open(&mut self) {
        // Whatever the one before was doing when it died, it lets go of its store.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        self.server = loop {
            let mut options = Options::new(Storage::Folder(self.folder.path().join("data")));
            options.history = HISTORY;
            match ApiServer::open(options).await {
                Ok(server) => break Some(server),
                Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
    }

    async fn serve(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        let server = self.server.as_ref().unwrap();
        self.port = server.serve(listener, &self.authority.server().unwrap()).unwrap().port();
    }

    fn die(&mut self) {
        self.server = None;
    }

    /// Over the socket.
    async fn client(&self) -> Client {
        let kubeconfig = self.authority.kubeconfig(self.port, "admin", "system:masters").unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// While nobody else can reach the server.
    fn inside(&self) -> Api<ConfigMap> {
        let service = self.server.as_ref().unwrap().service(User::admin());
        Api::default_namespaced(Client::new(service, "default"))
    }
}

fn map(name: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

async fn make(maps: &Api<ConfigMap>, name: &str) {
    maps.create(&PostParams::default(), &map(name)).await.unwrap();
}

fn versions<'a>(maps: impl Iterator<Item = &'a ConfigMap>) -> BTreeMap<String, Option<String>> {
    maps.map(|map| (map.name_any(), map.resource_version())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn reflectors_outlive_the_server() {
    outlives(watcher::Config::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reflectors_that_stream_lists_outlive_the_server() {
    outlives(watcher::Config::default().streaming_lists()).await;
}

async fn outlives(config: watcher::Config) {
    let mut stage = Stage::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(stage.client().await);
    make(&maps, "first").await;
    make(&maps, "second").await;
    let (reader, writer) = reflector::store();
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lists);
    let stream = watcher(maps.clone(), config).default_backoff().reflect(writer);
    let task = tokio::spawn(stream.for_each(move |event| {
        if matches!(event, Ok(watcher::Event::Init)) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        std::future::ready(())
    }));
    tokio::time::timeout(Duration::from_secs(30), reader.wait_until_ready()).await.unwrap().unwrap();
    let same = async || {
        eventually("the reflector has what a list has", || async {
            let Ok(listed) = maps.list(&ListParams::default()).await else { return false };
            let held = reader.state();
            versions(held.iter().map(AsRef::as_ref)) == versions(listed.items.iter())
        })
        .await;
    };
    same().await;

    // It goes on where it was: what happened meanwhile is told as it happened.
    stage.die();
    stage.open().await;
    make(&stage.inside(), "meanwhile").await;
    stage.inside().delete("first", &DeleteParams::default()).await.unwrap();
    stage.serve().await;
    same().await;
    make(&maps, "afterwards").await;
    same().await;
    assert_eq!(lists.load(Ordering::SeqCst), 1, "nothing was listed again");

    // More than is remembered: it is told so, and begins anew.
    stage.die();
    stage.open().await;
    for number in 0..2 * HISTORY {
        make(&stage.inside(), &format!("n{number}")).await;
    }
    stage.inside().delete("second", &DeleteParams::default()).await.unwrap();
    stage.serve().await;
    same().await;
    assert_eq!(lists.load(Ordering::SeqCst), 2, "everything was listed again");
    assert!(reader.find(|map| map.name_any() == "second").is_none());
    task.abort();
}

/// What the controller is given, and what it notes.
struct Context {
    client: Client,
    cleaned: Mutex<Vec<String>>,
}

/// Gives each map a secret, and takes note before it goes.
async fn reconcile(owner: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, Error<kube::Error>> {
    let owners: Api<ConfigMap> = Api::default_namespaced(context.client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(context.client.clone());
    finalizer(&owners, FINALIZER, owner, async |event| match event {
        Event::Apply(owner) => {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": owner.name_any(), "ownerReferences": [owner.controller_owner_ref(&())]},
                "data": {"key": "dg=="},
            });
            let apply = PatchParams::apply("runtime").force();
            secrets.patch(&owner.name_any(), &apply, &Patch::Apply(secret)).await?;
            Ok(Action::await_change())
        }
        Event::Cleanup(owner) => {
            context.cleaned.lock().unwrap().push(owner.name_any());
            Ok(Action::await_change())
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_keeps_what_it_owns_and_cleans_up() {
    let mut stage = Stage::start().await;
    let client = stage.client().await;
    let context = Arc::new(Context { client: client.clone(), cleaned: Mutex::default() });
    let owners: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client);
    let controller = Controller::new(owners.clone(), watcher::Config::default())
        .owns(secrets.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(50)), Arc::clone(&context));
    let task = tokio::spawn(controller.for_each(|_| std::future::ready(())));

    make(&owners, "ship").await;
    let has_secret = async || {
        eventually("the secret is there", || async { secrets.get("ship").await.is_ok() }).await;
    };
    has_secret().await;
    let owner = owners.get("ship").await.unwrap();
    assert_eq!(owner.finalizers(), [FINALIZER]);
    let owned = secrets.get("ship").await.unwrap();
    assert_eq!(owned.owner_references()[0].uid, owner.uid().unwrap());

    // What is taken from it comes back: also after the server has died.
    secrets.delete("ship", &DeleteParams::default()).await.unwrap();
    eventually("another secret is there", || async {
        secrets.get("ship").await.is_ok_and(|secret| secret.uid() != owned.uid())
    })
    .await;
    stage.die();
    stage.open().await;
    stage.serve().await;
    eventually("the server is back", || async {
        secrets.delete("ship", &DeleteParams::default()).await.is_ok()
    })
    .await;
    has_secret().await;

    owners.delete("ship", &DeleteParams::default()).await.unwrap();
    eventually("the map is gone", || async { owners.get_opt("ship").await.is_ok_and(|map| map.is_none()) })
        .await;
    assert!(context.cleaned.lock().unwrap().contains(&"ship".to_owned()));
    eventually("and its secret", || async {
        secrets.get_opt("ship").await.is_ok_and(|secret| secret.is_none())
    })
    .await;
    task.abort();
}
