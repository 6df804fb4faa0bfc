//! `capstan plan` says beforehand what the controllers do afterwards: each change is planned, applied with kubectl, and
//! what became of every Machine is compared with what was said. On the embedded plane, with simulated hosts.

#![cfg(test)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use capstan_testkit::eventually;
use capstan_tests::{Running, capstan, capstan_output, kubectl};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

/// Some twenty seconds are usual for the longest wait; a loaded machine needs more.
const DEADLINE: Duration = Duration::from_secs(300);
const OLD: &str = "v1.36.0+k3s1";
const NEW: &str = "v1.36.1+k3s1";
const CONTROL_PLANE: (&str, &str) = ("CapstanControlPlane", "plan-control-plane");
const WORKERS: (&str, &str) = ("MachineDeployment", "plan-workers");
const PLANTED: &str = "cGxhbnRlZC12YWx1ZQ==";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_planned_is_what_happens() {
    let mut user = User::start().await;
    user.makes_a_cluster().await.unwrap();
    user.plans_nothing().unwrap();
    user.is_rejected_by_the_server().unwrap();
    user.sees_no_secret().unwrap();
    user.may_not_take_what_others_set().unwrap();

    let config = |change: Value| json!({"spec": {"config": change}});
    let motd = json!({"files": [{"path": "/etc/motd", "content": "hello"}]});
    user.changes(CONTROL_PLANE, &config(motd), &["live"]).await.unwrap();
    user.changes(CONTROL_PLANE, &config(json!({"settings": {"debug": true}})), &["restart"]).await.unwrap();
    user.waits_for_a_maintenance_window(&config(json!({"settings": {"debug": false}}))).await.unwrap();
    let snapshotter = config(json!({"settings": {"snapshotter": "native"}}));
    user.changes(CONTROL_PLANE, &snapshotter, &["drain and restart"]).await.unwrap();
    let labels = json!({"spec": {"machineTemplate": {"metadata": {"labels": {"team": "a"}}}}});
    user.changes(CONTROL_PLANE, &labels, &["live"]).await.unwrap();
    user.is_refused(CONTROL_PLANE, &json!({"spec": {"version": "v1.34.0+k3s1"}}), "spec.version")
        .await
        .unwrap();
    user.changes(CONTROL_PLANE, &json!({"spec": {"version": NEW}}), &["drain and restart"]).await.unwrap();

    let pods = json!({"settings": {"kubelet-arg": ["max-pods=80"]}});
    let entry = json!({"hostConfig": [{"name": "every-host", "selector": {}, "config": pods}]});
    user.changes(CONTROL_PLANE, &config(entry), &["restart"]).await.unwrap();
    user.configures_a_host().await.unwrap();

    let version = json!({"spec": {"template": {"spec": {"version": NEW}}}});
    user.changes(WORKERS, &version, &["drain and restart", "drain and restart"]).await.unwrap();
    let timeout = json!({"spec": {"template": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": 60}}}}});
    user.changes(WORKERS, &timeout, &["live", "live"]).await.unwrap();
    user.changes(WORKERS, &json!({"spec": {"replicas": 3}}), &["create"]).await.unwrap();
    user.changes(WORKERS, &json!({"spec": {"replicas": 2}}), &["delete"]).await.unwrap();
    // The first server is told to join the others if it ever has to start without its data.
    let three = json!({"spec": {"replicas": 3}});
    user.changes(CONTROL_PLANE, &three, &["create", "create", "live"]).await.unwrap();
    user.changes(CONTROL_PLANE, &config(json!({"settings": {"debug": true}})), &["restart"; 3])
        .await
        .unwrap();
    let banner = json!([{"path": "/etc/motd", "contentFrom": {"secret": {"name": "planted", "key": "key"}}}]);
    user.changes(CONTROL_PLANE, &config(json!({ "files": banner })), &["live"; 3]).await.unwrap();
    user.changes(("Secret", "planted"), &json!({"data": {"key": PLANTED}}), &["live"; 3]).await.unwrap();
    user.changes(CONTROL_PLANE, &json!({"spec": {"replicas": 1}}), &["delete", "delete"]).await.unwrap();

    user.edits_a_template_in_vain().await.unwrap();
    let other = user.makes_another_template().await.unwrap();
    user.is_refused(WORKERS, &other, "HostMachineTemplate plan-other").await.unwrap();
    let allowed = json!({"metadata": {"annotations": {"capstan.dev/replace-policy": "WhenNeeded"}}});
    user.changes(WORKERS, &allowed, &[]).await.unwrap();
    user.changes(WORKERS, &other, &["replace", "replace"]).await.unwrap();
    user.plane.ensure_running().unwrap();
}

/// What can be seen of a Machine from outside.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    uid: String,
    is_worker: bool,
    revision: u64,
    record: Value,
    drained: bool,
    /// Everything that may be told to the Machine itself.
    desired: String,
}

type Machines = BTreeMap<String, Seen>;

/// Somebody with `capstan` and `kubectl`.
struct User {
    folder: tempfile::TempDir,
    plane: Running,
    /// The manifests as they were applied last, by kind and name.
    objects: BTreeMap<(String, String), Value>,
}

impl User {
    async fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("capstan-plan-").tempdir().unwrap();
        let data = folder.path().join("data");
        let args = ["up", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
        let plane = Running::start(&args, &folder.path().join("capstan.log")).unwrap();
        let user = Self { folder, plane, objects: BTreeMap::new() };
        eventually(DEADLINE, "the plane to answer", async || user.kubectl(&["get", "--raw", "/readyz"], ""))
            .await
            .unwrap();
        user
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/admin.kubeconfig")
    }

    fn kubectl(&self, args: &[&str], input: &str) -> Result<String> {
        kubectl(&self.kubeconfig(), args, input)
    }

    fn get(&self, what: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[&["get", "-o", "json"], what].concat(), "")?;
        serde_json::from_str(&text).context("kubectl gives no JSON")
    }

    fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl(&["apply", "-f", "-"], &object.to_string()).map(drop)
    }

    /// Code, and what was printed.
    fn plan(&self, input: &str, args: &[&str]) -> Result<(i32, String)> {
        let kubeconfig = self.kubeconfig();
        let always = ["plan", "-f", "-", "--kubeconfig", kubeconfig.to_str().context("a path")?];
        let (code, stdout, stderr) = capstan_output(&[&always, args].concat(), input)?;
        ensure!(stderr.is_empty(), "capstan plan: {stderr}");
        Ok((code, stdout))
    }

    fn planned(&self, object: &Value) -> Result<(i32, Value)> {
        let (code, text) = self.plan(&object.to_string(), &["-o", "json"])?;
        Ok((code, serde_json::from_str(&text).with_context(|| text.clone())?))
    }

    async fn makes_a_cluster(&mut self) -> Result<()> {
        let pool = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostPool",
            "metadata": {"name": "simulated", "namespace": "default"},
            "spec": {"replicas": 7, "simulated": {"bootMilliseconds": 100, "stepMilliseconds": 20}},
        });
        let size = ["--control-plane-machine-count", "1", "--worker-machine-count", "2"];
        let args = [&["generate", "cluster", "plan", "--kubernetes-version", OLD], &size[..]].concat();
        let manifests = capstan(&args)?;
        // A cluster that is not there yet can be planned, too.
        eventually(DEADLINE, "every kind to be served", async || {
            let (code, text) = self.plan(&manifests, &["--exit-code"])?;
            ensure!(code == 2 && text.contains("Machines: 3 created."), "{code}: {text}");
            Ok(())
        })
        .await?;
        self.apply(&pool)?;
        for document in manifests.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document)?;
            self.apply(&object)?;
            let name = |field: &Value| field.as_str().unwrap_or_default().to_owned();
            self.objects.insert((name(&object["kind"]), name(&object["metadata"]["name"])), object);
        }
        self.is_calm().await
    }

    /// The manifests that were applied change nothing.
    fn plans_nothing(&self) -> Result<()> {
        let all: Vec<String> = self.objects.values().map(Value::to_string).collect();
        let all = all.join("\n---\n");
        let (code, text) = self.plan(&all, &["--exit-code"])?;
        ensure!(code == 0 && text.starts_with("Nothing would happen"), "{code}: {text}");
        Ok(())
    }

    fn is_rejected_by_the_server(&self) -> Result<()> {
        let wrong = self.with(CONTROL_PLANE, &json!({"spec": {"version": "latest"}}));
        let (code, plan) = self.planned(&wrong)?;
        ensure!(code == 1 && plan["refused"] == true, "{code}: {plan:#}");
        let refusal = &plan["objects"][0]["refusals"][0];
        ensure!(refusal["field"] == "spec.version", "{refusal}");
        let unknown = self.with(CONTROL_PLANE, &json!({"spec": {"versoin": "v1.36.1"}}));
        let (code, plan) = self.planned(&unknown)?;
        ensure!(code == 1 && plan.to_string().contains("versoin"), "{code}: {plan:#}");
        Ok(())
    }

    /// Values of Secrets are compared, and never told.
    fn sees_no_secret(&mut self) -> Result<()> {
        let secret = |value: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "planted", "namespace": "default"},
                "data": {"key": value}})
        };
        self.apply(&secret("b2xkLXZhbHVl"))?;
        self.objects.insert(("Secret".to_owned(), "planted".to_owned()), secret("b2xkLXZhbHVl"));
        for args in [&["-o", "json"][..], &[]] {
            let (code, text) = self.plan(&secret(PLANTED).to_string(), args)?;
            ensure!(code == 0 && text.contains("data.key") && text.contains("(changed)"), "{code}: {text}");
            let tells =
                text.contains("cGxhbnRlZC") || text.contains("planted-value") || text.contains("b2xk");
            ensure!(!tells, "a value was told: {text}");
        }
        Ok(())
    }

    /// Where somebody else has set a field, that is said, unless it is to be taken over.
    fn may_not_take_what_others_set(&self) -> Result<()> {
        let pool = |replicas: i32| {
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostPool",
                "metadata": {"name": "others", "namespace": "default"},
                "spec": {"replicas": replicas, "simulated": {}}})
            .to_string()
        };
        self.kubectl(&["apply", "--server-side", "--field-manager=others", "-f", "-"], &pool(0))?;
        let (code, text) = self.plan(&pool(1), &[])?;
        ensure!(code == 1 && text.contains("spec.replicas") && text.contains("--force"), "{code}: {text}");
        let (code, text) = self.plan(&pool(1), &["--force"])?;
        ensure!(code == 0 && text.contains("spec.replicas: 0 -> 1"), "{code}: {text}");
        self.kubectl(&["delete", "hostpool", "others"], "").map(drop)
    }

    /// The object that was applied last, with this on top.
    fn with(&self, (kind, name): (&str, &str), change: &Value) -> Value {
        let mut object = self.objects[&(kind.to_owned(), name.to_owned())].clone();
        merge(&mut object, change);
        object
    }

    /// Plans a change, makes it, and compares. `outcomes` are those of the machines to which something happens.
    async fn changes(&mut self, what: (&str, &str), change: &Value, outcomes: &[&str]) -> Result<()> {
        let wanted = self.with(what, change);
        let started = Instant::now();
        let (code, plan) = self.planned(&wanted)?;
        ensure!(code == 0 && plan["changes"] == true, "{change}: {code}: {plan:#}");
        let mut planned: Vec<&str> =
            machines(&plan).filter_map(|machine| machine["outcome"].as_str()).collect();
        planned.retain(|outcome| *outcome != "nothing");
        planned.sort_unstable();
        ensure!(planned == outcomes, "{change}: {plan:#}");
        let before = self.machines()?;
        self.apply(&wanted)?;
        self.objects.insert((what.0.to_owned(), what.1.to_owned()), wanted.clone());
        eventually(DEADLINE, "the change to reach the machines", async || {
            as_planned(&plan, &before, &self.machines()?)
        })
        .await
        .with_context(|| change.to_string())?;
        self.is_calm().await?;
        // And nothing more has happened meanwhile.
        as_planned(&plan, &before, &self.machines()?).with_context(|| change.to_string())?;
        in_order(&plan, &self.machines()?)?;
        let (code, plan) = self.planned(&wanted)?;
        ensure!(code == 0 && plan["changes"] == false, "{change}, again: {code}: {plan:#}");
        eprintln!("{:>5.1} s  {}/{} {change}: {outcomes:?}", started.elapsed().as_secs_f64(), what.0, what.1);
        Ok(())
    }

    /// Plans a change that is refused, makes it nevertheless, and takes it back.
    async fn is_refused(&mut self, what: (&str, &str), change: &Value, field: &str) -> Result<()> {
        let wanted = self.with(what, change);
        let (code, plan) = self.planned(&wanted)?;
        ensure!(code == 1 && plan["refused"] == true, "{change}: {code}: {plan:#}");
        ensure!(plan["refusals"].to_string().contains(field), "{field}: {plan:#}");
        let refused = machines(&plan).filter(|machine| machine["outcome"] == "refused").count();
        ensure!(refused > 0 && machines(&plan).all(|machine| machine["kept"] == true), "{plan:#}");
        let before = self.machines()?;
        self.apply(&wanted)?;
        eventually(DEADLINE, "the change to be refused", async || {
            let object = self.get(&[what.0, what.1])?;
            let conditions = object["status"]["conditions"].as_array().context("no conditions")?;
            let generation = &object["metadata"]["generation"];
            let refusal = conditions.iter().find(|condition| {
                condition["message"].as_str().is_some_and(|message| message.contains(field))
                    && (condition["observedGeneration"].is_null()
                        || condition["observedGeneration"] == *generation)
            });
            ensure!(refusal.is_some(), "{conditions:#?}");
            Ok(())
        })
        .await
        .with_context(|| change.to_string())?;
        ensure!(self.machines()? == before, "something was touched");
        self.apply(&self.objects[&(what.0.to_owned(), what.1.to_owned())])?;
        self.is_calm().await?;
        ensure!(self.machines()? == before, "something was touched");
        Ok(())
    }

    /// The configuration of a Host changes its machine, and the plan says where a value comes from.
    async fn configures_a_host(&mut self) -> Result<()> {
        let machines = self.get(&["machines", "-l", "cluster.x-k8s.io/deployment-name=plan-workers"])?;
        let id = items(&machines).next().context("no worker")?["spec"]["providerID"].clone();
        let name = id.as_str().and_then(|id| id.split('/').nth(3)).context("a provider ID")?.to_owned();
        let host = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host",
            "metadata": {"name": name, "namespace": "default"}, "spec": {},
        });
        self.objects.insert(("Host".to_owned(), name.clone()), host);
        let with = |settings: Value| json!({"spec": {"config": {"settings": settings}}});
        let what = ("Host", name.as_str());
        let (code, plan) = self.planned(&self.with(what, &with(json!({"data-dir": "/srv"}))))?;
        let refused = format!("Host {name} spec.config.settings.data-dir");
        ensure!(code == 1 && plan["refusals"][0]["field"] == refused.as_str(), "{code}: {plan:#}");
        let change = with(json!({"kubelet-arg": ["max-pods=90"]}));
        let (_, plan) = self.planned(&self.with(what, &change))?;
        let field = &plan["machines"][0]["fields"][0];
        ensure!(field["field"] == "spec.settings.kubelet-arg", "{plan:#}");
        ensure!(field["origin"] == format!("Host {name} spec.config").as_str(), "{plan:#}");
        let (_, text) = self.plan(&self.with(what, &change).to_string(), &[])?;
        ensure!(text.contains(&format!("(from Host {name} spec.config)")), "{text}");
        self.changes(what, &change, &["restart"]).await
    }

    /// A change waits for a maintenance window, as it was planned, and is made once there is none any more.
    async fn waits_for_a_maintenance_window(&mut self, change: &Value) -> Result<()> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        // 1970-01-01 was a Thursday.
        let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        let day = days[usize::try_from(now.as_secs() / 86400 + 3)? % 7];
        let windows = json!({"spec": {"rollout": {"windows": [format!("{day} 12:00-13:00 UTC")]}}});
        let without = self.with(CONTROL_PLANE, change);
        let mut within = without.clone();
        merge(&mut within, &windows);
        let (code, plan) = self.planned(&within)?;
        ensure!(code == 0, "{code}: {plan:#}");
        let notes = plan["notes"].to_string();
        ensure!(notes.contains("maintenance windows only; the next one opens at"), "{plan:#}");
        self.apply(&within)?;
        eventually(DEADLINE, "the machine to wait for its window", async || {
            let configs = self.get(&["capstanconfigs", "-l", "cluster.x-k8s.io/control-plane"])?;
            ensure!(
                configs.to_string().contains("waits for its maintenance window, which opens at"),
                "{configs:#}"
            );
            let reports = self.get(&["machinereports"])?;
            ensure!(items(&reports).any(|report| report["status"]["phase"] == "Waiting"), "{reports:#}");
            Ok(())
        })
        .await?;
        self.apply(&without)?;
        self.objects.insert((CONTROL_PLANE.0.to_owned(), CONTROL_PLANE.1.to_owned()), without);
        self.is_calm().await
    }

    /// A template that is changed where it stands is for new machines.
    async fn edits_a_template_in_vain(&mut self) -> Result<()> {
        let template = ("CapstanConfigTemplate", "plan-workers");
        let change = json!({"spec": {"template": {"spec": {"settings": {"debug": true}}}}});
        self.changes(template, &change, &[]).await?;
        let back = json!({"spec": {"template": {"spec": {"settings": null}}}});
        self.changes(template, &back, &[]).await
    }

    /// Gives the change that names it.
    async fn makes_another_template(&self) -> Result<Value> {
        let selector = json!({"matchExpressions": [{"key": "never-there", "operator": "DoesNotExist"}]});
        let template = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostMachineTemplate",
            "metadata": {"name": "plan-other", "namespace": "default"},
            "spec": {"template": {"spec": {"hostSelector": selector}}},
        });
        // Made and named in one go, it is planned as if it were there.
        let change = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "plan-other"}}}}});
        let both = format!("{template}\n---\n{}", self.with(WORKERS, &change));
        let (code, text) = self.plan(&both, &[])?;
        ensure!(
            code == 1 && text.contains("HostMachineTemplate/plan-other would be created"),
            "{code}: {text}"
        );
        ensure!(text.contains("spec.template.spec.hostSelector"), "{text}");
        self.kubectl(&["apply", "--server-side", "-f", "-"], &template.to_string())?;
        let (code, plan) = self.planned(&template)?;
        ensure!(code == 0 && plan["changes"] == false, "{plan:#}");
        Ok(change)
    }

    /// Waits until nobody is at anything.
    async fn is_calm(&self) -> Result<()> {
        eventually(DEADLINE, "everything to be as it should", async || {
            for (kind, name) in [CONTROL_PLANE, WORKERS] {
                let object = self.get(&[kind, name])?;
                let (spec, status) = (&object["spec"], &object["status"]);
                let counts = [&status["replicas"], &status["availableReplicas"], &status["upToDateReplicas"]];
                ensure!(counts.iter().all(|count| **count == spec["replicas"]), "{kind}: {status:#}");
                let seen = status["observedGeneration"].is_null()
                    || status["observedGeneration"] == object["metadata"]["generation"];
                ensure!(seen, "{kind} was not looked at");
                let rolling =
                    status["conditions"].as_array().into_iter().flatten().find(|condition| {
                        condition["type"] == "RollingOut" && condition["status"] != "False"
                    });
                ensure!(rolling.is_none(), "{kind}: {rolling:?}");
            }
            let sets = self.get(&["machinesets"])?;
            ensure!(items(&sets).count() == 1, "{} MachineSets", items(&sets).count());
            for machine in items(&self.get(&["machines"])?) {
                let metadata = &machine["metadata"];
                ensure!(metadata["deletionTimestamp"].is_null(), "{} is leaving", metadata["name"]);
                let marks = metadata["annotations"].to_string();
                ensure!(!marks.contains("in-place") && !marks.contains("pending-hooks"), "{marks}");
            }
            Ok(())
        })
        .await
    }

    fn machines(&self) -> Result<Machines> {
        let plans = self.get(&["secrets", "--field-selector", "type=agent.capstan.dev/machine-plan"])?;
        let mut all = Machines::new();
        for machine in items(&self.get(&["machines"])?) {
            let name = machine["metadata"]["name"].as_str().context("a name")?;
            let secret = items(&plans).find(|plan| plan["metadata"]["name"] == format!("{name}-plan"));
            let annotation = |key: &str| secret.map(|plan| plan["metadata"]["annotations"][key].clone());
            let record = annotation("capstan.dev/plan-record").unwrap_or_default();
            let record: Value = serde_json::from_str(record.as_str().unwrap_or("null"))?;
            let revision = secret.and_then(|plan| plan["data"]["revision"].as_str()).unwrap_or_default();
            let mut spec = machine["spec"].clone();
            for field in ["version", "bootstrap", "providerID"] {
                spec[field] = Value::Null;
            }
            let labels = machine["metadata"]["labels"].as_object().context("labels")?;
            let is_core = |key: &str| key == "machine-template-hash" || key == "cluster.x-k8s.io/set-name";
            let labels: BTreeMap<_, _> = labels.iter().filter(|(key, _)| !is_core(key)).collect();
            all.insert(
                name.to_owned(),
                Seen {
                    uid: machine["metadata"]["uid"].to_string(),
                    is_worker: labels.keys().all(|key| *key != "cluster.x-k8s.io/control-plane"),
                    revision: decoded(revision)?,
                    record,
                    drained: annotation("capstan.dev/drain-since").is_some_and(|since| since.is_string()),
                    desired: format!("{spec} {labels:?}"),
                },
            );
        }
        Ok(all)
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn machines(plan: &Value) -> impl Iterator<Item = &Value> {
    plan["machines"].as_array().into_iter().flatten()
}

/// The number in a Secret.
fn decoded(base64: &str) -> Result<u64> {
    let bytes = serde_json::from_value::<ByteString>(json!(base64)).context("no Base64")?.0;
    let text = String::from_utf8(bytes).context("no text")?;
    if text.is_empty() { Ok(0) } else { text.trim().parse().with_context(|| text.clone()) }
}

/// What really happened to a machine.
fn happened(before: Option<&Seen>, after: Option<&Seen>) -> Result<&'static str> {
    let (before, after) = match (before, after) {
        (Some(before), Some(after)) => (before, after),
        (Some(_), None) => return Ok("gone"),
        (None, _) => return Ok("create"),
    };
    ensure!(before.uid == after.uid, "it is another Machine");
    ensure!(after.revision <= before.revision + 1, "told {} times", after.revision - before.revision);
    if before.revision == after.revision {
        return Ok(if before.desired == after.desired { "nothing" } else { "live" });
    }
    let differs = |digest: &str| after.record["ran"][digest] != after.record["setup"][digest];
    Ok(match (differs("restart"), differs("drain") && after.drained) {
        (true, true) => "drain and restart",
        (true, false) => "restart",
        (false, _) => "live",
    })
}

/// Whether what was said of every machine is what became of it.
fn as_planned(plan: &Value, before: &Machines, after: &Machines) -> Result<()> {
    let mut created = 0;
    let mut replaced = 0;
    for machine in machines(plan) {
        let (name, outcome) = (machine["name"].as_str().unwrap(), machine["outcome"].as_str().unwrap());
        if outcome == "create" {
            created += 1;
            continue;
        }
        let seen = after.get(name);
        let happened = happened(before.get(name), seen).with_context(|| name.to_owned())?;
        let expected = match outcome {
            "refused" => "nothing",
            "delete" | "replace" => "gone",
            other => other,
        };
        replaced += usize::from(outcome == "replace");
        ensure!(happened == expected, "{name}: {outcome} was planned, {happened} has happened");
        ensure!(machine["kept"] == seen.is_some(), "{name}: {machine}");
        if outcome == "drain and restart" {
            ensure!(machine["notes"].is_null(), "{name} is drained, and something else is said: {machine}");
        }
    }
    let planned: Vec<&str> = machines(plan).filter_map(|machine| machine["name"].as_str()).collect();
    for (name, seen) in before.iter().filter(|(name, _)| !planned.contains(&name.as_str())) {
        ensure!(after.get(name) == Some(seen), "{name} was not spoken of and has changed");
    }
    let new = after.keys().filter(|name| !before.contains_key(*name)).count();
    ensure!(new == created + replaced, "{new} are new; {created} were to be made, {replaced} to be replaced");
    Ok(())
}

/// Whether machines were told in the order that was said.
fn in_order(plan: &Value, after: &Machines) -> Result<()> {
    let mut last = String::new();
    let kept = machines(plan).filter(|machine| machine["step"].is_number() && machine["kept"] == true);
    for machine in kept {
        let name = machine["name"].as_str().unwrap_or_default();
        let Some(written) = after.get(name).and_then(|seen| seen.record["written"].as_str()) else {
            bail!("{name} has no plan");
        };
        ensure!(written >= last.as_str(), "{name} came too early");
        written.clone_into(&mut last);
    }
    Ok(())
}

/// A JSON merge patch, RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let (Some(fields), true) = (patch.as_object(), target.is_object()) else {
        *target = patch.clone();
        return;
    };
    for (key, value) in fields {
        match value.is_null() {
            true => _ = target.as_object_mut().unwrap().shift_remove(key),
            false => merge(&mut target[key], value),
        }
    }
}
