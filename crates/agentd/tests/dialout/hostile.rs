//! What holders of a join token, machines and strangers must not be able to do.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_api::infrastructure::{Host, HostRegistration};
use capstan_plan::host_join::{JoinRequest, JoinToken, registration_name};
use jiff::{SignedDuration, Timestamp};
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use super::yard::Yard;

/// A client with this bearer token.
async fn client(token: &JoinToken, bearer: &str) -> Client {
    capstan_testkit::install_crypto_provider();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {
            "server": token.server, "certificate-authority-data": BASE64_STANDARD.encode(&token.ca),
        }}],
        "users": [{"name": "u", "user": {"token": bearer}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn registrations(client: &Client) -> Api<HostRegistration> {
    Api::namespaced(client.clone(), "default")
}

fn code<T: std::fmt::Debug>(answer: kube::Result<T>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("{other:?}"),
    }
}

/// A registration as a holder of the token makes it, with a change.
fn forged(token: &JoinToken, number: u128, change: &dyn Fn(&mut Value)) -> HostRegistration {
    let (name, public_key) = (registration_name(number), "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE");
    let request = JoinRequest { namespace: &token.namespace, registration: &name, public_key, nonce: "n" };
    let mut object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostRegistration",
        "metadata": {"name": name, "namespace": token.namespace},
        "spec": {"publicKey": public_key, "nonce": "n", "token": token.name, "proof": request.prove(&token.key)},
    });
    change(&mut object);
    serde_json::from_value(object).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_token_registers_and_can_do_nothing_else() {
    let yard = Yard::start().await;
    let token = yard.token("edge", 2, "manual").await;
    let holder = client(&token, token.bearer.expose()).await;
    let of_holder = registrations(&holder);
    let first = forged(&token, 1, &|_| {});
    let name = first.metadata.name.clone().unwrap();
    of_holder.create(&Default::default(), &first).await.unwrap();

    let patch = kube::api::Patch::Merge(json!({"spec": {"host": "web-0"}}));
    let status = kube::api::Patch::Merge(json!({"status": {"agentVersion": "x"}}));
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(holder.clone(), "default");
    let hosts: Api<Host> = Api::namespaced(holder.clone(), "default");
    for (case, code) in [
        ("list registrations", code(of_holder.list(&Default::default()).await)),
        ("change one", code(of_holder.patch(&name, &Default::default(), &patch).await)),
        ("write its status", code(of_holder.patch_status(&name, &Default::default(), &status).await)),
        ("delete one", code(of_holder.delete(&name, &Default::default()).await)),
        ("read the token", code(secrets.get("host-token-edge").await)),
        ("list hosts", code(hosts.list(&Default::default()).await)),
    ] {
        assert_eq!(code, 403, "{case}");
    }
    assert_eq!(code(of_holder.create(&Default::default(), &first).await), 409, "overwrite one");
    let oversized =
        forged(&token, 2, &|object| object["spec"]["facts"] = json!({"hostname": "x".repeat(254)}));
    assert_eq!(code(of_holder.create(&Default::default(), &oversized).await), 422, "oversized facts");

    // What a machine writes about itself when it registers approves nothing.
    let bold = forged(&token, 3, &|object| {
        object["metadata"]["finalizers"] = json!(["example.com/for-ever"]);
        object["spec"]["host"] = json!("web-0");
        object["status"] = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Approved",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    });
    let created = of_holder.create(&Default::default(), &bold).await.unwrap();
    assert_eq!(created.status, None);
    let bold = created.metadata.name.unwrap();
    yard.says::<HostRegistration>(&bold, "Approved", "WaitingForApproval").await;

    // Nor does it keep the registration when that is denied, or keep another one from being refused.
    yard.api::<HostRegistration>().delete(&bold, &Default::default()).await.unwrap();
    yard.until("the denied registration to go", async || {
        yard.api::<HostRegistration>().get_opt(&bold).await.is_ok_and(|found| found.is_none())
    })
    .await;
    let paused = forged(&token, 4, &|object| {
        object["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": ""});
        object["spec"]["proof"] = json!("0".repeat(64));
    });
    let paused = of_holder.create(&Default::default(), &paused).await.unwrap().metadata.name.unwrap();
    yard.says::<HostRegistration>(&paused, "Approved", "RegistrationRefused").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_without_a_right_to_one_are_refused_with_the_reason() {
    let yard = Yard::start().await;
    let (token, other) = (yard.token("edge", 1, "manual").await, yard.token("other", 1, "always").await);
    let past = Timestamp::now() - SignedDuration::from_mins(1);
    let expired = yard.token_until("expired", 1, "always", past).await;
    let of_holder = registrations(&client(&token, token.bearer.expose()).await);
    for (number, (case, token, change, says)) in [
        ("the first machine", &token, json!({}), None),
        ("a spent token", &token, json!({}), Some("was for 1 machines")),
        ("an expired token", &expired, json!({}), Some("expired at")),
        ("no proof", &other, json!({"proof": "0".repeat(64)}), Some("no proof")),
        ("the rule of another token", &token, json!({"token": "other"}), Some("no proof")),
        (
            "a token that does not exist",
            &token,
            json!({"token": "nothing"}),
            Some("there is no join token nothing"),
        ),
        ("the key of another machine", &other, json!({"publicKey": "AAAA"}), Some("no proof")),
    ]
    .into_iter()
    .enumerate()
    {
        let forged = forged(token, 100 + number as u128, &|object| {
            for (key, value) in change.as_object().unwrap() {
                object["spec"][key.as_str()] = value.clone();
            }
        });
        let name = forged.metadata.name.clone().unwrap();
        of_holder.create(&Default::default(), &forged).await.unwrap();
        match says {
            None => _ = yard.says::<HostRegistration>(&name, "Approved", "WaitingForApproval").await,
            Some(says) => {
                let message = yard.says::<HostRegistration>(&name, "Approved", "RegistrationRefused").await;
                assert!(message.contains(says), "{case}: {message}");
            }
        }
    }
    assert!(yard.api::<Host>().list(&Default::default()).await.unwrap().items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_reads_and_writes_its_own_registration_only() {
    let yard = Yard::start().await;
    let token = yard.token("edge", 2, "always").await;
    let foreign = forged(&token, 9, &|_| {});
    let foreign = yard.api::<HostRegistration>().create(&Default::default(), &foreign).await.unwrap();
    let foreign = foreign.metadata.name.unwrap();
    assert!(yard.register(token.encode().expose(), &[]).status.success());
    let _agent = yard.dial();
    let own = yard.registration();
    yard.host_of(&own).await;
    let mut credential = None;
    yard.until("the credential of the machine", async || {
        let file = std::fs::read(yard.at("/etc/capstan-host/registration.json")).unwrap();
        let file: Value = serde_json::from_slice(&file).unwrap();
        credential = file["credential"]["token"].as_str().map(str::to_owned);
        credential.is_some()
    })
    .await;
    let machine = registrations(&client(&token, &credential.unwrap()).await);
    assert!(machine.get(&own).await.is_ok());
    let status = kube::api::Patch::Merge(json!({"status": {"agentVersion": "x"}}));
    let spec = kube::api::Patch::Merge(json!({"spec": {"host": "web-0"}}));
    for (case, code) in [
        ("read a foreign one", code(machine.get(&foreign).await)),
        (
            "write the status of a foreign one",
            code(machine.patch_status(&foreign, &Default::default(), &status).await),
        ),
        ("change its own", code(machine.patch(&own, &Default::default(), &spec).await)),
        ("delete its own", code(machine.delete(&own, &Default::default()).await)),
        ("list all", code(machine.list(&Default::default()).await)),
        ("register another", code(machine.create(&Default::default(), &forged(&token, 10, &|_| {})).await)),
    ] {
        assert_eq!(code, 403, "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_a_join_token_is_refused_before_any_request() {
    let yard = Yard::start().await;
    for (token, says) in [("", "not a join token"), ("capstan-host-1.e30", "damaged")] {
        let output = yard.register(token, &[]);
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains(says), "{output:?}");
    }
    // A token whose bearer is of no use: the machine says what to do.
    let mut token = yard.token("edge", 1, "manual").await;
    token.bearer = capstan_plan::SecretText::new("nonsense");
    let output = yard.register(token.encode().expose(), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("capstan host token"), "{said}");
    assert!(!said.contains("nonsense"), "{said}");
}
