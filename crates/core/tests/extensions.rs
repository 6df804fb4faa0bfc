//! Runtime extensions on the embedded plane: how they are discovered, found and called. No other program is needed.

#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

mod common {
    #![allow(dead_code, reason = "every suite uses a part of it")]

    #[path = "../common/extension.rs"]
    pub(crate) mod extension;
}

use anyhow::{Context as _, Result, ensure};
use capstan_api::conditions::get;
use capstan_api::core::{MachineDeployment, MachineSet};
use capstan_api::runtime::ExtensionConfig;
use capstan_api::runtime::hooks::{
    CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSet, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, ResponseStatus, UpdateMachine, UpdateMachineRequest, UpdateMachineResponse,
};
use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_controller::Reconciler as _;
use capstan_core::machinedeployment::MachineDeploymentReconciler;
use capstan_core::runtime::{CallError, Identity, LocalIdentity};
use capstan_core::{Core, extensionconfig};
use capstan_hooks::{Callers, Extension};
use capstan_testkit::{eventually, install_crds};
use common::extension::{Mood, NO, register, serve, serve_known};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(60);

struct Stage {
    server: Arc<ApiServer>,
    client: Client,
    core: Core,
    running: JoinSet<()>,
    stopped: Shared<BoxFuture<'static, ()>>,
    stop: oneshot::Sender<()>,
}

impl Stage {
    async fn start() -> Result<Self> {
        let server = ApiServer::open(Options::new(Storage::Memory)).await?;
        let client = Client::new(server.service(User::admin()), "default");
        install_crds(&client, &capstan_api::crd::all()).await?;
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped: BoxFuture<'static, ()> = stopped.map(|_| ()).boxed();
        let stopped = stopped.shared();
        let core = Core::new(client.clone());
        let mut running = JoinSet::new();
        running.spawn(extensionconfig::run(core.clone(), stopped.clone()));
        Ok(Self { server, client, core, running, stopped, stop })
    }

    fn configs(&self) -> Api<ExtensionConfig> {
        Api::all(self.client.clone())
    }

    /// Waits until the extension has been asked, and gives what is told of it.
    async fn until(&self, name: &str, status: &str) -> Result<ExtensionConfig> {
        eventually(PATIENCE, &format!("{name} to be Discovered {status}"), async || {
            let config = self.configs().get(name).await?;
            let condition = get(&config, "Discovered").context("nothing is told")?;
            ensure!(condition.status.to_string() == status, "{} {}", condition.status, condition.message);
            ensure!(condition.observed_generation == config.metadata.generation, "told of an earlier one");
            Ok(config)
        })
        .await
    }

    async fn end(self) {
        drop(self.stop);
        let mut running = self.running;
        running.shutdown().await;
        self.server.shutdown().await;
    }
}

fn request() -> CanUpdateMachineSetRequest {
    let side = |version: &str| {
        json!({
            "machineSet": {
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "metadata": {"name": "ms"},
                "spec": {"clusterName": "c", "selector": {}, "template": {"spec": {
                    "clusterName": "c", "version": version, "bootstrap": {},
                    "infrastructureRef": {"apiGroup": "i", "kind": "T", "name": "t"}}}},
            },
            "infrastructureMachineTemplate": {"spec": {"template": {"spec": {}}}},
        })
    };
    serde_json::from_value(json!({"current": side("v1.36.0"), "desired": side("v1.36.1")}))
        .expect("a request")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_is_discovered_found_and_called() -> Result<()> {
    let mut stage = Stage::start().await?;
    let extensions = stage.core.extensions.clone();
    ensure!(
        extensions.serving_now::<UpdateMachine>("default").await?.is_none(),
        "no extension is registered"
    );

    let (url, bundle) = serve(Mood::Willing, &mut stage.running).await?;
    register(&stage.client, "willing", &url, &bundle).await?;
    let config = stage.until("willing", "True").await?;
    let handlers = config.status.unwrap_or_default().handlers;
    let names: Vec<&str> = handlers.iter().map(|handler| handler.name.as_str()).collect();
    ensure!(
        names == ["can-update-machine-set.willing", "can-update-machine.willing", "update-machine.willing"],
        "{names:?}"
    );
    let handler =
        extensions.serving_now::<CanUpdateMachineSet>("default").await?.context("a registered extension")?;
    let answer = extensions.call::<CanUpdateMachineSet>(&handler, request()).await?.context("an answer")?;
    ensure!(answer.common.status == ResponseStatus::Success && answer.machine_set_patch.is_some());

    // What it says no to is no error of the wire.
    let (other, its_bundle) = serve(Mood::Unwilling, &mut stage.running).await?;
    let patch = json!({"spec": {"clientConfig": {"url": other, "caBundle": its_bundle}}});
    stage.configs().patch("willing", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    stage.until("willing", "True").await?;
    let handler =
        extensions.serving_now::<CanUpdateMachineSet>("default").await?.context("a registered extension")?;
    let answer = extensions.call::<CanUpdateMachineSet>(&handler, request()).await;
    ensure!(answer == Err(CallError::Failure(NO.to_owned())), "{answer:?}");

    // The certificates of another one are not believed, and what was said before counts until something else is.
    let patch = json!({"spec": {"clientConfig": {"caBundle": bundle}}});
    stage.configs().patch("willing", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    let config = stage.until("willing", "False").await?;
    let message = get(&config, "Discovered").context("told above")?.message.clone();
    ensure!(message.starts_with("Error in discovery: cannot trust it"), "{message}");
    let handler =
        extensions.serving_now::<CanUpdateMachineSet>("default").await?.context("a registered extension")?;
    let answer = extensions.call::<CanUpdateMachineSet>(&handler, request()).await;
    ensure!(matches!(answer, Err(CallError::Unreachable(_))), "{answer:?}");

    // They may stand in a Secret, which is watched.
    let secret = |bundle: &k8s_openapi::ByteString| -> Result<Secret> {
        Ok(serde_json::from_value(json!({"metadata": {"name": "ca"}, "data": {"ca.crt": bundle}}))?)
    };
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "default");
    secrets.create(&PostParams::default(), &secret(&bundle)?).await?;
    let named = json!({"metadata": {"annotations": {"runtime.cluster.x-k8s.io/inject-ca-from-secret": "default/ca"}}});
    stage.configs().patch("willing", &PatchParams::default(), &Patch::Merge(&named)).await?;
    stage.until("willing", "False").await?;
    secrets.replace("ca", &PostParams::default(), &secret(&its_bundle)?).await?;
    let config = stage.until("willing", "True").await?;
    ensure!(config.spec.client_config.ca_bundle == Some(its_bundle.clone()), "it was not filled in");

    // Of two nobody could say whose answer counts.
    register(&stage.client, "second", &other, &its_bundle).await?;
    stage.until("second", "True").await?;
    let error = extensions.serving_now::<UpdateMachine>("default").await.expect_err("there are two");
    let message = capstan_controller::error::chain(&error);
    ensure!(message.contains("update-machine.second, update-machine.willing"), "{message}");
    stage.configs().delete("second", &DeleteParams::default()).await?;
    ensure!(extensions.serving_now::<UpdateMachine>("default").await?.is_some());

    // One that has never answered may be one that must be asked.
    register(&stage.client, "silent", "https://127.0.0.1:1", &its_bundle).await?;
    stage.until("silent", "False").await?;
    let error = extensions.serving_now::<UpdateMachine>("default").await.expect_err("it may serve it");
    ensure!(capstan_controller::error::chain(&error).contains("silent"), "{error}");
    // The cache learns of it, and of its end.
    let cached = async |is_known: bool| {
        eventually(PATIENCE, "the cache to follow", async || {
            let found = extensions.serving::<UpdateMachine>("default").await;
            ensure!(found.is_err() == is_known, "{found:?}");
            Ok(found)
        })
        .await
    };
    ensure!(cached(true).await?.is_err_and(|error| error.to_string().contains("who serves UpdateMachine")));
    stage.configs().delete("silent", &DeleteParams::default()).await?;
    ensure!(cached(false).await??.is_some_and(|handler| handler.name == "update-machine.willing"));
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_may_want_to_know_who_calls() -> Result<()> {
    let mut stage = Stage::start().await?;
    let (authority_key, caller_key) = (KeyPair::generate()?, KeyPair::generate()?);
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key)?;
    let issuer = Issuer::from_ca_cert_pem(&authority.pem(), authority_key)?;
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let caller = params.signed_by(&caller_key, &issuer)?;
    let (certificate, key) = (tempfile::NamedTempFile::new()?, tempfile::NamedTempFile::new()?);
    std::fs::write(&certificate, caller.pem())?;
    std::fs::write(&key, caller_key.serialize_pem())?;

    let callers = Some(authority.pem().into_bytes());
    let (url, bundle) = serve_known(Mood::Willing, callers.as_deref(), &mut stage.running).await?;
    register(&stage.client, "careful", &url, &bundle).await?;
    stage.until("careful", "True").await?;
    let strangers = stage.core.extensions.clone();
    let handler = strangers.serving_now::<CanUpdateMachineSet>("default").await?.context("an extension")?;
    let identity = Identity { certificate: certificate.path().to_owned(), key: key.path().to_owned() };
    let known = strangers.clone().with_identity(identity);
    ensure!(known.call::<CanUpdateMachineSet>(&handler, request()).await?.is_some());
    ensure!(is_unauthorized(&strangers.call::<CanUpdateMachineSet>(&handler, request()).await));
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_are_for_core_in_the_same_process_unless_they_are_opened() -> Result<()> {
    let mut stage = Stage::start().await?;
    let options = capstan_hooks::Options::default();
    let hooks = capstan_hooks::start(&stage.client, &options, &stage.stopped).await?;
    let registered = hooks.registered();
    let caller = hooks.caller.context("a client certificate for core")?;
    let own = LocalIdentity { url: hooks.url, certificate: caller.certificate, key: caller.key };
    for task in hooks.tasks {
        stage.running.spawn(task);
    }
    tokio::time::timeout(PATIENCE, registered).await.context("it does not register")?;
    // The core of this stage is not the one in the process of the hooks: it is a stranger.
    stage.until("capstan", "True").await?;
    let strangers = stage.core.extensions.clone();
    let handler = strangers.serving_now::<CanUpdateMachineSet>("default").await?.context("an extension")?;
    let elsewhere = LocalIdentity { url: "https://127.0.0.1:1".to_owned(), ..own.clone() };
    for stranger in [strangers.clone(), strangers.clone().with_local_identity(elsewhere)] {
        let answer = stranger.call::<CanUpdateMachineSet>(&handler, request()).await;
        ensure!(is_unauthorized(&answer), "{answer:?}");
    }
    let core = strangers.with_local_identity(own);
    let answer = core.call::<CanUpdateMachineSet>(&handler, request()).await;
    ensure!(!matches!(answer, Err(CallError::Unreachable(_))), "{answer:?}");
    stage.end().await;
    Ok(())
}

/// Discovery is for every caller, all else for those with a certificate.
fn is_unauthorized<T>(answer: &Result<T, CallError>) -> bool {
    matches!(answer, Err(CallError::Unreachable(why)) if why.contains("401"))
}

#[tokio::test(flavor = "multi_thread")]
async fn capstan_registers_itself_and_says_no_where_users_look() -> Result<()> {
    let mut stage = Stage::start().await?;
    let options = capstan_hooks::Options { callers: Callers::Anyone, ..capstan_hooks::Options::default() };
    let hooks = capstan_hooks::start(&stage.client, &options, &stage.stopped).await?;
    let registered = hooks.registered();
    for task in hooks.tasks {
        stage.running.spawn(task);
    }
    tokio::time::timeout(PATIENCE, registered).await.context("it does not register")?;
    let first = stage.until("capstan", "True").await?;

    // Taken away, it comes back; changed by a user where it is the user's, it stays.
    let shop = json!({"spec": {"namespaceSelector": {"matchLabels": {"team": "shop"}}}});
    stage.configs().patch("capstan", &PatchParams::default(), &Patch::Merge(&shop)).await?;
    ensure!(
        stage.core.extensions.serving_now::<UpdateMachine>("default").await?.is_none(),
        "not for this namespace"
    );
    stage.configs().delete("capstan", &DeleteParams::default()).await?;
    eventually(PATIENCE, "the ExtensionConfig to come back", async || {
        let config = stage.configs().get("capstan").await?;
        ensure!(config.metadata.uid != first.metadata.uid, "it is still the first one");
        ensure!(config.spec.client_config == first.spec.client_config, "{:?}", config.spec);
        Ok(())
    })
    .await?;
    stage.until("capstan", "True").await?;

    let template = json!({"spec": {
        "clusterName": "c", "version": "v1.36.0", "bootstrap": {"dataSecretName": "x"},
        "infrastructureRef": {"apiGroup": "i", "kind": "T", "name": "t"},
    }});
    let deployment: MachineDeployment = serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "workers"},
        "spec": {"clusterName": "c", "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }))?;
    Api::namespaced(stage.client.clone(), "default").create(&PostParams::default(), &deployment).await?;
    let mut asked = request();
    let config = |distro: &str| -> Value {
        json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfigTemplate",
            "metadata": {"name": "setup"}, "spec": {"template": {"spec": {"distro": distro}}}})
    };
    asked.current.bootstrap_config_template = Some(config("k3s"));
    asked.desired.bootstrap_config_template = Some(config("rke2"));
    asked.desired.machine_set.metadata = serde_json::from_value(json!({
        "name": "workers-2", "namespace": "default", "labels": {"cluster.x-k8s.io/deployment-name": "workers"},
    }))?;
    let extensions = &stage.core.extensions;
    // What the API server has is known here a moment later.
    let handler = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(handler) = extensions.serving::<CanUpdateMachineSet>("default").await? {
                return anyhow::Ok(handler);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .context("Capstan serves it")??;
    let answer = extensions.call::<CanUpdateMachineSet>(&handler, asked).await;
    let Err(CallError::Failure(why)) = answer else { anyhow::bail!("{answer:?}") };
    ensure!(why.contains("CapstanConfigTemplate setup spec.template.spec.distro"), "{why}");
    let events: Api<Event> = Api::namespaced(stage.client.clone(), "default");
    let events = events.list(&ListParams::default()).await?.items;
    let event = events.iter().find(|event| event.reason.as_deref() == Some("ChangeRefused"));
    let event = event.context("there is no event")?;
    ensure!(event.involved_object.name.as_deref() == Some("workers"), "{event:?}");
    ensure!(event.message.as_deref() == Some(why.as_str()), "{event:?}");
    stage.end().await;
    Ok(())
}

/// An extension that could make a part of every change, and counts how often it is asked.
#[derive(Clone, Default)]
struct HalfWilling(Arc<AtomicUsize>);

impl Extension for HalfWilling {
    async fn can_update_machine(&self, asked: CanUpdateMachineRequest) -> CanUpdateMachineResponse {
        Mood::Unwilling.can_update_machine(asked).await
    }

    async fn can_update_machine_set(&self, asked: CanUpdateMachineSetRequest) -> CanUpdateMachineSetResponse {
        self.0.fetch_add(1, Ordering::SeqCst);
        let answer = Mood::Willing.can_update_machine_set(asked).await;
        CanUpdateMachineSetResponse { machine_set_patch: None, ..answer }
    }

    async fn update_machine(&self, asked: UpdateMachineRequest) -> UpdateMachineResponse {
        Mood::Unwilling.update_machine(asked).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_is_held_is_asked_about_once() -> Result<()> {
    let mut stage = Stage::start().await?;
    let extension = HalfWilling::default();
    let (url, bundle) = serve(extension.clone(), &mut stage.running).await?;
    register(&stage.client, "half", &url, &bundle).await?;
    stage.until("half", "True").await?;
    let infrastructure = "infrastructure.cluster.x-k8s.io";
    for object in [
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"infrastructureRef": {"apiGroup": infrastructure, "kind": "HostCluster", "name": "c"}}}),
        json!({"apiVersion": format!("{infrastructure}/v1alpha1"), "kind": "HostMachineTemplate",
            "metadata": {"name": "t"}, "spec": {"template": {"spec": {}}}}),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "md"},
            "spec": {"clusterName": "c", "replicas": 1, "selector": {}, "template": {"spec": {
                "clusterName": "c", "version": "v1.36.0", "bootstrap": {"dataSecretName": "x"},
                "infrastructureRef": {"apiGroup": infrastructure, "kind": "HostMachineTemplate", "name": "t"}}}}}),
    ] {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().context("a type")?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
        let api: Api<DynamicObject> = Api::namespaced_with(stage.client.clone(), "default", &resource);
        api.create(&PostParams::default(), &object).await.with_context(|| types.kind.clone())?;
    }
    let deployments: Api<MachineDeployment> = Api::namespaced(stage.client.clone(), "default");
    let sets: Api<MachineSet> = Api::namespaced(stage.client.clone(), "default");
    let reconciler = MachineDeploymentReconciler::new(stage.core.clone());
    // What is refused is an error of the user's, who is told by a condition.
    let look = async || {
        _ = Box::pin(reconciler.reconcile(Arc::new(deployments.get("md").await?))).await;
        anyhow::Ok(())
    };

    let first = eventually(PATIENCE, "a MachineSet", async || {
        look().await?;
        sets.list(&ListParams::default()).await?.items.pop().context("there is none")
    })
    .await?;
    let status = json!({"status": {"replicas": 1, "availableReplicas": 1}});
    sets.patch_status(&first.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await?;
    let next = json!({"spec": {"template": {"spec": {"version": "v1.36.1"}}}});
    deployments.patch("md", &PatchParams::default(), &Patch::Merge(&next)).await?;
    eventually(PATIENCE, "the rollout to be held", async || {
        look().await?;
        let condition =
            get(&deployments.get("md").await?, "RollingOut").cloned().context("nothing is told")?;
        ensure!(
            condition.reason == "RolloutHeld" && condition.message.contains("spec.version"),
            "{}",
            condition.message
        );
        Ok(())
    })
    .await?;
    for _ in 0..5 {
        look().await?;
    }
    let asked = extension.0.load(Ordering::SeqCst);
    ensure!(asked == 1, "the extension was asked {asked} times");
    ensure!(sets.list(&ListParams::default()).await?.items.len() == 1, "a MachineSet was made");
    stage.end().await;
    Ok(())
}
