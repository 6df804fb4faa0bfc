//! Tests of every source of a template, and of the one-line errors.

use super::*;
use crate::args::{Args, Verb};
use clap::Parser;
use serde_json::Value;
use std::path::Path;

fn parsed_args(words: &[&str]) -> GenerateClusterArgs {
    match Args::try_parse_from([&["capstan", "generate", "cluster"], words].concat()).unwrap().verb {
        Verb::Generate(Generate::Cluster(args)) => *args,
        other => panic!("parsed as {other:?}"),
    }
}

fn built_in(words: &[&str]) -> Result<String> {
    let args = parsed_args(words);
    let source = source::built_in(args.flavor.as_deref(), args.infrastructure.as_deref())?;
    // What the flavor ha needs besides, and no flag says.
    rendered(&source, &args, |name| (name == "CONTROL_PLANE_ENDPOINT_HOST").then(|| "10.0.0.1".to_owned()))
}

fn of_text(text: &str) -> Result<String> {
    let source = Source { text: text.to_owned(), origin: "it".to_owned() };
    let args = parsed_args(&["demo"]);
    rendered(&source, &args, |name| match name {
        "NAME" => Some("off".to_owned()),
        "KUBERNETES_VERSION" => Some("1.2".to_owned()),
        _ => None,
    })
}

#[test]
fn the_built_in_template_renders_from_flags_alone() {
    let words = ["demo", "--kubernetes-version", "v1.36.1+k3s1", "--worker-machine-count=3"];
    let rendered = built_in(&words).unwrap();
    assert!(rendered.contains("name: \"demo-control-plane\"\n"), "{rendered}");
    assert!(rendered.contains("version: v1.36.1+k3s1\n") && rendered.contains("replicas: 3\n"));
    assert!(!rendered.contains("${"), "{rendered}");
}

#[test]
fn every_flavor_renders_whatever_the_name_of_the_cluster() {
    for flavor in ["", "ha", "simulated", "single-node", "topology"] {
        for name in ["demo", "off", "true", "1", "null", "1e3", "0x1", "12-30"] {
            let words = [
                name,
                "--flavor",
                flavor,
                "--kubernetes-version",
                "v1.36.1+k3s1",
                "-n",
                "on",
                "-i",
                "capstan",
            ];
            let rendered = built_in(&words).unwrap_or_else(|error| panic!("{flavor} {name}: {error:#}"));
            let documents: Vec<Value> = serde_saphyr::from_multiple(&rendered).unwrap();
            let cluster = documents.iter().find(|document| document["kind"] == "Cluster").unwrap();
            assert_eq!(cluster["metadata"]["name"], name, "{flavor}");
            assert_eq!(cluster["metadata"]["namespace"], "on", "{flavor}");
            // A topology names no objects.
            for reference in ["infrastructureRef", "controlPlaneRef"].iter().filter(|_| flavor != "topology")
            {
                let named = &cluster["spec"][reference]["name"];
                assert!(
                    named.as_str().is_some_and(|text| text.starts_with(name)),
                    "{flavor} {reference}: {named}"
                );
            }
            let texts = documents.iter().flat_map(strings_that_are_none).collect::<Vec<_>>();
            assert_eq!(texts, Vec::<String>::new(), "{flavor} {name}");
        }
    }
}

/// Labels, names and references that YAML has read as something else than a text.
fn strings_that_are_none(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| {
                let is_text = ["name", "namespace", "clusterName"].contains(&key.as_str())
                    || key.contains(".x-k8s.io/");
                let wrong = is_text && !value.is_string();
                wrong.then(|| format!("{key}: {value}")).into_iter().chain(strings_that_are_none(value))
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(strings_that_are_none).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn errors_are_one_line() {
    for (result, parts) in [
        (built_in(&["demo"]), &["[KUBERNETES_VERSION]", "--kubernetes-version v1.36.0", "environment"][..]),
        (
            built_in(&["demo", "--kubernetes-version", "1.2"]),
            &["--kubernetes-version: \"1.2\"", "v1.36.0", "KUBERNETES_VERSION"],
        ),
        (of_text("${KUBERNETES_VERSION}"), &["variable KUBERNETES_VERSION: \"1.2\"", "--kubernetes-version"]),
        (of_text("${B} ${A}\n"), &["[A, B]"]),
        (
            built_in(&["demo", "--flavor", "huge"]),
            &["there is no flavor \"huge\"", "ha, simulated, single-node, topology"],
        ),
        (built_in(&["demo", "-i", "docker"]), &["only the templates of capstan are built in", "--from"]),
        (built_in(&["demo", "-i", "capstan:v9.9.9"]), &["capstan:v9.9.9", "--from"]),
        (of_text("kind: A\napiVersion: [\n"), &["it gives no manifests", "line"]),
        (of_text("just words\n"), &["document 1 is not a Kubernetes object"]),
        (
            of_text("kind: A\napiVersion: v1\nmetadata: {}\n"),
            &["document 1 is not a Kubernetes object: it has no metadata.name"],
        ),
        (
            of_text("kind: A\napiVersion: v1\nmetadata:\n  name: ${NAME}\n"),
            &["document 1: metadata.name is false", "quotes"],
        ),
        (of_text("# nothing\n"), &["it is empty"]),
        (of_text("a\n${NAME\n"), &["cannot use it", "line 2", "closing brace"]),
        (
            source::file("https://example.com/t.yaml").map(|_| String::new()),
            &["not fetched over the network", "curl"],
        ),
        (source::file("/").map(|_| String::new()), &["is a folder"]),
        (source::file("/nowhere.yaml").map(|_| String::new()), &["cannot read /nowhere.yaml"]),
    ] {
        let error = format!("{:#}", result.unwrap_err());
        assert!(!error.contains('\n'), "{error}");
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
    }
}

#[test]
fn variables_are_listed_by_need() {
    let text = list(&Template::parse("${B:=b} ${A}").unwrap());
    assert_eq!(text, "Required Variables:\n  - A\nOptional Variables:\n  - B  (defaults to b)\n");
}

#[test]
fn the_manifest_of_the_webhooks_is_committed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/admission/webhooks.yaml");
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(committed == admission(), "run `make generate` and commit config/admission/webhooks.yaml");
}

/// The manifest is for the Deployment that the core provider brings.
#[test]
fn the_manifest_of_the_webhooks_fits_the_core_provider() {
    use capstan_components::{Options, Provider, Version, components};
    let version: Version = "v0.1.0".parse().unwrap();
    let core = components(Provider::Core, &Options::of(Provider::Core, version));
    let of =
        |objects: &[Value], kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap().clone();
    let deployment = of(&core, "Deployment");
    let pod = &deployment["spec"]["template"];
    let ours = capstan_webhooks::manifest::objects();
    let service = of(&ours, "Service");
    assert_eq!(service["metadata"]["namespace"], deployment["metadata"]["namespace"]);
    assert_eq!(service["spec"]["selector"], pod["metadata"]["labels"]);
    assert_eq!(of(&ours, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"], pod["metadata"]["labels"]);
    let subject = &of(&ours, "ClusterRoleBinding")["subjects"][0];
    assert_eq!(subject["name"], pod["spec"]["serviceAccountName"]);
    assert_eq!(subject["namespace"], deployment["metadata"]["namespace"]);
    let port = &service["spec"]["ports"][0]["targetPort"];
    let ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
    assert!(ports.iter().all(|one| one["containerPort"] != *port), "the port is taken");
}
