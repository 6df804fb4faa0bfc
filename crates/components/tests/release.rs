//! Tests of a release from the view of clusterctl and its users.

use capstan_api::clusterctl::Metadata;
use capstan_components::{
    Options, Provider, Version, access_bindings, clusterctl_config, components, providers, repository,
    templates, to_yaml,
};
use capstan_template::Template;
use serde_json::Value;
use std::collections::BTreeSet;

fn version() -> Version {
    "v0.1.0".parse().expect("a version")
}

fn objects(provider: Provider) -> Vec<Value> {
    components(provider, &Options::of(provider, version()))
}

fn of_kind(provider: Provider, kind: &str) -> Vec<Value> {
    objects(provider).into_iter().filter(|object| object["kind"] == kind).collect()
}

/// The documents of a rendered text.
fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("YAML")
}

#[test]
fn the_files_lie_where_clusterctl_looks_for_them() {
    let files = repository(version());
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "cluster-api/v0.1.0/core-components.yaml",
            "cluster-api/v0.1.0/metadata.yaml",
            "bootstrap-capstan/v0.1.0/bootstrap-components.yaml",
            "bootstrap-capstan/v0.1.0/metadata.yaml",
            "control-plane-capstan/v0.1.0/control-plane-components.yaml",
            "control-plane-capstan/v0.1.0/metadata.yaml",
            "infrastructure-capstan/v0.1.0/infrastructure-components.yaml",
            "infrastructure-capstan/v0.1.0/metadata.yaml",
            "infrastructure-capstan/v0.1.0/cluster-template.yaml",
            "infrastructure-capstan/v0.1.0/cluster-template-ha.yaml",
            "infrastructure-capstan/v0.1.0/cluster-template-simulated.yaml",
            "infrastructure-capstan/v0.1.0/cluster-template-single-node.yaml",
            "infrastructure-capstan/v0.1.0/cluster-template-topology.yaml",
            "infrastructure-capstan/v0.1.0/cluster-template-access.yaml",
            "runtime-extension-capstan/v0.1.0/runtime-extension-components.yaml",
            "runtime-extension-capstan/v0.1.0/metadata.yaml",
            "cert-manager/v0.0.0/cert-manager.yaml",
        ]
    );
    assert_eq!(files, repository(version()), "the same version gives the same bytes");
}

#[test]
fn metadata_names_the_series() {
    for file in repository(version()).iter().filter(|file| file.path.ends_with("metadata.yaml")) {
        let metadata = Metadata::from_yaml(&file.text).expect("metadata");
        let series = &metadata.spec.release_series[0];
        assert_eq!(
            (series.major, series.minor, series.contract.as_deref()),
            (Some(0), Some(1), Some("v1beta2"))
        );
    }
}

#[test]
fn variables_all_have_defaults_and_leave_the_rest_alone() {
    let mut seen = BTreeSet::new();
    for provider in providers() {
        let text = to_yaml(&objects(provider));
        let template = Template::parse(&text).expect("a template");
        for (name, default) in template.variables() {
            assert!(default.is_some(), "{name} has no default");
            seen.insert(name.clone());
        }
        let rendered = template.render(|_| None).expect("rendered");
        for (object, written) in objects(provider).iter().zip(documents(&rendered)) {
            if object["kind"] == "CustomResourceDefinition" {
                assert_eq!(*object, written, "a pattern or a description was taken for a variable");
            }
        }
    }
    let expected = [
        "CAPI_DIAGNOSTICS_ADDRESS",
        "CAPI_INSECURE_DIAGNOSTICS",
        "CAPSTAN_BOOTSTRAP_SOFTWARE_URL",
        "CAPSTAN_CONTROL_PLANE_SOFTWARE_URL",
        "CAPSTAN_HOOKS_ALLOW_UNAUTHENTICATED",
        "CAPSTAN_PLANE_SERVER",
        "CAPSTAN_SOFTWARE_SERVICE_TYPE",
    ];
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn everything_bears_the_label_of_its_provider_and_one_namespace() {
    for provider in providers() {
        assert_eq!(of_kind(provider, "Namespace").len(), 1);
        for object in objects(provider) {
            assert_eq!(
                object["metadata"]["labels"]["cluster.x-k8s.io/provider"],
                provider.label(),
                "{object}"
            );
            let everywhere = [
                "Namespace",
                "CustomResourceDefinition",
                "ClusterRole",
                "ClusterRoleBinding",
                "ValidatingAdmissionPolicy",
                "ValidatingAdmissionPolicyBinding",
            ];
            let namespace = object["metadata"]["namespace"].as_str();
            match object["kind"].as_str() {
                Some(kind) if everywhere.contains(&kind) => assert_eq!(namespace, None),
                _ => assert_eq!(namespace, Some(provider.namespace().as_str())),
            }
        }
    }
}

#[test]
fn clusterctl_can_remove_what_bears_no_namespace() {
    for provider in providers() {
        let policies = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
        for kind in ["ClusterRole", "ClusterRoleBinding"].into_iter().chain(policies) {
            for object in of_kind(provider, kind) {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                assert!(name.starts_with(&format!("{}-", provider.namespace())), "{name}");
            }
        }
    }
}

#[test]
fn nobody_may_write_or_read_secrets_everywhere() {
    for provider in providers() {
        let bound: Vec<Value> = of_kind(provider, "ClusterRoleBinding");
        let bound: Vec<&Value> = bound.iter().map(|binding| &binding["roleRef"]["name"]).collect();
        for role in of_kind(provider, "ClusterRole") {
            let rules = role["rules"].as_array().expect("rules").clone();
            let of_secrets = |rule: &Value| {
                let all = rule["resources"].as_array().into_iter().flatten();
                rule["apiGroups"][0] == "" && all.into_iter().any(|name| name == "secrets" || name == "*")
            };
            if bound.contains(&&role["metadata"]["name"]) {
                assert!(!rules.iter().any(of_secrets), "{role}");
            }
        }
    }
}

#[test]
fn metrics_are_for_those_who_are_given_the_role() {
    for provider in providers() {
        let name = format!("{}-metrics-reader", provider.namespace());
        let roles = of_kind(provider, "ClusterRole");
        let role = roles.iter().find(|role| role["metadata"]["name"] == name.as_str()).expect("the role");
        assert_eq!(role["rules"], serde_json::json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]));
        let bound = of_kind(provider, "ClusterRoleBinding");
        assert!(bound.iter().all(|binding| binding["roleRef"]["name"] != name.as_str()), "users bind it");
        let deployment = of_kind(provider, "Deployment").remove(0);
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let ports = container["ports"].as_array().expect("ports");
        assert!(ports.iter().any(|port| port["name"] == "metrics" && port["containerPort"] == 8443));
        let text = Template::parse(&container["args"].to_string()).expect("a template").render(|_| None);
        let text = text.expect("rendered");
        assert!(
            text.contains("--diagnostics-address=:8443") && text.contains("--insecure-diagnostics=false")
        );
    }
}

#[test]
fn pods_have_no_right_on_their_node() {
    for provider in providers() {
        let deployments = of_kind(provider, "Deployment");
        let [deployment] = &deployments[..] else { panic!("one Deployment each") };
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let container = &pod["containers"][0];
        assert_eq!(container["name"], "manager");
        assert_eq!(container["image"], "ghcr.io/capstan-dev/capstan:v0.1.0");
        let limits = &container["securityContext"];
        assert_eq!(limits["readOnlyRootFilesystem"], true);
        assert_eq!(limits["allowPrivilegeEscalation"], false);
        assert_eq!(limits["capabilities"]["drop"][0], "ALL");
        let mounted = container["volumeMounts"][0]["mountPath"].as_str().expect("a folder to write to");
        let args: Vec<&str> =
            container["args"].as_array().expect("args").iter().filter_map(Value::as_str).collect();
        assert!(args.contains(&format!("--data-dir={mounted}").as_str()));
        assert!(args.contains(&format!("--controllers={}", provider.controllers()).as_str()));
        // A Service finds the pods by what they are labelled with.
        for service in of_kind(provider, "Service") {
            assert_eq!(service["spec"]["selector"], deployment["spec"]["template"]["metadata"]["labels"]);
            let named = &service["spec"]["ports"][0]["targetPort"];
            assert!(container["ports"].as_array().expect("ports").iter().any(|port| port["name"] == *named));
        }
    }
}

/// Callers of the hooks are authenticated: Capstan's core by a token that the kubelet renews, upstream's core by a client
/// certificate, whose CA is in a Secret that users create.
#[test]
fn the_manifest_says_which_callers_the_hooks_serve() {
    let deployment = &of_kind(Provider::Hooks, "Deployment")[0];
    let pod = &deployment["spec"]["template"]["spec"];
    let args: Vec<&str> = pod["containers"][0]["args"]
        .as_array()
        .expect("arguments")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(args.contains(&"--hooks-allow-unauthenticated=${CAPSTAN_HOOKS_ALLOW_UNAUTHENTICATED:=false}"));
    assert!(args.contains(&"--hooks-review-tokens"));
    assert!(args.contains(&"--hooks-client-ca-file=/etc/capstan/hooks-client-ca/ca.crt"));
    let volumes = pod["volumes"].as_array().expect("volumes");
    let secret = volumes.iter().find(|volume| volume["name"] == "hooks-client-ca").expect("a volume");
    assert_eq!(secret["secret"]["secretName"], "capstan-hooks-client-ca");
    assert_eq!(secret["secret"]["optional"], true);
    let core = &of_kind(Provider::Core, "Deployment")[0]["spec"]["template"]["spec"];
    let token = &core["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"];
    assert_eq!((&token["audience"], &token["path"]), (&"hooks.capstan.dev".into(), &"token".into()));
    let folder = core["containers"][0]["volumeMounts"][1]["mountPath"].as_str().expect("a folder");
    let args = core["containers"][0]["args"].as_array().expect("arguments");
    assert!(args.contains(&format!("--hooks-token-file={folder}/token").into()), "{args:?}");
    let others = [Provider::Hooks, Provider::Core];
    for provider in providers().into_iter().filter(|provider| !others.contains(provider)) {
        let text = to_yaml(&of_kind(provider, "Deployment"));
        assert!(!text.contains("hooks-"), "{provider:?}");
    }
}

/// Every port that a pod names is open to somebody, and the hooks only to namespaces of providers.
#[test]
fn a_network_policy_names_who_may_connect() {
    for provider in providers() {
        let [policy] = &of_kind(provider, "NetworkPolicy")[..] else { panic!("one NetworkPolicy each") };
        let deployment = of_kind(provider, "Deployment").remove(0);
        let pod = &deployment["spec"]["template"];
        assert_eq!(policy["spec"]["podSelector"]["matchLabels"], pod["metadata"]["labels"]);
        assert_eq!(policy["spec"]["policyTypes"], serde_json::json!(["Ingress"]));
        let rules = policy["spec"]["ingress"].as_array().expect("rules");
        for port in pod["spec"]["containers"][0]["ports"].as_array().expect("ports") {
            let number = &port["containerPort"];
            let is_of = |rule: &&Value| {
                rule["ports"].as_array().expect("ports").iter().any(|open| open["port"] == *number)
            };
            let open: Vec<&Value> = rules.iter().filter(is_of).collect();
            let [rule] = open[..] else { panic!("{provider:?}: {port} is in one rule") };
            assert_eq!(rule.get("from").is_some(), port["name"] == "hooks", "{provider:?}: {port}");
        }
    }
    let policy = of_kind(Provider::Hooks, "NetworkPolicy").remove(0);
    let label = &policy["spec"]["ingress"][1]["from"][0]["namespaceSelector"]["matchExpressions"][0];
    let namespace = of_kind(Provider::Core, "Namespace").remove(0);
    let key = label["key"].as_str().expect("a label");
    assert!(namespace["metadata"]["labels"].get(key).is_some(), "core's namespace has the label {key}");
}

#[test]
fn templates_let_the_managers_in() {
    let accounts: BTreeSet<String> =
        access_bindings("fleet").iter().map(|binding| binding["subjects"].to_string()).collect();
    for template in templates() {
        let rendered = Template::parse(&template.text).expect("a template").render(|name| match name {
            "CLUSTER_NAME" => Some("blue".to_owned()),
            "NAMESPACE" => Some("fleet".to_owned()),
            "KUBERNETES_VERSION" => Some("v1.36.0+k3s1".to_owned()),
            "CONTROL_PLANE_ENDPOINT_HOST" => Some("192.0.2.1".to_owned()),
            _ => None,
        });
        let objects = documents(&rendered.expect("rendered"));
        let mut bound = BTreeSet::new();
        for object in &objects {
            assert_eq!(object["metadata"]["namespace"], "fleet", "{object}");
            if object["kind"] == "RoleBinding" {
                bound.insert(object["subjects"].to_string());
            }
        }
        assert_eq!(bound, accounts, "{}", template.file_name());
        assert_eq!(
            template.flavor == Some("access"),
            objects.iter().all(|object| object["kind"] == "RoleBinding")
        );
    }
}

#[test]
fn the_snippet_names_every_provider() {
    let text = clusterctl_config("/srv/capstan/");
    let config: Value = serde_saphyr::from_str(&text).expect("YAML");
    let certificates = &config["cert-manager"];
    assert_eq!(certificates["url"], "file:///srv/capstan/cert-manager/v0.0.0/cert-manager.yaml");
    assert_eq!(certificates["version"], "v0.0.0");
    let urls: Vec<&str> = config["providers"]
        .as_array()
        .expect("providers")
        .iter()
        .filter_map(|it| it["url"].as_str())
        .collect();
    assert_eq!(urls.len(), providers().len());
    assert_eq!(urls[3], "file:///srv/capstan/infrastructure-capstan/latest/infrastructure-components.yaml");
}
