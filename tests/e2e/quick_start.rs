//! The quick start over SSH, as printed, with a real machine.

use capstan_testkit::Machines;
use capstan_tests::{K3S, Surroundings, follow, is_clean, settings};
use capstan_tools::k3s_bundle;

#[tokio::test(flavor = "multi_thread")]
async fn on_a_machine_over_ssh() {
    let machines = Machines::start(&["server"]).await.unwrap();
    let machine = machines.get("server").unwrap();
    let bundle = k3s_bundle(K3S[0]).unwrap();
    let values = format!(
        "export PLANE={} SERVER={} KEY={} K3S={} K3S_FILE={} K3S_IMAGES={}\nexport CONTROL_PLANE_SETTINGS='{}'\n",
        machines.gateway(),
        machine.address(),
        machines.private_key().display(),
        K3S[0],
        bundle.program.path.display(),
        bundle.images.path.display(),
        settings().to_string().trim_start_matches('{').trim_end_matches('}'),
    );
    let printed = follow("ssh.md", Surroundings::Machines(&values)).await.unwrap();
    assert!(printed.contains("cluster.cluster.x-k8s.io/shop condition met"), "{printed}");
    is_clean(machine).await.unwrap();
}
