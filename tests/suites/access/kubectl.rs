//! What people type about rights and credentials.

use std::process::Command;

use capstan_tests::Credential;
use capstan_tools::{Program, locate};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::json;

use crate::script::{NAMESPACE, Script};

pub(crate) async fn prints(script: &mut Script) {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = Kubectl { home: folder.path().to_owned(), kubeconfig: script.admin_kubeconfig.clone() };
    for args in [
        &["create", "serviceaccount", "m", "-n", NAMESPACE][..],
        &["create", "secret", "generic", "plan", "-n", NAMESPACE, "--from-literal=k=v"],
        &["create", "configmap", "map", "-n", NAMESPACE, "--from-literal=k=v"],
        &[
            "create",
            "role",
            "m",
            "-n",
            NAMESPACE,
            "--verb=get,list",
            "--resource=secrets",
            "--resource-name=plan",
        ],
        &[
            "create",
            "rolebinding",
            "m",
            "-n",
            NAMESPACE,
            "--role=m",
            &format!("--serviceaccount={NAMESPACE}:m"),
        ],
        &["get", "secret", "plan", "-n", NAMESPACE, "-o", "jsonpath={.data.k}"],
        &["auth", "can-i", "*", "*"],
        &["auth", "can-i", "get", "secrets/plan", "-n", NAMESPACE, "--as", "jane"],
        &[
            "auth",
            "can-i",
            "list",
            "secrets",
            "-n",
            NAMESPACE,
            "--as",
            &format!("system:serviceaccount:{NAMESPACE}:m"),
        ],
        &[
            "auth",
            "can-i",
            "get",
            "secrets/plan",
            "-n",
            NAMESPACE,
            "--as",
            &format!("system:serviceaccount:{NAMESPACE}:m"),
        ],
        &["create", "token", "none", "-n", NAMESPACE],
        &["create", "token", "m", "-n", NAMESPACE, "--duration=1s"],
        &["delete", "configmap", "map", "-n", NAMESPACE],
    ] {
        let printed = kubectl.run(args);
        script.note(&args.join(" "), &printed);
    }
    let token = kubectl.run(&["create", "token", "m", "-n", NAMESPACE, "--duration=20m"]);
    let file = folder.path().join("m.kubeconfig");
    let token = token.trim_start_matches("true").trim();
    std::fs::write(&file, script.place.kubeconfig(&Credential::Token(token))).unwrap();
    let machine = Kubectl { kubeconfig: file, home: kubectl.home.clone() };
    for args in [
        &["auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}"][..],
        &["auth", "can-i", "get", "secrets/plan", "-n", NAMESPACE],
        &["auth", "can-i", "get", "secrets", "-n", NAMESPACE],
        &["get", "secret", "plan", "-n", NAMESPACE, "-o", "name"],
        &["get", "secrets", "-n", NAMESPACE, "--field-selector=metadata.name=plan", "-o", "name"],
        &["get", "secrets", "-n", NAMESPACE],
        &["auth", "can-i", "create", "pods", "--all-namespaces"],
    ] {
        script.note(&args.join(" "), &machine.run(args));
    }
    certificates(script, &kubectl).await;
}

async fn certificates(script: &mut Script, kubectl: &Kubectl) {
    for name in ["yes", "no"] {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        let pem = serde_json::to_value(k8s_openapi::ByteString(pem.into_bytes())).unwrap();
        let body = json!({
            "metadata": {"name": name},
            "spec": {"request": pem, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]},
        });
        script.make("/apis/certificates.k8s.io/v1/certificatesigningrequests", body).await;
    }
    let issued = "jsonpath={.status.certificate}";
    for args in [
        &["certificate", "approve", "yes"][..],
        &["certificate", "deny", "no"],
        &["wait", "csr/yes", &format!("--for={issued}"), "--timeout=60s"],
        &["get", "csr", "no", "--no-headers"],
        &["get", "csr", "yes", "--no-headers"],
        &["delete", "csr", "yes", "no"],
    ] {
        // Ages and requestors differ, and neither is what is compared.
        let printed = kubectl.run(args);
        let words: Vec<&str> = printed.split_whitespace().collect();
        let printed =
            if args.contains(&"--no-headers") { words[words.len() - 1].to_owned() } else { printed };
        script.note(&args.join(" "), &printed);
    }
}

struct Kubectl {
    kubeconfig: std::path::PathBuf,
    home: std::path::PathBuf,
}

impl Kubectl {
    /// Whether it went well, and all it printed.
    fn run(&self, args: &[&str]) -> String {
        let output = Command::new(locate(Program::Kubectl).unwrap())
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .env_remove("KUBECACHEDIR")
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{} {}{}", output.status.success(), text(&output.stdout), text(&output.stderr))
    }
}
