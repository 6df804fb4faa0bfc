//! What enrolment must be on any plane.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use capstan_api::access::MACHINE_ACCOUNTS;
use capstan_api::agent::{CredentialRequest, MachineReport};
use capstan_api::bootstrap::CapstanConfig;
use capstan_controller::Reconciler as _;
use capstan_testkit::eventually;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::json;

use super::{DEADLINE, Enrolling, Stage, plan_in_status, request};
use capstan_testkit::crash::CrashPoint;

/// Accounts of a machine that has enrolled, and of one that has not.
const ENROLLED: &str = "web-0.agent.machine.capstan.dev";
const ENROLLING: &str = "web-0.enrol.machine.capstan.dev";

/// Waits until the events of a CapstanConfig have these reasons.
async fn has_events(stage: &Stage, name: &str, expected: &[&str]) {
    eventually(DEADLINE, &format!("events of CapstanConfig {name}"), async || {
        let all = stage.api::<Event>().list(&ListParams::default()).await?;
        let own = all.iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
        let own = own.filter(|event| event.involved_object.kind.as_deref() == Some("CapstanConfig"));
        let mut reasons: Vec<&str> = own.filter_map(|event| event.reason.as_deref()).collect();
        reasons.sort_unstable();
        ensure!(reasons == expected, "{reasons:?}");
        Ok(())
    })
    .await
    .unwrap();
}

/// Nobody waits for the next look at the machine.
async fn widened_rights_are_taken_back(stage: &Stage) {
    let (roles, bindings) = (stage.api::<Role>(), stage.api::<RoleBinding>());
    let before = (roles.get("web-0-agent").await.unwrap(), bindings.get("web-0-agent").await.unwrap());
    let wide = json!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    roles.patch("web-0-agent", &PatchParams::default(), &Patch::Merge(wide)).await.unwrap();
    let more =
        json!({"subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}]});
    bindings.patch("web-0-agent", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    eventually(DEADLINE, "the rights to be what they were", async || {
        let (role, binding) = (roles.get("web-0-agent").await?, bindings.get("web-0-agent").await?);
        ensure!(
            role.rules == before.0.rules && binding.subjects == before.1.subjects,
            "{role:?} {binding:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
}

/// From the enrolment token to the credential and to the end of a machine's rights, and what a hostile machine may try on the way.
pub(crate) async fn story(stage: &Stage) {
    let _running = stage.run();
    stage.machine("web-0").await;
    stage.machine("web-1").await;
    let machine = stage.started("web-0").await;
    let other = stage.started("web-1").await;
    stage.says("web-0", "WaitingForMachine").await;

    // A token is good for one thing.
    let own: Api<MachineReport> = stage.as_seen_by(&machine.client);
    assert_eq!(own.get("web-0").await.unwrap().spec.machine_name, "web-0");
    nothing_else(stage, &machine.client, false).await;

    // What a machine may not have.
    refused_requests(stage, &machine).await;
    let report = stage.api::<MachineReport>().get("web-0").await.unwrap();
    assert_eq!((report.spec.enrolled_key, report.spec.credential), (None, None));

    // What it may.
    stage.ask(&machine.client, "web-0", &machine.request()).await.unwrap();
    let token = stage.token(&machine, None).await;
    assert!(stage.says("web-0", "Enrolled").await.contains("valid until"));
    let enrolled = stage.address.with_token(&token).await;
    let sealed = serde_json::to_string(&stage.api::<MachineReport>().get("web-0").await.unwrap()).unwrap();
    assert!(!sealed.contains(&token), "others that read the report cannot use it");
    assert_eq!(other.open(&stage.api::<MachineReport>().get("web-0").await.unwrap()), None);
    works(stage, &enrolled).await;
    nothing_else(stage, &enrolled, true).await;
    has_events(stage, "web-0", &["Enrolled", "RequestRefused"]).await;
    has_events(stage, "web-1", &[]).await;

    // The token and everything about it is gone.
    eventually(DEADLINE, "the token to be dead", async || {
        let answer = own.get("web-0").await;
        ensure!(matches!(&answer, Err(kube::Error::Api(status)) if status.code == 401), "{answer:?}");
        Ok(())
    })
    .await
    .unwrap();
    assert!(stage.api::<ServiceAccount>().get_opt(ENROLLING).await.unwrap().is_none());

    widened_rights_are_taken_back(stage).await;

    // Another key, even with its own credential; then the same key again.
    let stolen = request(&KeyPair::generate().unwrap());
    stage.ask(&enrolled, "web-0", &stolen).await.unwrap();
    assert!(stage.says("web-0", "RequestRefused").await.contains("another key"));
    let patch = json!({"metadata": {"annotations": {"capstan.dev/answered-at": "2026-01-01T00:00:00Z"}}});
    let reports = stage.api::<MachineReport>();
    reports.patch("web-0", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    stage.ask(&enrolled, "web-0", &machine.request()).await.unwrap();
    let renewed = stage.token(&machine, Some(&token)).await;
    let enrolled = stage.address.with_token(&renewed).await;
    stage.says("web-0", "Enrolled").await;
    works(stage, &enrolled).await;

    let enrolled = enrols_again_without_its_account(stage, &machine, &renewed).await;

    // With its CapstanConfig the machine's rights go, and no others.
    stage.ask(&other.client, "web-1", &other.request()).await.unwrap();
    let neighbour = stage.address.with_token(&stage.token(&other, None).await).await;
    stage.api::<CapstanConfig>().delete("web-0", &DeleteParams::default()).await.unwrap();
    let secrets: Api<Secret> = stage.as_seen_by(&enrolled);
    eventually(DEADLINE, "the rights to be gone", async || {
        let answer = secrets.get("web-0-plan").await;
        let is_unknown = matches!(&answer, Err(kube::Error::Api(status)) if status.code == 401);
        ensure!(is_forbidden(&answer) || is_unknown, "{answer:?}");
        Ok(())
    })
    .await
    .unwrap();
    eventually(DEADLINE, "all objects of the machine to be gone", async || {
        let all = ListParams::default();
        let roles = stage.api::<Role>().list(&all).await?.items.len();
        let bindings = stage.api::<RoleBinding>().list(&all).await?.items.len();
        let leases = stage.api::<Lease>().list(&all).await?.items.len();
        let reports = stage.api::<MachineReport>().list(&all).await?.items.len();
        ensure!((roles, bindings, leases, reports) == (2, 2, 1, 1), "{roles} {bindings} {leases} {reports}");
        Ok(())
    })
    .await
    .unwrap();
    let plans: Api<Secret> = stage.as_seen_by(&neighbour);
    plans.get("web-1-plan").await.unwrap();
}

/// A person deletes the account of a machine. Its token is worth nothing then, so the machine is told how to enrol again.
async fn enrols_again_without_its_account(stage: &Stage, machine: &Enrolling, token: &str) -> Client {
    stage.api::<ServiceAccount>().delete(ENROLLED, &DeleteParams::default()).await.unwrap();
    let told = eventually(DEADLINE, "the machine to be told", async || {
        stage.follow_input("web-0").await.context("it is not told")
    });
    let client = stage.address.with_token(told.await.unwrap()["token"].as_str().unwrap()).await;
    stage.says("web-0", "WaitingForMachineToFollow").await;
    let stolen = request(&KeyPair::generate().unwrap());
    stage.ask(&client, "web-0", &stolen).await.unwrap();
    assert!(stage.says("web-0", "RequestRefused").await.contains("another key"), "its key stays its key");
    let patch = json!({"status": {"credentialRequest": machine.request(), "agentVersion": null}});
    let own: Api<MachineReport> = stage.as_seen_by(&client);
    own.patch_status("web-0", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let enrolled = stage.address.with_token(&stage.token(machine, Some(token)).await).await;
    works(stage, &enrolled).await;
    eventually(DEADLINE, "the hand-over to be over", async || {
        ensure!(stage.follow_input("web-0").await.is_none(), "it is still told");
        Ok(())
    })
    .await
    .unwrap();
    enrolled
}

/// Requests of a hostile machine: each is refused, and says why.
async fn refused_requests(stage: &Stage, machine: &Enrolling) {
    let good = machine.request();
    let ask = |public_key: &str, nonce: &str| CredentialRequest {
        public_key: public_key.to_owned(),
        nonce: nonce.to_owned(),
    };
    let other = request(&KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap());
    for (request, why) in [
        (ask("hello", "1"), "publicKey is not a P-256 key"),
        (ask(&other.public_key, "2"), "publicKey is not a P-256 key"),
        (ask(&good.public_key, "a b"), "nonce"),
    ] {
        stage.ask(&machine.client, "web-0", &request).await.unwrap();
        eventually(DEADLINE, why, async || {
            let message = stage.says("web-0", "RequestRefused").await;
            ensure!(message.contains(why), "{message}");
            Ok(())
        })
        .await
        .unwrap();
    }
    for request in [ask(&"x".repeat(257), "1"), ask(&good.public_key, &"x".repeat(65))] {
        let answer = stage.ask(&machine.client, "web-0", &request).await;
        assert!(matches!(&answer, Err(kube::Error::Api(status)) if status.code == 422), "{answer:?}");
    }
}

fn is_forbidden<T>(answer: &Result<T, kube::Error>) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 403)
}

#[expect(clippy::needless_pass_by_value, reason = "each answer is looked at once")]
fn forbidden<T: Debug>(what: &str, answer: Result<T, kube::Error>) {
    assert!(is_forbidden(&answer), "{what}: {answer:?}");
}

/// Everything a machine that has enrolled needs.
async fn works(stage: &Stage, client: &Client) {
    let secrets: Api<Secret> = stage.as_seen_by(client);
    secrets.get("web-0-plan").await.unwrap();
    let only = "metadata.name=web-0-plan";
    assert_eq!(secrets.list(&ListParams::default().fields(only)).await.unwrap().items.len(), 1);
    drop(secrets.watch(&WatchParams::default().fields(only), "0").await.unwrap());
    let reports: Api<MachineReport> = stage.as_seen_by(client);
    let only = "metadata.name=web-0";
    assert_eq!(reports.list(&ListParams::default().fields(only)).await.unwrap().items.len(), 1);
    drop(reports.watch(&WatchParams::default().fields(only), "0").await.unwrap());
    let merge = PatchParams::default();
    let version = Patch::Merge(json!({"status": {"agentVersion": "v0"}}));
    reports.patch_status("web-0", &merge, &version).await.unwrap();
    let leases: Api<Lease> = stage.as_seen_by(client);
    let held = Patch::Merge(json!({"spec": {"holderIdentity": "web-0", "leaseDurationSeconds": 40}}));
    leases.patch("web-0-agent", &merge, &held).await.unwrap();
    let lease = leases.get("web-0-agent").await.unwrap();
    leases.replace("web-0-agent", &PostParams::default(), &lease).await.unwrap();
}

/// What a machine tries in vain. One that has enrolled may read its plan and hold its lease; one with a token not even
/// that.
async fn nothing_else(stage: &Stage, client: &Client, is_enrolled: bool) {
    let (all, delete, merge) = (ListParams::default(), DeleteParams::default(), PatchParams::default());
    let any = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let secrets: Api<Secret> = stage.as_seen_by(client);
    let reports: Api<MachineReport> = stage.as_seen_by(client);
    let leases: Api<Lease> = stage.as_seen_by(client);
    if !is_enrolled {
        forbidden("its plan", secrets.get("web-0-plan").await);
        forbidden("its lease", leases.get("web-0-agent").await);
    }
    // Its own objects, beyond what it may do with them.
    forbidden("write its plan", secrets.patch("web-0-plan", &merge, &any).await);
    forbidden("delete its plan", secrets.delete("web-0-plan", &delete).await.map(|_| ()));
    let spec = Patch::Merge(json!({"spec": {"enrolledKey": "0".repeat(64)}}));
    forbidden("write its record", reports.patch("web-0", &merge, &spec).await);
    forbidden("delete its report", reports.delete("web-0", &delete).await.map(|_| ()));
    forbidden("delete its lease", leases.delete("web-0-agent", &delete).await.map(|_| ()));
    // What it starts with.
    for name in ["web-0", "c-plan-key", "web-1", "web-1-plan"] {
        forbidden(name, secrets.get(name).await);
    }
    // Its neighbour.
    forbidden("a neighbour's report", reports.get("web-1").await);
    let status = Patch::Merge(json!({"status": {"agentVersion": "v0"}}));
    forbidden("a neighbour's status", reports.patch_status("web-1", &merge, &status).await);
    forbidden("a neighbour's lease", leases.get("web-1-agent").await);
    // Everything at once.
    forbidden("all Secrets", secrets.list(&all).await.map(|_| ()));
    forbidden("all Secrets of this name or another", {
        secrets.list(&ListParams::default().fields("metadata.name!=x")).await.map(|_| ())
    });
    forbidden("all reports", reports.list(&all).await.map(|_| ()));
    forbidden(
        "all reports everywhere",
        Api::<MachineReport>::all(client.clone()).list(&all).await.map(|_| ()),
    );
    forbidden("all configs", stage.as_seen_by::<CapstanConfig>(client).list(&all).await.map(|_| ()));
    forbidden("all namespaces", Api::<Namespace>::all(client.clone()).list(&all).await.map(|_| ()));
    forbidden("delete all reports", reports.delete_collection(&delete, &all).await.map(|_| ()));
    // More rights.
    let accounts: Api<ServiceAccount> = stage.as_seen_by(client);
    let (post, asked) = (PostParams::default(), TokenRequest::default());
    for account in [ENROLLED, ENROLLING] {
        let token = accounts.create_token_request(account, &post, &asked);
        forbidden("another token", token.await.map(|_| ()));
    }
    let roles: Api<Role> = stage.as_seen_by(client);
    forbidden("its role", roles.get("web-0-agent").await);
    let bindings: Api<RoleBinding> = stage.as_seen_by(client);
    forbidden("its binding", bindings.patch("web-0-agent", &merge, &any).await);
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    forbidden("all certificate requests", requests.list(&all).await.map(|_| ()));
    let mut masters = CertificateParams::default();
    masters.distinguished_name.push(DnType::OrganizationName, "system:masters");
    let masters = masters.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let csr: CertificateSigningRequest = serde_json::from_value(json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "evil"},
        "spec": {
            "request": k8s_openapi::ByteString(masters.into_bytes()),
            "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
        },
    }))
    .unwrap();
    forbidden("a certificate request", requests.create(&PostParams::default(), &csr).await);
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "mine"}})).unwrap();
    forbidden("a Secret", secrets.create(&PostParams::default(), &secret).await);
}

/// The manager dies at every write there is, before it or after, and the next one goes on. `connect` makes a client with
/// such a life.
pub(crate) async fn killed_at_any_write(stage: &Stage, connect: impl Fn(&CrashPoint) -> Client) {
    let whole = Box::pin(one_life(stage, &connect, i64::MAX, false)).await;
    assert!(whole > 8, "a machine enrols in {whole} writes");
    for writes in 1..=whole {
        for reaches in [false, true] {
            Box::pin(one_life(stage, &connect, writes, reaches)).await;
        }
    }
}

/// A machine enrols while the manager dies at a certain write, and the next one goes on. Gives how many writes it took.
async fn one_life(
    stage: &Stage,
    connect: &impl Fn(&CrashPoint) -> Client,
    writes: i64,
    reaches: bool,
) -> i64 {
    let name = format!("m-{}-{reaches}", if writes == i64::MAX { 0 } else { writes });
    stage.machine(&name).await;
    let crash_point = CrashPoint::new(writes, reaches);
    let (mut crashing, surviving) =
        (Some(stage.reconciler(connect(&crash_point))), stage.reconciler(stage.admin.clone()));
    let mut machine = None;
    let mut last = String::new();
    for _ in 0..200 {
        let object = Arc::new(stage.api::<CapstanConfig>().get(&name).await.unwrap());
        let reconciler = crashing.as_ref().filter(|_| !crash_point.is_dead()).unwrap_or(&surviving);
        if let Err(error) = Box::pin(reconciler.reconcile(object)).await {
            last = capstan_controller::error::chain(&error);
        }
        if crash_point.is_dead() {
            crashing = None;
        }
        if machine.is_none() && stage.agent_config(&name).await.is_ok() {
            let started = stage.started(&name).await;
            stage.ask(&started.client, &name, &started.request()).await.unwrap();
            machine = Some(started);
        }
        if let Some(machine) = &machine
            && let Some(token) = machine.open(&stage.api::<MachineReport>().get(&name).await.unwrap())
        {
            let client = stage.address.with_token(&token).await;
            let hello = Patch::Merge(json!({"status": {"agentVersion": "v0"}}));
            let reports: Api<MachineReport> = stage.as_seen_by(&client);
            reports.patch_status(&name, &PatchParams::default(), &hello).await.unwrap();
        }
        let config = stage.api::<CapstanConfig>().get(&name).await.unwrap();
        let is_enrolled = capstan_api::conditions::is_true(&config, "AgentEnrolled");
        let is_clean = has_no_enrolment(stage, &name).await;
        let told = config.status.as_ref().and_then(|status| status.plan.as_ref());
        assert_eq!(json!(told), plan_in_status(), "what the planner has written is kept");
        if is_enrolled && is_clean {
            let report = stage.api::<MachineReport>().get(&name).await.unwrap();
            let token = machine.unwrap().open(&report).expect("a token for this machine");
            let client = stage.address.with_token(&token).await;
            let plans: Api<Secret> = stage.as_seen_by(&client);
            plans.get(&format!("{name}-plan")).await.unwrap();
            return writes - crash_point.left();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("killed at write {writes}, the next manager gets nowhere: {last}");
}

/// A machine has enrolled, and the plane it knows is elsewhere now: it is told, and enrols with the key it has. The manager
/// dies at every write there is on the way.
pub(crate) async fn killed_while_following(stage: &Stage, connect: impl Fn(&CrashPoint) -> Client) {
    let whole = Box::pin(one_hand_over(stage, &connect, i64::MAX, false)).await;
    assert!(whole > 5, "a machine follows in {whole} writes");
    for writes in 1..=whole {
        for reaches in [false, true] {
            Box::pin(one_hand_over(stage, &connect, writes, reaches)).await;
        }
    }
}

async fn one_hand_over(
    stage: &Stage,
    connect: &impl Fn(&CrashPoint) -> Client,
    writes: i64,
    reaches: bool,
) -> i64 {
    let name = format!("f-{}-{reaches}", if writes == i64::MAX { 0 } else { writes });
    stage.machine(&name).await;
    let reconciler = stage.reconciler(stage.admin.clone());
    let mut machine = None;
    for _ in 0..200 {
        let config = stage.api::<CapstanConfig>().get(&name).await.unwrap();
        Box::pin(reconciler.reconcile(Arc::new(config))).await.unwrap();
        if machine.is_none() && stage.agent_config(&name).await.is_ok() {
            let started = stage.started(&name).await;
            stage.ask(&started.client, &name, &started.request()).await.unwrap();
            machine = Some(started);
        }
        if let Some(machine) = &machine
            && says_hello(stage, &name, machine, &stage.address.server).await
        {
            break;
        }
    }
    let machine = machine.expect("bootstrap data");
    let reports = stage.api::<MachineReport>();
    let key = reports.get(&name).await.unwrap().spec.enrolled_key;
    assert!(key.is_some() && stage.follow_input(&name).await.is_none());

    let crash_point = CrashPoint::new(writes, reaches);
    let mut crashing = Some(stage.reconciler_elsewhere(connect(&crash_point)));
    let surviving = stage.reconciler_elsewhere(stage.admin.clone());
    let mut asked = None;
    let mut last = String::new();
    for _ in 0..200 {
        let object = Arc::new(stage.api::<CapstanConfig>().get(&name).await.unwrap());
        let reconciler = crashing.as_ref().filter(|_| !crash_point.is_dead()).unwrap_or(&surviving);
        if let Err(error) = Box::pin(reconciler.reconcile(object)).await {
            last = capstan_controller::error::chain(&error);
        }
        if crash_point.is_dead() {
            crashing = None;
        }
        // The machine takes what it is told, and asks with another request, for the key it has. What lies in its report
        // from before is no answer to that.
        if let Some(config) = stage.follow_input(&name).await
            && asked.is_none()
        {
            assert_eq!((&config["server"], &config["epoch"]), (&json!(super::ELSEWHERE), &json!(1)));
            assert_eq!(reports.get(&name).await.unwrap().spec.credential, None);
            let client = stage.address.with_token(config["token"].as_str().unwrap()).await;
            let patch = json!({"status": {"credentialRequest": machine.request(), "agentVersion": null}});
            let own: Api<MachineReport> = stage.as_seen_by(&client);
            own.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
            asked = Some(client);
        }
        if asked.is_some()
            && says_hello(stage, &name, &machine, super::ELSEWHERE).await
            && stage.follow_input(&name).await.is_none()
        {
            let report = reports.get(&name).await.unwrap();
            assert_eq!(report.spec.enrolled_key, key, "its key is its key");
            return writes - crash_point.left();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("killed at write {writes}, the next manager gets nowhere: {last}");
}

/// The machine shows that it has its credential, if it has one for this address; and whether all is in order then.
async fn says_hello(stage: &Stage, name: &str, machine: &Enrolling, server: &str) -> bool {
    let report = stage.api::<MachineReport>().get(name).await.unwrap();
    let with = report.spec.enrolled_with.as_ref().filter(|with| with.server == server);
    let (Some(token), Some(_)) = (machine.open(&report), with) else { return false };
    let client = stage.address.with_token(&token).await;
    let hello = Patch::Merge(json!({"status": {"agentVersion": "v0"}}));
    let reports: Api<MachineReport> = stage.as_seen_by(&client);
    reports.patch_status(name, &PatchParams::default(), &hello).await.unwrap();
    let config = stage.api::<CapstanConfig>().get(name).await.unwrap();
    capstan_api::conditions::is_true(&config, "AgentEnrolled") && has_no_enrolment(stage, name).await
}

/// Whether the account of the enrolment token is gone.
async fn has_no_enrolment(stage: &Stage, name: &str) -> bool {
    let account = format!("{name}.enrol{MACHINE_ACCOUNTS}");
    stage.api::<ServiceAccount>().get_opt(&account).await.unwrap().is_none()
}
