//! A machine that reaches its management plane through an HTTP proxy only.

use capstan_api::infrastructure::{Host, HostMachine, HostRegistration};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use std::os::unix::fs::PermissionsExt as _;

use super::connect_proxy::{ConnectProxy, NAME};
use super::yard::Yard;

const DATA: &str = "#cloud-config\nwrite_files:\n- path: /etc/hello\n  content: hello\n";

const FILE: &str = "/etc/capstan-host/proxy.json";

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_behind_a_proxy_is_registered_claimed_and_reset() {
    let yard = Yard::start().await;
    let proxy = ConnectProxy::to(yard.bound).await;
    // Nothing but the proxy knows the name.
    let token = yard.named_token("edge", &format!("https://{NAME}:6443")).await;

    // The environment leads nowhere, and does not count.
    let output = yard.register(token.encode().expose(), &[]);
    assert!(!output.status.success(), "{output:?}");
    assert!(proxy.heads().is_empty());
    let more = ["--proxy", &proxy.url, "--no-proxy", "10.0.0.0/8,.corp.example"];
    let output = yard.register(token.encode().expose(), &more);
    assert!(output.status.success(), "{output:?}");
    let about = std::fs::metadata(yard.at(FILE)).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o600);

    let _agent = yard.dial();
    let name = yard.registration();
    let host = yard.host_of(&name).await;
    yard.says::<Host>(&host.name_any(), "Reachable", "Reachable").await;
    yard.machine("m", DATA).await;
    yard.says::<HostMachine>("m", "BootstrapExecuted", "Bootstrapped").await;
    assert_eq!(std::fs::read_to_string(yard.at("/etc/hello")).unwrap(), "hello");
    yard.api::<HostMachine>().delete("m", &DeleteParams::default()).await.unwrap();
    yard.until("the Host to be released", async || {
        yard.api::<Host>().get(&host.name_any()).await.is_ok_and(|host| host.spec.claim.is_none())
    })
    .await;
    let heads = proxy.heads();
    assert!(
        !heads.is_empty() && heads.iter().all(|head| head.starts_with(&format!("CONNECT {NAME}:6443 "))),
        "{heads:?}"
    );

    // What the machine had stays if it cannot be registered another way.
    let before = std::fs::read(yard.at(FILE)).unwrap();
    let output = yard.register(token.encode().expose(), &["--again", "--proxy", "direct"]);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(std::fs::read(yard.at(FILE)).unwrap(), before);
    assert_eq!(yard.registration(), name);
    assert!(yard.unregister().status.success());
    assert!(!yard.at(FILE).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_in_a_network_without_proxy_is_reached_directly() {
    let yard = Yard::start().await;
    let proxy = ConnectProxy::to(yard.bound).await;
    let token = yard.token("edge", 1, "manual").await.encode();
    let output = yard.register(token.expose(), &["--proxy", &proxy.url, "--no-proxy", "127.0.0.0/8"]);
    assert!(output.status.success(), "{output:?}");
    yard.says::<HostRegistration>(&yard.registration(), "Approved", "WaitingForApproval").await;
    assert!(proxy.heads().is_empty(), "{:?}", proxy.heads());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_cannot_be_used_is_refused_with_the_field() {
    let yard = Yard::start().await;
    let token = yard.token("edge", 1, "manual").await.encode();
    for (url, says) in [
        ("http://me:hunter2@127.0.0.1:1", "--proxy: url must be"),
        ("https://127.0.0.1:1", "--proxy: url must be"),
        ("http://127.0.0.1:1/x", "--proxy: url must be"),
    ] {
        let output = yard.register(token.expose(), &["--proxy", url]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(says) && !said.contains("hunter2"), "{said}");
        assert!(!yard.at(FILE).exists());
    }
    // A file that others can read or write is not used.
    std::fs::create_dir_all(yard.at("/etc/capstan-host")).unwrap();
    std::fs::write(yard.at(FILE), r#"{"url":"http://127.0.0.1:1"}"#).unwrap();
    std::fs::set_permissions(yard.at(FILE), std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = yard.register(token.expose(), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("set its mode to 0600"), "{said}");
}
