//! Hosts under upstream's kubeadm: upstream's core, kubeadm bootstrap provider and kubeadm control plane make a cluster
//! of real machines that Capstan gives them, and nothing else of Capstan's takes part.
//!
//! kubeadm's cloud-config is carried out on the machines, on one by its own cloud-init and on one by Capstan; `kubeadm`
//! there notes how it is called. The API server of the cluster is a real one that the test runs beside it, with the
//! cluster's authority, and the test makes the Nodes, as kubelets with these arguments would.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_api::infrastructure::{Host, HostMachine, HostState};
use capstan_testkit::{RealPlane, eventually};
use capstan_tests::{Yard, condition, namespaced, not_true};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(600);
const CORE: &str = "cluster.x-k8s.io";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const CLUSTER: &str = "dock";
const VERSION: &str = "v1.36.0";

/// Where all machines stand. Upstream takes any failure domain for a control plane machine, also one with workers only.
const DOMAIN: &str = "rack-1";
/// Each machine and its role.
const MACHINES: [(&str, &str); 4] =
    [("server", "control-plane"), ("worker", "worker"), ("broken", "broken"), ("broken-too", "broken")];
/// All have a cloud-init, and these are made to have none.
const WITHOUT_CLOUD_INIT: [&str; 2] = ["worker", "broken-too"];
const ALL: [&str; 4] = ["server", "worker", "broken", "broken-too"];

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_kubeadm_providers_make_a_cluster_of_hosts() {
    let mut yard = Yard::under_upstreams_kubeadm(&ALL).await.unwrap();
    for (name, role) in MACHINES {
        prepare(&yard, name, role == "broken").await.unwrap();
        add(&yard, name, role).unwrap();
    }
    yard.until_available(&ALL).await.unwrap();
    let before = listings(&yard).await.unwrap();
    let workload = RealPlane::start_at(yard.machines().gateway()).await.unwrap();
    let user = User { yard: &yard, workload: &workload };
    user.makes_the_cluster().await.unwrap();

    // The first machine, by its own cloud-init.
    let server = user.until_provisioned("server").await.unwrap();
    user.was_carried_out("server", "init").await.unwrap();
    user.becomes_a_node("server", "init", &server).await.unwrap();
    user.until_initialized().await.unwrap();

    // Another one, over SSH.
    user.adds("worker", 1).await.unwrap();
    let worker = user.until_provisioned("worker").await.unwrap();
    user.was_carried_out("worker", "join").await.unwrap();
    user.becomes_a_node("worker", "join", &worker).await.unwrap();
    user.until_deployed("worker").await.unwrap();

    // What fails is told with all that helps, once for each way, and is not tried again.
    user.adds("broken", 2).await.unwrap();
    user.reports_failed_step("broken", "runcmd (by cloud-init)").await.unwrap();
    user.reports_failed_step("broken-too", "runcmd[1] (kubeadm)").await.unwrap();
    user.deletes("MachineDeployment", "broken").await.unwrap();
    yard.until_available(&["broken", "broken-too"]).await.unwrap();

    // Whoever starts again begins nothing anew.
    yard.kill_and_restart().await.unwrap();
    let user = User { yard: &yard, workload: &workload };
    user.was_carried_out("server", "init").await.unwrap();
    user.was_carried_out("worker", "join").await.unwrap();

    user.deletes("Cluster", CLUSTER).await.unwrap();
    yard.until_available(&ALL).await.unwrap();
    for (name, verb) in [("server", "init"), ("worker", "join"), ("broken", "join"), ("broken-too", "join")] {
        let calls = yard.machine(name).unwrap().run("cut -d ' ' -f 1 /var/log/kubeadm.calls").await.unwrap();
        assert_eq!(calls, format!("{verb}\nreset\n"), "{name}");
    }
    let after = listings(&yard).await.unwrap();
    assert_eq!(after, before);
}

/// Puts what stands in for kubeadm on a machine.
async fn prepare(yard: &Yard, name: &str, fails: bool) -> Result<()> {
    let machine = yard.machine(name)?;
    let script = yard.folder().join("kubeadm");
    std::fs::write(&script, include_str!("kubeadm.sh"))?;
    machine.put(&script, "/usr/local/bin/kubeadm", 0o755).await?;
    if fails {
        machine.run("touch /etc/kubeadm-fails").await?;
    }
    if WITHOUT_CLOUD_INIT.contains(&name) {
        machine.run("rm /usr/bin/cloud-init").await?;
    }
    Ok(())
}

fn add(yard: &Yard, name: &str, role: &str) -> Result<()> {
    let machine = yard.machine(name)?;
    let (address, key) = (machine.address().to_string(), yard.machines().private_key());
    let (key, role) = (key.to_str().context("a path that is text")?, format!("role={role}"));
    let place = ["--address", &address, "--label", &role, "--failure-domain", DOMAIN];
    // As somebody who has to become root first.
    let entry = ["--user", "debian", "--sudo", "--identity-file", key, "--host-key", machine.host_key()];
    yard.capstan(&[&["host", "add", name], &place[..], &entry[..]].concat())?;
    Ok(())
}

/// What is on the machines where cloud-config and kubeadm write, to the owner and the byte; without the copies that
/// `userdel` makes of what it changes.
async fn listings(yard: &Yard) -> Result<Vec<String>> {
    let look = "cd / && find etc var/lib/cloud var/lib/kubelet var/lib/etcd var/lib/capstan-claims run/kubeadm \
                run/cluster-api -not -type d -not -name '*-' -printf '%p %M %u:%g %s %l\\n' 2>/dev/null | sort; \
                find etc -type f -not -name '*-' -print0 | sort -z | xargs -0 sha256sum; ls -d run/kubeadm run/cluster-api; \
                cut -d : -f 1 etc/passwd; true";
    let mut all = Vec::new();
    for name in ALL {
        all.push(yard.machine(name)?.run(look).await?);
    }
    Ok(all)
}

/// Somebody who makes a cluster of upstream's objects.
struct User<'y> {
    yard: &'y Yard,
    /// The cluster's API server.
    workload: &'y RealPlane,
}

impl User<'_> {
    fn of(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let version = if group == INFRASTRUCTURE { "v1alpha1" } else { "v1beta2" };
        namespaced(&self.yard.client(), "default", &format!("{group}/{version}"), kind)
    }

    async fn apply(&self, group: &str, kind: &str, name: &str, spec: Value) -> Result<()> {
        let api = self.of(group, kind);
        let mut object = json!({"kind": kind, "metadata": {"name": name}, "spec": spec});
        object["apiVersion"] =
            api.resource_url().split('/').skip(2).take(2).collect::<Vec<_>>().join("/").into();
        object["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": CLUSTER});
        api.patch(name, &PatchParams::apply("user").force(), &Patch::Apply(&object)).await?;
        Ok(())
    }

    /// Everything but the workers. Every default is written out: no webhook will do it.
    async fn makes_the_cluster(&self) -> Result<()> {
        self.brings_an_authority().await?;
        let address = self.workload.server().strip_prefix("https://").context("an address")?;
        let (host, port) = address.split_once(':').context("a port")?;
        let endpoint = json!({"controlPlaneEndpoint": {"host": host, "port": port.parse::<u16>()?}});
        self.apply(INFRASTRUCTURE, "HostCluster", CLUSTER, endpoint).await?;
        self.adds_a_template("control-plane").await?;
        let node = node_registration();
        let control_plane = json!({
            "replicas": 1,
            "version": VERSION,
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            "machineTemplate": {"spec": {
                "infrastructureRef": reference(INFRASTRUCTURE, "HostMachineTemplate", "control-plane"),
                "deletion": {"nodeDeletionTimeoutSeconds": 10},
            }},
            "kubeadmConfigSpec": with_extras(json!({
                "initConfiguration": node, "joinConfiguration": node, "postKubeadmCommands": after(),
            })),
        });
        self.apply(CONTROL_PLANE, "KubeadmControlPlane", CLUSTER, control_plane).await?;
        let cluster = json!({
            "clusterNetwork": {
                "pods": {"cidrBlocks": ["10.244.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/12"]},
                "serviceDomain": "cluster.local",
            },
            "infrastructureRef": reference(INFRASTRUCTURE, "HostCluster", CLUSTER),
            "controlPlaneRef": reference(CONTROL_PLANE, "KubeadmControlPlane", CLUSTER),
        });
        self.apply(CORE, "Cluster", CLUSTER, cluster).await
    }

    /// The authority of the API server there is, as users bring their own.
    async fn brings_an_authority(&self) -> Result<()> {
        let read = |name: &str| std::fs::read_to_string(self.workload.folder().join("pki").join(name));
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": format!("{CLUSTER}-ca"), "labels": {"cluster.x-k8s.io/cluster-name": CLUSTER}},
            "type": "cluster.x-k8s.io/secret",
            "stringData": {"tls.crt": read("ca.crt")?, "tls.key": read("ca.key")?},
        }))?;
        self.yard.api::<Secret>().create(&PostParams::default(), &secret).await?;
        Ok(())
    }

    async fn adds_a_template(&self, role: &str) -> Result<()> {
        let spec = json!({"template": {"spec": {"hostSelector": {"matchLabels": {"role": role}}}}});
        self.apply(INFRASTRUCTURE, "HostMachineTemplate", role, spec).await
    }

    /// Workers of a role.
    async fn adds(&self, role: &str, replicas: usize) -> Result<()> {
        self.adds_a_template(role).await?;
        let mut setup = with_extras(json!({"joinConfiguration": node_registration()}));
        if role != "broken" {
            // Else it is the last command that cloud-init tells the exit code of.
            setup["postKubeadmCommands"] = after();
        }
        let setup = json!({"template": {"spec": setup}});
        self.apply(BOOTSTRAP, "KubeadmConfigTemplate", role, setup).await?;
        let labels = json!({
            "cluster.x-k8s.io/cluster-name": CLUSTER, "cluster.x-k8s.io/deployment-name": role,
        });
        let deployment = json!({
            "clusterName": CLUSTER,
            "replicas": replicas,
            "rollout": {"strategy": {
                "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            }},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "clusterName": CLUSTER,
                "version": VERSION,
                "failureDomain": DOMAIN,
                "bootstrap": {"configRef": reference(BOOTSTRAP, "KubeadmConfigTemplate", role)},
                "infrastructureRef": reference(INFRASTRUCTURE, "HostMachineTemplate", role),
                "deletion": {"nodeDeletionTimeoutSeconds": 10},
            }},
        });
        self.apply(CORE, "MachineDeployment", role, deployment).await
    }

    /// The HostMachine that has a host.
    async fn host_machine(&self, host: &str) -> Result<HostMachine> {
        let all = self.yard.api::<HostMachine>().list(&ListParams::default()).await?;
        let found = all.into_iter().find(|machine| machine.spec.host_name.as_deref() == Some(host));
        found.with_context(|| format!("no HostMachine has {host}"))
    }

    /// Waits until a machine says of itself all that Cluster API wants to know, and core has taken it over. Gives its
    /// provider ID.
    async fn until_provisioned(&self, host: &str) -> Result<String> {
        let address = self.yard.machine(host)?.address().to_string();
        eventually(DEADLINE, &format!("{host} to be provisioned"), async || {
            let ours = self.host_machine(host).await?;
            let object: DynamicObject = serde_json::from_value(serde_json::to_value(&ours)?)?;
            for type_ in ["Ready", "HostClaimed", "BootstrapExecuted"] {
                ensure!(condition(&object, type_) == Some("True"), not_true(&object));
            }
            let claim = ours.spec.claim_id.clone().context("no claim")?;
            let id = ours.spec.provider_id.clone().context("no provider ID")?;
            ensure!(id == format!("capstan://default/{host}/{claim}"), "{id}");
            let status = &object.data["status"];
            ensure!(status["initialization"] == json!({"provisioned": true}), "{status}");
            ensure!(status["failureDomain"] == DOMAIN, "{status}");
            let addresses = status["addresses"].as_array().context("no addresses")?;
            for wanted in [("InternalIP", address.as_str()), ("Hostname", host)] {
                let is_there =
                    |address: &Value| address["type"] == wanted.0 && address["address"] == wanted.1;
                ensure!(addresses.iter().any(is_there), "{wanted:?} is not in {status}");
            }

            let owner = ours.owner_references().iter().find(|owner| owner.kind == "Machine");
            let machine = self.of(CORE, "Machine").get(&owner.context("no Machine owns it")?.name).await?;
            ensure!(machine.data["spec"]["providerID"] == id, "{}", machine.data);
            ensure!(machine.data["spec"]["failureDomain"] == DOMAIN, "{}", machine.data);
            ensure!(machine.data["status"]["addresses"] == status["addresses"], "{}", machine.data);
            let done = json!({"bootstrapDataSecretCreated": true, "infrastructureProvisioned": true});
            ensure!(machine.data["status"]["initialization"] == done, "{}", machine.data);
            ensure!(condition(&machine, "InfrastructureReady") == Some("True"), not_true(&machine));

            let taken = self.yard.api::<Host>().get(host).await?;
            ensure!(taken.spec.claim.as_ref().is_some_and(|of| of.id == claim), "{:?}", taken.spec.claim);
            ensure!(taken.status.unwrap_or_default().state == Some(HostState::Claimed), "not claimed");
            Ok(id)
        })
        .await
    }

    /// Looks on the machine for what the cloud-config said: files with owner and mode, and commands, once.
    async fn was_carried_out(&self, host: &str, verb: &str) -> Result<()> {
        let machine = self.yard.machine(host)?;
        // What comes after kubeadm is not waited for by anybody else.
        eventually(DEADLINE, &format!("all commands to be run on {host}"), async || {
            let ran = machine.run("cat /var/log/commands").await?;
            ensure!(ran == "before\nafter\n", "{ran:?}");
            Ok(())
        })
        .await?;
        let calls = machine.run("cat /var/log/kubeadm.calls").await?;
        ensure!(calls.starts_with(&format!("{verb} --config /run/kubeadm/")), "{calls:?}");
        ensure!(calls.lines().count() == 1, "{calls:?}");
        let look = "cd /etc/dock && stat -c '%n %a %U:%G' greeting secret && cat greeting secret";
        let found = machine.run(look).await?;
        let expected =
            "greeting 644 root:root\nsecret 640 debian:adm\nahoy\n\u{1f6a2} \"quoted\" $HOME {x}\n";
        ensure!(found == expected, "{found:?}");
        if verb == "init" {
            let ca =
                machine.run("cat /etc/kubernetes/pki/ca.crt; stat -c '%a %U:%G' /etc/kubernetes/pki/ca.key");
            let wanted = std::fs::read_to_string(self.workload.folder().join("pki/ca.crt"))?;
            let ca = ca.await?;
            ensure!(ca.split_whitespace().eq(wanted.split_whitespace().chain(["600", "root:root"])), "{ca}");
        }
        let user = "id -nG sailor && sudo -l -U sailor | tail -1 && cat ~sailor/.ssh/authorized_keys";
        let user = machine.run(user).await?;
        let expected = ["sailor adm", "    (ALL) NOPASSWD: ALL", "ssh-ed25519 AAAA sailor"];
        ensure!(user.lines().filter(|line| !line.starts_with('#')).eq(expected), "{user:?}");
        // To cloud-init, where there is one, the claim is an instance.
        let claim = self.host_machine(host).await?.spec.claim_id.context("no claim")?;
        let instance = machine.run("readlink /var/lib/cloud/instance || true").await?;
        let by_cloud_init = instance.trim().ends_with(&claim);
        ensure!(by_cloud_init != WITHOUT_CLOUD_INIT.contains(&host), "the instance is {instance}");
        // What stands in for kubeadm was obeyed, and so the sentinel is there.
        machine
            .run("test -s /run/cluster-api/bootstrap-success.complete && test -d /var/lib/kubelet")
            .await?;
        Ok(())
    }

    /// Does what kubeadm and the kubelet would with what they were told: a Node of that name with that provider ID;
    /// and the first one says that there is a cluster.
    async fn becomes_a_node(&self, host: &str, verb: &str, provider_id: &str) -> Result<()> {
        let config = self.yard.machine(host)?.run(&format!("cat /var/log/kubeadm.{verb}.yaml")).await?;
        let node = registration(&config)?;
        ensure!(node.1 == provider_id, "the kubelet is told {} instead of {provider_id}", node.1);
        ensure!(node.0 == host, "the Node is called {}", node.0);
        let client = self.workload.client();
        if verb == "init" {
            let config: ConfigMap = serde_json::from_value(json!({
                "metadata": {"name": "kubeadm-config"},
                "data": {"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"},
            }))?;
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
            maps.create(&PostParams::default(), &config).await?;
        }
        let nodes: Api<Node> = Api::all(client);
        let object: Node = serde_json::from_value(json!({
            "metadata": {"name": node.0}, "spec": {"providerID": node.1},
        }))?;
        nodes.create(&PostParams::default(), &object).await?;
        let now = k8s_openapi::jiff::Timestamp::now();
        let conditions = [
            ("Ready", "True"),
            ("MemoryPressure", "False"),
            ("DiskPressure", "False"),
            ("PIDPressure", "False"),
        ];
        let conditions = conditions.map(|(type_, status)| {
            json!({"type": type_, "status": status, "reason": "AsToldByATest", "message": "it is so",
                "lastHeartbeatTime": now, "lastTransitionTime": now})
        });
        let info = json!({"status": {"conditions": conditions}});
        nodes.patch_status(&node.0, &PatchParams::default(), &Patch::Merge(&info)).await?;
        eventually(DEADLINE, &format!("{host} to have its Node"), async || {
            let owner = self.host_machine(host).await?;
            let owner = owner.owner_references().iter().find(|owner| owner.kind == "Machine");
            let machine = self.of(CORE, "Machine").get(&owner.context("no Machine")?.name).await?;
            ensure!(machine.data["status"]["nodeRef"]["name"] == node.0, not_true(&machine));
            ensure!(condition(&machine, "NodeReady") == Some("True"), not_true(&machine));
            Ok(())
        })
        .await
    }

    async fn until_initialized(&self) -> Result<()> {
        eventually(DEADLINE, "the control plane to be initialized", async || {
            let cluster = self.of(CORE, "Cluster").get(CLUSTER).await?;
            let done = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
            ensure!(cluster.data["status"]["initialization"] == done, "{}", not_true(&cluster));
            let domains: Vec<_> = cluster.data["status"]["failureDomains"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|domain| domain["name"].clone())
                .collect();
            ensure!(domains == [DOMAIN], "{domains:?}");
            let ours = self.of(INFRASTRUCTURE, "HostCluster").get(CLUSTER).await?;
            ensure!(condition(&ours, "Ready") == Some("True"), not_true(&ours));
            ensure!(ours.data["status"]["initialization"] == json!({"provisioned": true}), "{}", ours.data);
            let endpoint = &cluster.data["spec"]["controlPlaneEndpoint"];
            ensure!(*endpoint == ours.data["spec"]["controlPlaneEndpoint"], "{endpoint}");
            Ok(())
        })
        .await
    }

    async fn until_deployed(&self, role: &str) -> Result<()> {
        eventually(DEADLINE, &format!("{role} to be available"), async || {
            let deployment = self.of(CORE, "MachineDeployment").get(role).await?;
            ensure!(condition(&deployment, "Available") == Some("True"), not_true(&deployment));
            ensure!(deployment.data["status"]["readyReplicas"] == 1, "{}", deployment.data["status"]);
            Ok(())
        })
        .await
    }

    /// Waits until the condition of the machine says what failed.
    async fn reports_failed_step(&self, host: &str, step: &str) -> Result<()> {
        let message = eventually(DEADLINE, &format!("{host} to say what failed"), async || {
            let ours = self.host_machine(host).await?;
            let status = ours.status.context("no status")?;
            let condition = status.conditions.iter().find(|condition| condition.type_ == "BootstrapExecuted");
            let condition = condition
                .filter(|condition| condition.reason == "BootstrapFailed")
                .context("it has not failed")?;
            let provisioned = status.initialization.and_then(|done| done.provisioned);
            ensure!(provisioned != Some(true), "it is provisioned all the same");
            Ok(condition.message.clone())
        })
        .await?;
        for part in ["exit code 3", step, "the moon is in the wrong quarter"] {
            ensure!(message.contains(part), "{part:?} is not in: {message}");
        }
        Ok(())
    }

    async fn deletes(&self, kind: &str, name: &str) -> Result<()> {
        let api = self.of(CORE, kind);
        api.delete(name, &DeleteParams::default()).await?;
        eventually(DEADLINE, &format!("{name} to be gone"), async || {
            ensure!(api.get_opt(name).await?.is_none(), "it is there");
            if kind == "Cluster" {
                for kind in ["HostCluster", "HostMachine"] {
                    let left = self.of(INFRASTRUCTURE, kind).list(&ListParams::default()).await?.items;
                    ensure!(left.is_empty(), "{} of {kind} are left", left.len());
                }
            }
            Ok(())
        })
        .await
    }
}

fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({"apiGroup": group, "kind": kind, "name": name})
}

/// What tells the kubelet who it is.
fn node_registration() -> Value {
    json!({"nodeRegistration": {
        "name": "{{ ds.meta_data.local_hostname }}",
        "kubeletExtraArgs": [{"name": "provider-id", "value": "{{ ds.meta_data.provider_id }}"}],
    }})
}

/// Files, people and commands of the user's own.
fn with_extras(mut setup: Value) -> Value {
    setup["files"] = json!([
        {"path": "/etc/dock/greeting", "owner": "root:root", "permissions": "0644", "content": "ahoy\n"},
        {"path": "/etc/dock/secret", "owner": "debian:adm", "permissions": "0640",
         "content": "\u{1f6a2} \"quoted\" $HOME {x}\n"},
    ]);
    setup["users"] = json!([{
        "name": "sailor", "groups": "adm", "sudo": "ALL=(ALL) NOPASSWD:ALL",
        "sshAuthorizedKeys": ["ssh-ed25519 AAAA sailor"],
    }]);
    setup["preKubeadmCommands"] = json!(["echo before >> /var/log/commands"]);
    setup
}

fn after() -> Value {
    json!(["echo after >> /var/log/commands"])
}

/// Name and provider ID in what kubeadm was given.
fn registration(text: &str) -> Result<(String, String)> {
    for document in text.split("---\n").filter(|document| !document.trim().is_empty()) {
        let document: Value = serde_saphyr::from_str(document).context("not YAML")?;
        let Some(node) = document.get("nodeRegistration") else { continue };
        let name = node["name"].as_str().context("no name")?.to_owned();
        let arguments = node["kubeletExtraArgs"].as_array().context("no arguments")?;
        let id = arguments.iter().find(|argument| argument["name"] == "provider-id");
        let id = id.and_then(|id| id["value"].as_str()).context("no provider ID")?;
        return Ok((name, id.to_owned()));
    }
    anyhow::bail!("nobody is told how to register:\n{text}")
}
