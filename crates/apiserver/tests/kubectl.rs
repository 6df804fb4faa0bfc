//! The real kubectl over TLS: what people type.

use crate::support;
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::support::pki::Authority;
use capstan_apiserver::{ApiServer, Options, Storage};
use tempfile::TempDir;
use tokio::net::TcpListener;

struct Kubectl {
    folder: TempDir,
    kubeconfig: PathBuf,
}

impl Kubectl {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(self.folder.path().join("cache"));
        command.args(arguments);
        command
    }

    /// Both outputs, and whether it went well.
    async fn try_run(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = self.command(arguments);
        let output = tokio::task::spawn_blocking(move || command.output())
            .await
            .unwrap()
            .expect("kubectl is on the PATH");
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text)
    }

    async fn run(&self, arguments: &[&str]) -> String {
        let (good, text) = self.try_run(arguments).await;
        assert!(good, "kubectl {arguments:?}: {text}");
        text
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

const OBJECTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: default, labels: {app: x}}
data: {k: VALUE}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: default}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: VALUE}, {name: e, image: e}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn what_people_type() {
    let server = ApiServer::open(Options::new(Storage::Memory)).await.unwrap();
    let authority = Authority::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.serve(listener, &authority.server().unwrap()).unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, authority.kubeconfig(port, "admin", "system:masters").unwrap()).unwrap();
    let stranger = folder.path().join("stranger");
    std::fs::write(&stranger, authority.kubeconfig(port, "jane", "nobody").unwrap()).unwrap();
    let kubectl = Kubectl { folder, kubeconfig };

    built_ins(&kubectl).await;
    typed(&kubectl).await;
    watching(&kubectl).await;
    definitions(&kubectl).await;
    refusals(&kubectl, &stranger).await;
    server.shutdown().await;
}

async fn built_ins(kubectl: &Kubectl) {
    assert!(kubectl.run(&["version"]).await.contains("Server Version: v1.36"));
    assert!(kubectl.run(&["get", "namespaces"]).await.contains("kube-system"));
    assert!(kubectl.run(&["api-resources"]).await.contains("customresourcedefinitions"));
    let file = kubectl.file("objects.yaml", &OBJECTS.replace("VALUE", "one"));
    assert_eq!(
        kubectl.run(&["apply", "-f", &file]).await,
        "configmap/a created\ndeployment.apps/d created\n"
    );
    assert_eq!(
        kubectl.run(&["apply", "-f", &file]).await,
        "configmap/a unchanged\ndeployment.apps/d unchanged\n"
    );
    kubectl.file("objects.yaml", &OBJECTS.replace("VALUE", "two"));
    assert_eq!(
        kubectl.run(&["apply", "-f", &file]).await,
        "configmap/a configured\ndeployment.apps/d configured\n"
    );
    let images = "jsonpath={.spec.template.spec.containers[*].image}";
    assert_eq!(kubectl.run(&["get", "deployment", "d", "-o", images]).await, "two e");
    assert!(kubectl.run(&["get", "configmaps", "-l", "app=x"]).await.contains("a      1"));
    assert!(kubectl.run(&["describe", "configmap", "a"]).await.contains("k:\n----\ntwo"));
    kubectl.run(&["label", "configmap", "a", "team=y"]).await;
    kubectl.run(&["scale", "deployment", "d", "--replicas=3"]).await;
    assert_eq!(kubectl.run(&["get", "deployment", "d", "-o", "jsonpath={.spec.replicas}"]).await, "3");
    assert!(kubectl.run(&["explain", "deployment.spec.replicas"]).await.contains("<integer>"));
    assert!(kubectl.run(&["diff", "-f", &file]).await.is_empty());
    kubectl.run(&["delete", "-f", &file, "--cascade=foreground", "--timeout=10s"]).await;
    assert!(kubectl.run(&["get", "deployments"]).await.contains("No resources found"));
}

/// What kubectl sends as protobuf, because it knows the types.
async fn typed(kubectl: &Kubectl) {
    kubectl.run(&["create", "secret", "generic", "s", "--from-literal=k=v"]).await;
    assert_eq!(kubectl.run(&["get", "secret", "s", "-o", "jsonpath={.data.k}"]).await, "dg==");
    kubectl.run(&["create", "deployment", "typed", "--image=a", "--replicas=0", "--port=80"]).await;
    let shown = "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].ports[0].containerPort}";
    assert_eq!(kubectl.run(&["get", "deployment", "typed", "-o", shown]).await, "0 80");
    kubectl.run(&["create", "serviceaccount", "m"]).await;
    assert_eq!(kubectl.run(&["create", "token", "m"]).await.split('.').count(), 3);
    assert_eq!(kubectl.run(&["auth", "can-i", "*", "*"]).await, "yes\n");
    assert!(kubectl.run(&["auth", "whoami"]).await.contains("system:masters"));
    for object in ["secret/s", "deployment/typed", "serviceaccount/m"] {
        kubectl.run(&["delete", object]).await;
    }
}

async fn watching(kubectl: &Kubectl) {
    let mut command = kubectl.command(&["get", "configmaps", "-w", "-o", "name"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let file = kubectl.file(
        "watched.yaml",
        "# YAML\n{apiVersion: v1, kind: ConfigMap, metadata: {name: w, namespace: default}}",
    );
    kubectl.run(&["create", "-f", &file]).await;
    let line = tokio::task::spawn_blocking(move || lines.next()).await.unwrap();
    assert_eq!(line.unwrap().unwrap(), "configmap/w");
    child.kill().unwrap();
    child.wait().unwrap();
    kubectl.run(&["delete", "configmap", "w"]).await;
}

async fn definitions(kubectl: &Kubectl) {
    let file = kubectl.file("crd.json", &support::widgets().to_string());
    kubectl.run(&["apply", "-f", &file]).await;
    assert!(kubectl.run(&["apply", "-f", &file]).await.contains("unchanged"));
    kubectl.run(&["wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=5s"]).await;
    let widget = kubectl.file("widget.yaml", "# YAML\n{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: default}, spec: {size: S}}");
    assert!(kubectl.run(&["apply", "-f", &widget]).await.contains("created"));
    assert!(kubectl.run(&["apply", "-f", &widget]).await.contains("unchanged"));
    let server_side = ["apply", "--server-side", "-f", &widget];
    assert!(
        kubectl.run(&server_side).await.contains("serverside-applied"),
        "taken over from the client-side apply"
    );
    assert!(kubectl.run(&["get", "wd"]).await.contains("SIZE"));
    assert!(kubectl.run(&["explain", "widget.spec.size"]).await.contains("How big it is."));
    let bad = kubectl.file(
        "bad.yaml",
        "# YAML\n{apiVersion: example.com/v1, kind: Widget, metadata: {name: b, namespace: default}, spec: {siz: S}}",
    );
    let (good, text) = kubectl.try_run(&["apply", "-f", &bad]).await;
    assert!(!good && text.contains("unknown field \"spec.siz\""), "{text}");
    kubectl.run(&["delete", "crd", "widgets.example.com", "--timeout=10s"]).await;
    let (_, text) = kubectl.try_run(&["get", "widgets"]).await;
    // Which of the two depends on how fresh kubectl's discovery cache is.
    let gone = ["the server doesn't have a resource type", "could not find the requested resource"];
    assert!(gone.iter().any(|gone| text.contains(gone)), "{text}");
}

async fn refusals(kubectl: &Kubectl, stranger: &Path) {
    let (good, text) = kubectl.try_run(&["get", "secrets", "--kubeconfig", stranger.to_str().unwrap()]).await;
    assert!(!good && text.contains(r#"User "jane" cannot list resource "secrets""#), "{text}");
    let (good, text) = kubectl.try_run(&["get", "configmap", "none"]).await;
    assert!(!good && text.contains(r#"configmaps "none" not found"#), "{text}");
}
