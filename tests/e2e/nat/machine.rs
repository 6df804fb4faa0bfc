//! A real machine behind NAT: it registers itself, is claimed, bootstrapped, loses power and is reset, and nothing can connect to it.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use capstan_testkit::{Machines, TestMachine, eventually};
use capstan_tests::{Running, agent_binary, capstan_output, kubectl};
use serde_json::Value;
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(300);
/// The network between this computer and the router of the machines.
const OUTSIDE: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 67, 254, 1), Ipv4Addr::new(10, 67, 254, 2)];
const KINDS: &str = "infrastructure.cluster.x-k8s.io";

/// A cluster whose infrastructure is provisioned, and a machine that claims the host of the join token.
const OBJECTS: &str = r##"
apiVersion: v1
kind: Secret
metadata: {name: data, labels: {cluster.x-k8s.io/cluster-name: c}}
stringData:
  format: cloud-config
  value: |
    #cloud-config
    write_files:
    - {path: /etc/behind-nat, content: hello}
    runcmd:
    - [sh, -c, "date > /etc/behind-nat-began"]
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: HostCluster, name: c}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CapstanControlPlane, name: c}
  controlPlaneEndpoint: {host: api.example, port: 6443}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: HostCluster
metadata: {name: c, labels: {cluster.x-k8s.io/cluster-name: c}}
spec: {}
"##;

/// A router in a network namespace of its own: machines reach this computer through it, under its address, and nothing reaches
/// them.
struct Router {
    namespace: String,
    /// The network of the machines, which this computer has no way to.
    network: String,
}

fn run(words: &[&str]) -> Result<()> {
    let (program, arguments) = words.split_first().context("no command")?;
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot run {program}; install its package"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {said}", words.join(" "));
    Ok(())
}

impl Router {
    fn make(machines: &Machines) -> Result<Self> {
        let id = std::process::id();
        let [a, b, c, _] = machines.gateway().octets();
        let router = Self { namespace: format!("capnat{id}"), network: format!("{a}.{b}.{c}.0/24") };
        let (inside, outside) = (format!("cni{id}"), format!("cno{id}"));
        let within =
            |words: &[&str]| run(&[&["ip", "netns", "exec", router.namespace.as_str()], words].concat());
        run(&["ip", "netns", "add", &router.namespace])?;
        for (link, peer) in [(&inside, "inside"), (&outside, "outside")] {
            run(&[
                "ip",
                "link",
                "add",
                link,
                "type",
                "veth",
                "peer",
                "name",
                peer,
                "netns",
                &router.namespace,
            ])?;
            run(&["ip", "link", "set", link, "up"])?;
            within(&["ip", "link", "set", peer, "up"])?;
        }
        within(&["ip", "link", "set", "lo", "up"])?;
        let [here, there] = OUTSIDE;
        run(&["ip", "address", "add", &format!("{here}/30"), "dev", &outside])?;
        within(&["ip", "address", "add", &format!("{there}/30"), "dev", "outside"])?;
        within(&["ip", "route", "add", "default", "via", &here.to_string()])?;
        within(&["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])?;
        for rule in [
            "add table ip nat",
            "add chain ip nat out { type nat hook postrouting priority 100 ; }",
            "add rule ip nat out oifname outside masquerade",
            "add table ip guard",
            "add chain ip guard in { type filter hook forward priority 0 ; }",
            "add rule ip guard in iifname outside ct state new drop",
        ] {
            within(&["nft", rule])?;
        }
        // From here on the router is the way out of the machines, and not this computer.
        run(&["ip", "address", "flush", "dev", machines.bridge()])?;
        // Not by another router either, if this computer has one.
        run(&["ip", "route", "add", "unreachable", &router.network])?;
        run(&["ip", "link", "set", &inside, "master", machines.bridge()])?;
        within(&["ip", "address", "add", &format!("{}/24", machines.gateway()), "dev", "inside"])?;
        Ok(router)
    }

    /// Runs a command on a machine over SSH from within its network, as a person there would at its console.
    fn on(&self, machine: &TestMachine, command: &str) -> Result<String> {
        let ssh = machine.ssh_command("root");
        let output = Command::new("ip")
            .args(["netns", "exec", &self.namespace])
            .arg(ssh.get_program())
            .args(ssh.get_args())
            .arg(command)
            .output()
            .context("cannot run ip")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "on {}: {said}", machine.name());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        _ = run(&["ip", "route", "delete", "unreachable", &self.network]);
        // Its links go with it.
        _ = run(&["ip", "netns", "delete", &self.namespace]);
    }
}

/// A plane that machines reach from behind the router.
struct Plane {
    _running: Running,
    folder: TempDir,
}

impl Plane {
    async fn start() -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let text = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (listen, data, kubeconfig) = (format!("{}:0", OUTSIDE[0]), text("data"), text("kubeconfig"));
        let args = [
            "up",
            "--controllers",
            "infrastructure",
            "--listen",
            &listen,
            "--data-dir",
            &data,
            "--kubeconfig-out",
            &kubeconfig,
        ];
        let running = Running::start(&args, &folder.path().join("log"))?;
        let plane = Self { _running: running, folder };
        eventually(DEADLINE, "the plane to be ready", async || {
            plane.kubectl(&["get", "hostregistrations"], "").map(|_| ())
        })
        .await?;
        Ok(plane)
    }

    fn kubectl(&self, args: &[&str], input: &str) -> Result<String> {
        kubectl(&self.folder.path().join("kubeconfig"), args, input)
    }

    fn capstan(&self, args: &[&str]) -> Result<String> {
        let kubeconfig = self.folder.path().join("kubeconfig").to_string_lossy().into_owned();
        let (code, stdout, stderr) = capstan_output(&[args, &["--kubeconfig", &kubeconfig]].concat(), "")?;
        ensure!(code == 0, "capstan {}: {stderr}", args.join(" "));
        Ok(stdout)
    }

    fn get(&self, kind: &str, name: &str) -> Result<Value> {
        let text = self.kubectl(&["get", &format!("{kind}.{KINDS}"), name, "-o", "json"], "")?;
        serde_json::from_str(&text).context("no JSON")
    }

    /// Waits until a condition has this reason.
    async fn until(&self, kind: &str, name: &str, condition: &str, reason: &str) -> Result<()> {
        eventually(DEADLINE, &format!("{condition} of {kind} {name} to say {reason}"), async || {
            let object = self.get(kind, name)?;
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.iter().find(|found| found["type"] == condition);
            ensure!(found.is_some_and(|found| found["reason"] == reason), "{conditions:?}");
            Ok(())
        })
        .await
    }

    /// The objects of a cluster and of a machine that claims the host.
    fn furnish(&self) -> Result<()> {
        self.kubectl(&["apply", "-f", "-"], OBJECTS)?;
        let uid =
            |kind: &str, name: &str| self.kubectl(&["get", kind, name, "-o", "jsonpath={.metadata.uid}"], "");
        let cluster = uid("cluster", "c")?;
        let owner = format!(
            r#"{{"metadata":{{"ownerReferences":[{{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","name":"c","uid":"{cluster}"}}]}}}}"#
        );
        self.kubectl(&["patch", "hostcluster", "c", "--type=merge", "-p", &owner], "")?;
        let ready = r#"{"status":{"initialization":{"infrastructureProvisioned":true}}}"#;
        self.kubectl(&["patch", "cluster", "c", "--subresource=status", "--type=merge", "-p", ready], "")?;
        let machine = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\n\
            metadata: {name: m, labels: {cluster.x-k8s.io/cluster-name: c}}\n\
            spec:\n  clusterName: c\n  bootstrap: {dataSecretName: data}\n  \
            infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: HostMachine, name: m}\n";
        self.kubectl(&["apply", "-f", "-"], machine)?;
        let uid = uid("machine", "m")?;
        let host_machine = format!(
            "apiVersion: {KINDS}/v1alpha1\nkind: HostMachine\nmetadata:\n  name: m\n  \
             labels: {{cluster.x-k8s.io/cluster-name: c}}\n  ownerReferences:\n  - {{apiVersion: \
             cluster.x-k8s.io/v1beta2, kind: Machine, name: m, uid: {uid}, controller: true}}\n\
             spec: {{hostSelector: {{matchLabels: {{site: nat}}}}}}\n"
        );
        self.kubectl(&["apply", "-f", "-"], &host_machine).map(|_| ())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_behind_nat_is_managed_from_its_registration_to_its_reset() {
    let machines = Machines::start(&["edge"]).await.unwrap();
    let machine = machines.get("edge").unwrap();
    machine.put(&agent_binary().unwrap(), "/usr/local/bin/capstan-agent", 0o755).await.unwrap();
    let router = Router::make(&machines).unwrap();
    let plane = Plane::start().await.unwrap();

    // Nothing reaches the machine.
    let ssh = SocketAddr::from((machine.address(), 22));
    assert!(TcpStream::connect_timeout(&ssh, Duration::from_secs(3)).is_err());

    // A person runs the printed line.
    let token = plane.capstan(&["host", "token", "edge", "--label", "site=nat", "-o", "json"]).unwrap();
    let token: Value = serde_json::from_str(&token).unwrap();
    let said = router.on(machine, token["command"].as_str().unwrap()).unwrap();
    let name = said.split_whitespace().find(|word| word.starts_with("host-")).unwrap();
    let name = name.trim_end_matches(';').to_owned();
    plane.until("hostregistration", &name, "Approved", "WaitingForApproval").await.unwrap();
    assert!(plane.capstan(&["host", "registrations"]).unwrap().contains(&name));
    plane.capstan(&["host", "approve", &name, "--name", "edge"]).unwrap();
    plane.until("host", "edge", "Reachable", "Reachable").await.unwrap();
    plane.until("host", "edge", "Usable", "Usable").await.unwrap();
    assert!(plane.capstan(&["host", "check", "edge"]).unwrap().contains("can be used"));

    // Claim and bootstrap.
    plane.furnish().unwrap();
    plane.until("hostmachine", "m", "BootstrapExecuted", "Bootstrapped").await.unwrap();
    assert_eq!(router.on(machine, "cat /etc/behind-nat").unwrap(), "hello");
    let began = router.on(machine, "cat /etc/behind-nat-began").unwrap();

    // The power fails. It dials out again by itself, and nothing is repeated.
    let connected = plane.get("hostregistration", &name).unwrap()["status"]["connectedAt"].clone();
    machine.pull_the_plug().await.unwrap();
    machine.machine().start().unwrap();
    eventually(DEADLINE, "the machine to connect again", async || {
        let now = plane.get("hostregistration", &name)?["status"]["connectedAt"].clone();
        ensure!(now != connected, "{now}");
        Ok(())
    })
    .await
    .unwrap();
    plane.until("host", "edge", "Reachable", "Reachable").await.unwrap();
    assert_eq!(router.on(machine, "cat /etc/behind-nat-began").unwrap(), began);

    // Reset, and the end.
    plane.kubectl(&["delete", "hostmachine", "m"], "").unwrap();
    let host = plane.get("host", "edge").unwrap();
    assert!(host["spec"]["claim"].is_null() && host["spec"]["quarantine"].is_null(), "{host}");
    assert!(router.on(machine, "test ! -e /etc/behind-nat && test ! -e /var/lib/capstan-claims").is_ok());
    plane.capstan(&["host", "remove", "edge"]).unwrap();
    eventually(DEADLINE, "the service to end", async || {
        let state = router.on(machine, "systemctl is-active capstan-host || true")?;
        ensure!(state.trim() == "inactive", "{state}");
        Ok(())
    })
    .await
    .unwrap();
    assert!(router.on(machine, "capstan-agent unregister && test ! -e /etc/capstan-host").is_ok());
}
