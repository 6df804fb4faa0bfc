//! One machine from its registration to its reset.

use capstan_api::infrastructure::{Host, HostMachine, HostRegistration};
use capstan_infrastructure::hostregistration::host;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, PostParams};

use super::yard::Yard;

const DATA: &str =
    "#cloud-config\nwrite_files:\n- path: /etc/hello\n  content: hello\nruncmd:\n- [\"true\"]\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_registered_claimed_bootstrapped_and_reset_without_an_inbound_connection() {
    let yard = Yard::start().await;
    let token = yard.token("edge", 1, "manual").await.encode();
    let output = yard.register(token.expose(), &[]);
    assert!(output.status.success(), "{output:?}");
    let name = yard.registration();
    assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("capstan host approve {name}")));
    let mut agent = yard.dial();

    // It waits for a person, who makes the Host.
    let message = yard.says::<HostRegistration>(&name, "Approved", "WaitingForApproval").await;
    assert!(message.contains(&format!("capstan host approve {name}")), "{message}");
    let registration = yard.api::<HostRegistration>().get(&name).await.unwrap();
    let mut approved = host("rack-1", &registration, None);
    approved.labels_mut().insert("site".to_owned(), "a".to_owned());
    yard.api::<Host>().create(&PostParams::default(), &approved).await.unwrap();
    yard.says::<HostRegistration>(&name, "Approved", "Approved").await;
    yard.says::<Host>("rack-1", "Reachable", "Reachable").await;
    let facts = yard.api::<Host>().get("rack-1").await.unwrap().status.unwrap().facts.unwrap();
    assert!(facts.kernel_version.is_some() && facts.architecture.is_some(), "{facts:?}");
    // The file with the join token's bearer has the machine's own credential now.
    yard.until("the machine to have its credential", async || {
        let file = std::fs::read_to_string(yard.at("/etc/capstan-host/registration.json")).unwrap();
        file.contains("\"credential\"") && !file.contains("\"joining\"")
    })
    .await;

    // Nothing else reaches the machine, so the registration stays as long as its Host, also if it is deleted.
    yard.api::<HostRegistration>().delete(&name, &DeleteParams::default()).await.unwrap();

    // It is claimed and bootstrapped.
    yard.machine("m", DATA).await;
    yard.says::<HostMachine>("m", "BootstrapExecuted", "Bootstrapped").await;
    assert_eq!(std::fs::read_to_string(yard.at("/etc/hello")).unwrap(), "hello");

    // The agent dies and comes back while the machine is deleted.
    agent.kill();
    yard.api::<HostMachine>().delete("m", &DeleteParams::default()).await.unwrap();
    let mut agent = yard.dial();
    yard.until("the Host to be released", async || {
        yard.api::<Host>().get("rack-1").await.is_ok_and(|host| host.spec.claim.is_none())
    })
    .await;
    assert!(!yard.at("/etc/hello").exists());
    let host = yard.api::<Host>().get("rack-1").await.unwrap();
    assert_eq!(host.spec.quarantine, None);

    // It leaves the inventory: the registration goes with its Host, and the agent ends.
    yard.api::<Host>().delete("rack-1", &DeleteParams::default()).await.unwrap();
    yard.until("the agent to end", async || agent.has_ended()).await;
    assert!(yard.unregister().status.success());
    for path in ["/etc/capstan-host", "/var/lib/capstan-host"] {
        assert!(!yard.at(path).exists(), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_approves_a_machine_and_a_machine_that_registers_again_keeps_its_host() {
    let yard = Yard::start().await;
    let token = yard.token("edge", 2, "cpus>=1").await.encode();
    assert!(yard.register(token.expose(), &[]).status.success());
    let mut agent = yard.dial();
    let first = yard.registration();
    let host = yard.host_of(&first).await;
    assert!(host.name_any().starts_with("edge-") && host.labels()["site"] == "a");
    yard.says::<Host>(&host.name_any(), "Reachable", "Reachable").await;

    // Without --again a registered machine stays as it is.
    let refused = yard.register(token.expose(), &[]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--again"), "{refused:?}");
    agent.kill();

    // A token that the plane does not accept costs the machine nothing.
    let file = yard.at("/etc/capstan-host/registration.json");
    let before = std::fs::read(&file).unwrap();
    let mut useless = yard.token("useless", 1, "manual").await;
    useless.bearer = capstan_plan::SecretText::new("nonsense");
    let refused = yard.register(useless.encode().expose(), &["--again"]);
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(std::fs::read(&file).unwrap(), before);

    let manual = yard.token("again", 1, "manual").await.encode();
    assert!(yard.register(manual.expose(), &["--again"]).status.success());
    let second = yard.registration();
    assert_ne!(first, second);
    let _agent = yard.dial();
    yard.says::<HostRegistration>(&second, "Approved", "WaitingForApproval").await;
    let key = yard.api::<HostRegistration>().get(&second).await.unwrap().spec.public_key;
    let patch = serde_json::json!({"spec": {"registration": {"name": second, "publicKey": key}}});
    let patch = kube::api::Patch::Merge(patch);
    yard.api::<Host>().patch(&host.name_any(), &Default::default(), &patch).await.unwrap();
    yard.says::<HostRegistration>(&second, "Approved", "Approved").await;
    yard.until("the former registration to go", async || {
        yard.api::<HostRegistration>().get_opt(&first).await.is_ok_and(|found| found.is_none())
    })
    .await;
    yard.says::<Host>(&host.name_any(), "Reachable", "Reachable").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_denied_ends_and_does_not_come_back() {
    let yard = Yard::start().await;
    let token = yard.token("edge", 1, "manual").await.encode();
    assert!(yard.register(token.expose(), &[]).status.success());
    let name = yard.registration();
    let mut agent = yard.dial();
    yard.says::<HostRegistration>(&name, "Approved", "WaitingForApproval").await;
    yard.api::<HostRegistration>().delete(&name, &DeleteParams::default()).await.unwrap();
    yard.until("the agent to end", async || agent.has_ended()).await;
    let mut again = yard.dial();
    yard.until("the agent to end again", async || again.has_ended()).await;
    // Nor does the same line, unless it says so.
    let refused = yard.register(token.expose(), &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("was denied") && said.contains("--again"), "{said}");
    assert!(yard.api::<HostRegistration>().get_opt(&name).await.unwrap().is_none());
}
