//! Capstan's CRDs on a real API server: all are served without a warning, valid objects are kept whole, and what is
//! wrong is refused with a word on the field.

#![cfg(test)]

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use capstan_api::crd::{self, CustomResourceDefinition};
use capstan_testkit::{RealPlane, eventually, install_crds};
use capstan_tests::fixtures::{self, Fixture, Refused, When};
use capstan_tests::{Embedded, Resource, capstan};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn every_crd_is_established_without_a_warning() {
    let manifests = capstan(&["crds"]).unwrap();
    let plane = RealPlane::start().await.unwrap();
    let apply = async || {
        let applied = plane.kubectl_stdin(&["apply", "-f", "-"], &manifests).await.unwrap();
        assert_eq!(applied.stderr, "", "a warning");
        applied.success().unwrap()
    };
    let said = |verb: &str| -> String {
        let line = |crd: &CustomResourceDefinition| {
            format!("customresourcedefinition.apiextensions.k8s.io/{} {verb}\n", crd::name(crd))
        };
        crd::all().iter().map(line).collect()
    };

    assert_eq!(apply().await, said("created"));
    let api: Api<CustomResourceDefinition> = Api::all(plane.client());
    for crd in crd::all() {
        let name = crd::name(&crd);
        eventually(DEADLINE, &format!("{name} to be served"), async || {
            conditions_are_good(&api.get(&name).await?)
        })
        .await
        .unwrap();
    }
    assert_eq!(apply().await, said("unchanged"));
}

fn conditions_are_good(crd: &CustomResourceDefinition) -> Result<()> {
    let conditions = crd.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let found: BTreeMap<&str, &str> =
        conditions.iter().map(|condition| (condition.type_.as_str(), condition.status.as_str())).collect();
    // Others, such as NonStructuralSchema, are there only when something is wrong.
    let good = BTreeMap::from([("Established", "True"), ("NamesAccepted", "True")]);
    ensure!(found == good, "{}", json!(conditions));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_objects_round_trip() {
    let plane = plane_with_crds().await;
    let mut wrong = Vec::new();
    for (resource, fixture) in served(&plane).await {
        for object in &fixture.valid {
            if let Err(error) = round_trips(&resource, object).await {
                wrong.push(format!("{} {}: {error:#}", fixture.kind(), name(object)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} objects do not round-trip:\n{}", wrong.len(), wrong.join("\n"));
}

async fn round_trips(resource: &Resource, object: &Value) -> Result<()> {
    put(resource, object).await?;
    let stored = resource.get(name(object)).await?;
    let lost = fixtures::lost(object, &stored);
    ensure!(lost.is_empty(), "the server changed {lost:?}");
    let lost = fixtures::lost(&stored, &fixtures::rewritten(&stored)?);
    ensure!(lost.is_empty(), "the Rust type changed {lost:?}");
    Ok(())
}

/// Creates an object, with its status.
async fn put(resource: &Resource, object: &Value) -> Result<()> {
    resource.create(object).await.map_err(in_short)?;
    if resource.has_status && object["status"].is_object() {
        let status = json!({"status": object["status"]});
        resource.change_status(name(object), &status).await.map_err(in_short)?;
    }
    Ok(())
}

/// What the server answered, without all that kube says about it.
fn in_short(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("{} {}", status.code, status.message),
        error => error.into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_objects_are_refused_naming_the_field() {
    let plane = plane_with_crds().await;
    let mut wrong = Vec::new();
    for (resource, fixture) in served(&plane).await {
        for object in &fixture.valid {
            if let Err(error) = put(&resource, object).await {
                wrong.push(format!("{} {} is valid: {error:#}", fixture.kind(), name(object)));
            }
        }
        for case in &fixture.refused {
            if let Err(error) = is_refused(&resource, &fixture, case).await {
                wrong.push(format!("{}: {}: {error:#}", fixture.kind(), case.because));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} changes are not refused as they should:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

async fn is_refused(resource: &Resource, fixture: &Fixture, case: &Refused) -> Result<()> {
    let name = name(fixture.before(case));
    let answer = match case.when {
        // There is one of that name already; but what is invalid is refused before that is looked at.
        When::Create => resource.create(&fixture.after(case)).await,
        When::Update => resource.change(name, &case.change).await,
        When::Status => resource.change_status(name, &case.change).await,
    };
    match answer {
        Err(kube::Error::Api(status)) => blames(&status, case),
        Err(error) => Err(error.into()),
        Ok(_) => bail!("accepted"),
    }
}

fn blames(status: &Status, case: &Refused) -> Result<()> {
    let says = case.says.as_deref().unwrap_or_default();
    let blamed = match status.code {
        422 => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            causes.into_iter().any(|cause| cause.field == case.field && cause.message.contains(says))
        }
        // A field that is not in the schema.
        400 => status.message.contains(&format!("unknown field {:?}", case.field)),
        _ => false,
    };
    ensure!(blamed, "{} {says:?} expected, but the answer is {} {}", case.field, status.code, status.message);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_are_filled_in_and_kubectl_knows_the_kinds() {
    let plane = plane_with_crds().await;
    let served = served(&plane).await;
    let of = |kind: &str| served.iter().find(|(_, fixture)| fixture.kind() == kind).unwrap();
    for (kind, without, default) in DEFAULTS {
        defaults(of(kind), without, default).await;
    }
    for kind in ["CapstanControlPlane", "Host", "HostPool"] {
        let (resource, fixture) = of(kind);
        for object in &fixture.valid {
            put(resource, object).await.unwrap();
        }
    }
    // Discovery, too, comes a little later.
    let kinds = ["get", "capstancontrolplanes,hosts,hostpools", "--all-namespaces"];
    eventually(DEADLINE, "kubectl to know the kinds", async || plane.kubectl(&kinds).await?.success())
        .await
        .unwrap();
    explains(&plane).await;
    scales(&plane).await;
    prints(&plane).await;
}

/// A kind, a field of its first valid object that is left out, and what the server writes there.
const DEFAULTS: [(&str, &str, &str); 6] = [
    ("CapstanConfig", "/spec/distro", r#""k3s""#),
    ("CapstanControlPlane", "/spec/config", r#"{"distro":"k3s"}"#),
    ("ClusterResourceSet", "/spec/strategy", r#""ApplyOnce""#),
    ("Host", "/spec/ssh/port", "22"),
    ("Host", "/spec/ssh/user", r#""root""#),
    ("HostCluster", "/spec/controlPlaneEndpoint/port", "6443"),
];

async fn defaults((resource, fixture): &(Resource, Fixture), without: &str, default: &str) {
    let mut object = fixture.valid[0].clone();
    let (parent, field) = without.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field).unwrap();
    object["metadata"] = json!({"name": format!("without-{}", field.to_lowercase())});
    let stored = resource.create(&object).await.unwrap();
    let default: Value = serde_json::from_str(default).unwrap();
    assert_eq!(stored.pointer(without), Some(&default), "{} {without}", fixture.kind());
}

async fn explains(plane: &RealPlane) {
    // The server publishes schemas in its own time.
    let explained = eventually(DEADLINE, "kubectl to know the field", async || {
        plane.kubectl(&["explain", "hosts.spec.ssh.hostKeys"]).await?.success()
    });
    let explained = explained.await.unwrap();
    let hosts = crd::all().into_iter().find(|crd| crd.spec.names.kind == "Host").unwrap();
    let version = serde_json::to_value(&hosts.spec.versions[0]).unwrap();
    let ours = version
        .pointer("/schema/openAPIV3Schema/properties/spec/properties/ssh/properties/hostKeys/description")
        .and_then(Value::as_str)
        .unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&explained).contains(&words(ours)), "{explained}");
}

async fn scales(plane: &RealPlane) {
    let scale = async |namespace: &str, object: &str, replicas: &str| {
        plane.kubectl(&["scale", "--namespace", namespace, object, "--replicas", replicas]).await.unwrap()
    };
    for (namespace, object, replicas) in
        [("capstancontrolplane", "ccp/shop", "5"), ("hostpool", "hostpools/fleet", "7")]
    {
        scale(namespace, object, replicas).await.success().unwrap();
        let path = ["-o", "jsonpath={.spec.replicas}"];
        let get = [&["get", "--namespace", namespace, object], path.as_slice()].concat();
        assert_eq!(plane.kubectl(&get).await.unwrap().success().unwrap(), replicas);
    }
    let even = scale("capstancontrolplane", "ccp/shop", "4").await;
    assert!(!even.status.success() && even.stderr.contains("replicas must be odd"), "{even:?}");
}

async fn prints(plane: &RealPlane) {
    let printed = plane.kubectl(&["get", "hosts", "--namespace", "host"]).await.unwrap().success().unwrap();
    let hosts = crd::all().into_iter().find(|crd| crd.spec.names.kind == "Host").unwrap();
    let columns = hosts.spec.versions[0].additional_printer_columns.as_deref().unwrap_or_default();
    let shown = columns.iter().filter(|column| column.priority.unwrap_or_default() == 0);
    let titles: Vec<String> =
        std::iter::once("NAME".to_owned()).chain(shown.map(|column| column.name.to_uppercase())).collect();
    // A title may have a space in it, and three are between two columns.
    let cells = |line: &str| {
        line.split("   ").map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
    };
    let lines: Vec<Vec<String>> = printed.lines().map(cells).collect();
    assert_eq!(lines[0], titles);
    let host = lines.iter().find(|line| line[0] == "rack-1-host-3").unwrap();
    assert_eq!(host[1..3], ["Quarantined", "rack-1-host-3.dc.example.com"], "{printed}");
}

async fn plane_with_crds() -> RealPlane {
    let plane = RealPlane::start().await.unwrap();
    install_crds(&plane.client(), &crd::all()).await.unwrap();
    plane
}

/// Every kind with its fixture, each in a namespace of its own that is called like the kind.
async fn served(plane: &RealPlane) -> Vec<(Resource, Fixture)> {
    let crds: BTreeMap<String, CustomResourceDefinition> =
        crd::all().into_iter().map(|crd| (crd.spec.names.kind.clone(), crd)).collect();
    let namespaces: Api<Namespace> = Api::all(plane.client());
    let mut served = Vec::new();
    for fixture in fixtures::all() {
        let namespace = fixture.kind().to_lowercase();
        let metadata = ObjectMeta { name: Some(namespace.clone()), ..Default::default() };
        namespaces
            .create(&PostParams::default(), &Namespace { metadata, ..Default::default() })
            .await
            .unwrap();
        let resource = Resource::new(plane.client(), &crds[fixture.kind()], &namespace);
        eventually(DEADLINE, "the kind to be served", async || Ok(resource.ensure_served().await?))
            .await
            .unwrap();
        served.push((resource, fixture));
    }
    assert_eq!(served.len(), crds.len(), "a kind has no fixture");
    served
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// OpenAPI v2 and v3 of all custom kinds and of the built-in ones that both planes serve, without the texts about fields that
/// every resource has.
#[tokio::test(flavor = "multi_thread")]
async fn both_planes_publish_the_same_schemas() {
    let real = RealPlane::start().await.unwrap();
    let embedded = Embedded::start().await.unwrap();
    let clients = [real.client(), client_of(&embedded).await];
    for client in &clients {
        install_crds(client, &crd::all()).await.unwrap();
        install_crds(client, &[gadgets()]).await.unwrap();
    }
    for (path, schemas) in [
        ("/openapi/v2", "/definitions"),
        ("/openapi/v3/apis/example.com/v1", "/components/schemas"),
        ("/openapi/v3/apis/infrastructure.cluster.x-k8s.io/v1alpha1", "/components/schemas"),
        ("/openapi/v3/apis/apps/v1", "/components/schemas"),
    ] {
        // The server publishes schemas in its own time.
        eventually(DEADLINE, &format!("{path} to be the same"), async || {
            let [upstream, ours] =
                [schemas_at(&clients[0], path, schemas), schemas_at(&clients[1], path, schemas)];
            let (upstream, ours) = (upstream.await?, ours.await?);
            ensure!(ours.contains_key("com.example.v1.Gadget") || !path.contains("v2"), "no Gadget");
            let different = ours.iter().filter(|(name, schema)| upstream.get(*name) != Some(schema));
            let different: Vec<_> = different
                .map(|(name, schema)| {
                    format!("{name}\n{schema}\n{}", upstream.get(name).unwrap_or(&Value::Null))
                })
                .collect();
            ensure!(
                different.is_empty(),
                "{} of {} differ: {}",
                different.len(),
                ours.len(),
                different[..different.len().min(12)].join("\n")
            );
            Ok(())
        })
        .await
        .unwrap();
    }
}

async fn client_of(embedded: &Embedded) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(embedded.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_planes_say_the_same_about_fields_that_appear_twice() {
    let real = RealPlane::start().await.unwrap();
    let embedded = Embedded::start().await.unwrap();
    let clients = [real.client(), client_of(&embedded).await];
    for client in &clients {
        install_crds(client, &[gadgets()]).await.unwrap();
    }
    let gadget = |name: &str| {
        let head = format!("\napiVersion: example.com/v2\nkind: Gadget\nmetadata:\n  name: {name}\n");
        format!("{head}spec:\n  a: 1\n  b: {{c: 1, c: 2}}\n  a: 2\n")
    };
    let map = |name: &str| {
        let data = r#""data": {"a": "1", "a": "2"}"#;
        format!(r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}"}}, {data}}}"#)
    };
    let gadgets = "/apis/example.com/v2/namespaces/default/gadgets";
    let maps = "/api/v1/namespaces/default/configmaps";
    for validation in ["Strict", "Warn", "Ignore"] {
        let name = validation.to_lowercase();
        let applied = format!("fieldManager=test&fieldValidation={validation}");
        for (method, path, media_type, body) in [
            ("PATCH", format!("{gadgets}/{name}?{applied}"), "application/apply-patch+yaml", gadget(&name)),
            (
                "POST",
                format!("{gadgets}?fieldValidation={validation}"),
                "application/yaml",
                gadget(&format!("{name}-2")),
            ),
            ("PATCH", format!("{maps}/{name}?{applied}"), "application/apply-patch+yaml", map(&name)),
            (
                "POST",
                format!("{maps}?fieldValidation={validation}"),
                "application/yaml",
                map(&format!("{name}-2")),
            ),
            (
                "POST",
                format!("{maps}?fieldValidation={validation}"),
                "application/json",
                map(&format!("{name}-3")),
            ),
        ] {
            let mut said = Vec::new();
            for client in &clients {
                let request =
                    http::Request::builder().method(method).uri(&path).header("content-type", media_type);
                let request = request.body(body.clone().into_bytes()).unwrap();
                let response = client.send(request.map(kube::client::Body::from)).await.unwrap();
                let warnings = response.headers().get_all("warning").iter();
                let warnings: Vec<_> = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
                let code = response.status();
                let answer: Value =
                    serde_json::from_slice(&response.into_body().collect_bytes().await.unwrap()).unwrap();
                said.push((
                    code,
                    warnings,
                    answer["message"].clone(),
                    answer["spec"].clone(),
                    answer["data"].clone(),
                ));
            }
            assert_eq!(said[1], said[0], "{validation} {method} {path} {media_type}");
        }
    }
}

/// Schemas by name, without descriptions of what the server adds.
async fn schemas_at(client: &kube::Client, path: &str, schemas: &str) -> Result<BTreeMap<String, Value>> {
    let mut document: Value = client.request(http::Request::get(path).body(Vec::new())?).await?;
    let schemas = document.pointer_mut(schemas).map(Value::take).unwrap_or_default();
    let mut schemas: BTreeMap<String, Value> = serde_json::from_value(schemas)?;
    for (name, schema) in &mut schemas {
        let is_ours = name.starts_with("com.example.")
            || name.contains(".x-k8s.cluster.")
            || name.starts_with("dev.capstan.");
        without_descriptions(schema, !is_ours || name.ends_with("List"));
    }
    Ok(schemas)
}

fn without_descriptions(schema: &mut Value, all: bool) {
    if let Value::Object(fields) = schema {
        if all && fields.get("description").is_some_and(Value::is_string) {
            fields.remove("description");
        }
        if let Some(Value::Object(properties)) = fields.get_mut("properties") {
            for (name, property) in properties {
                without_descriptions(
                    property,
                    all || ["apiVersion", "kind", "metadata"].contains(&name.as_str()),
                );
            }
        }
        for keyword in ["items", "additionalProperties"] {
            if let Some(schema) = fields.get_mut(keyword) {
                without_descriptions(schema, all);
            }
        }
    }
}

/// A kind with all that OpenAPI v2 cannot say.
fn gadgets() -> Value {
    let string = json!({"type": "string"});
    let schema = json!({"type": "object", "description": "A gadget.", "properties": {
        "spec": {"type": "object", "required": ["nullable", "plain"], "properties": {
            "plain": {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a", "enum": ["a", "ab"], "default": "a"},
            "nullable": {"type": "string", "nullable": true},
            "list": {"type": "array", "nullable": true, "items": string},
            "set": {"type": "array", "items": string, "x-kubernetes-list-type": "set"},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": string}},
            "map": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
            "nullableMap": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
            "port": {"x-kubernetes-int-or-string": true},
            "either": {"type": "object", "properties": {"a": string, "b": string}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["c"]}},
            "number": {"type": "number", "minimum": 0.5, "maximum": 9, "exclusiveMaximum": true, "multipleOf": 0.5},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
            "openEmbedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        }, "x-kubernetes-validations": [{"rule": "self.plain == 'a'", "message": "no"}]},
        "status": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"ready": {"type": "boolean"}}},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}},
                {"name": "v2", "served": true, "storage": false,
                 "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            ],
        },
    })
}
