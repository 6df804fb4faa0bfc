//! Secrets planted in all places where users and programs put them. None of them may remain.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const PLANTED: &str = "hunter2-Planted";

fn pem(kind: &str) -> String {
    format!("-----BEGIN {kind}-----\nMIIBhunter2-Planted\nAAAA\n-----END {kind}-----")
}

/// Whether it is nowhere, neither as it is nor in Base64, wherever in it the text begins.
fn is_free_of_secrets(text: &str) -> bool {
    let encoded = [0, 1, 2].map(|shift| {
        let text = STANDARD.encode(format!("{}{PLANTED}", "x".repeat(shift)));
        text[4..text.len() - 4].to_owned()
    });
    !text.contains(PLANTED) && !encoded.iter().any(|encoded| text.contains(encoded.as_str()))
}

#[test]
fn no_planted_secret_is_left_in_an_object() {
    let kubeconfig = format!(
        "apiVersion: v1\nusers:\n- name: admin\n  user:\n    client-key-data: {}\n    token: {PLANTED}\n",
        STANDARD.encode(pem("EC PRIVATE KEY"))
    );
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": PLANTED}});
    let object = json!({
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfig",
        "metadata": {
            "name": "c",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": secret.to_string(),
                "example.com/nested": json!({"deep": {"password": PLANTED}, "list": [{"name": "DB_TOKEN", "value": PLANTED}]}).to_string(),
                "example.com/api-token": PLANTED,
                "example.com/note": format!("log in with password: {PLANTED}"),
                "example.com/kubeconfig": &kubeconfig,
                "example.com/encoded": STANDARD.encode(&kubeconfig),
            },
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:x": PLANTED}}],
        },
        "spec": {
            "token": PLANTED,
            "settings": {
                "agent-token": PLANTED, "etcd-s3-secret-key": PLANTED,
                "datastore-endpoint": format!("postgres://user:{PLANTED}@db:5432/k3s"),
                "kube-apiserver-arg": [format!("--oidc-client-secret={PLANTED}"), format!("encryption-key={PLANTED}")],
            },
            "env": [{"name": "DB_PASSWORD", "value": PLANTED}, {"name": "REGISTRY", "value": format!("https://u:{PLANTED}@r.example.com")}],
            "variables": [{"name": "adminPassword", "value": {"inner": [PLANTED]}}],
            "files": [{"path": "/etc/x", "content": format!("anything {PLANTED}")}],
            "users": [{"name": "admin", "passwd": PLANTED}],
            "commands": [
                format!("curl -H 'Authorization: Bearer {PLANTED}' https://example.com"),
                format!("join --token {PLANTED} --node n"),
                format!("export AWS_SECRET_ACCESS_KEY='{PLANTED}' && run"),
                format!("mysql --password={PLANTED}"),
            ],
            "before": [{"name": "join", "command": ["join", "--token", PLANTED, "-H", format!("Authorization: Basic {PLANTED}")]}],
            "discovery": {"bootstrapToken": {"token": PLANTED, "apiServerEndpoint": "10.0.0.1:6443"}},
            "key": pem("OPENSSH PRIVATE KEY"),
            "cut": format!("-----BEGIN RSA PRIVATE KEY-----\nMIIB{PLANTED}"),
            "escaped": json!({"x": pem("PRIVATE KEY")}).to_string(),
            "proxy": format!("http://{PLANTED}@proxy:3128"),
            "embedded": &secret,
            "data": {"value": STANDARD.encode(PLANTED)},
            "userData": STANDARD.encode(PLANTED),
            "pin": {"passcode": 4711},
        },
        "status": {"output": {"stderr": {"head": format!("error: token={PLANTED}, retry")}}},
    });
    let redacted = value(&object).to_string();
    assert!(is_free_of_secrets(&redacted), "{:#}", value(&object));
    assert!(!redacted.contains("4711") && !redacted.contains("managedFields"), "{redacted}");
}

#[test]
fn what_is_needed_is_left() {
    let object = json!({
        "kind": "Machine", "metadata": {"name": "m", "labels": {"cluster.x-k8s.io/cluster-name": "demo"}},
        "spec": {
            "bootstrap": {"dataSecretName": "m-bootstrap"}, "providerID": "capstan://default/host-1/claim",
            "ssh": {"credentialsRef": {"name": "ssh", "kind": "Secret"}, "address": "10.0.0.1"},
            "files": [{"path": "/etc/motd", "contentFrom": {"secret": {"name": "s", "key": "motd"}}}],
            "image": "registry.example.com/x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "caBundle": STANDARD.encode(pem("CERTIFICATE").replace(PLANTED, "")),
            "automountServiceAccountToken": false,
        },
        "status": {"conditions": [{
            "type": "BootstrapConfigReady", "status": "False", "reason": "CredentialsMissing",
            "message": "Secret default/ssh has no key ssh-privatekey; next attempt at 2026-11-15T00:00:00Z",
        }]},
    });
    assert_eq!(value(&object), object);
}

#[test]
fn tokens_are_known_by_their_form_in_any_text() {
    for secret in [
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl",
        "K10aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa::server:abcdef",
        "abcdef.0123456789abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    ] {
        for said in [
            format!("x {secret} y"),
            format!("\"{secret}\""),
            format!("a={secret}\n"),
            STANDARD.encode(format!("some text before {secret} and after")),
        ] {
            assert!(!text(&said).contains(secret) && text(&said) != said, "{said}: {}", text(&said));
        }
    }
}

#[test]
fn ordinary_messages_stay() {
    for said in [
        "Rolling out 2 not up-to-date replicas\n* Machine demo-1: waits until etcd has a quorum",
        "cannot read Secret default/demo-kubeconfig: not found",
        "the token expires at 2026-11-15T00:00:00Z",
        "https://127.0.0.1:6443/api/v1/namespaces/default/pods?limit=500",
        "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "",
    ] {
        assert_eq!(text(said), said);
    }
}
