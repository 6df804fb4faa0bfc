//! Forms of requests, each with as many items as one asks for.

use serde_json::{Map, Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// One request.
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) media: &'static str,
    pub(crate) body: Value,
}

/// A form of request. The last one that it makes is counted, the others prepare it.
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// What the last one is answered with.
    pub(crate) code: u16,
    pub(crate) asks: fn(name: &str, items: usize) -> Vec<Ask>,
}

const fn form(name: &'static str, code: u16, asks: fn(&str, usize) -> Vec<Ask>) -> Form {
    Form { name, code, asks }
}

pub(crate) const FORMS: [Form; 21] = [
    form("create json, map", 201, |name, n| vec![post(MAPS, map(name, n, "v"))]),
    form("create json, list by key", 201, |name, n| vec![post(THINGS, thing(name, &parts(n, 1)))]),
    form("create yaml", 201, |name, n| {
        vec![Ask { media: "application/yaml", ..post(THINGS, thing(name, &parts(n, 1))) }]
    }),
    form("create json, set", 201, |name, n| {
        vec![post(THINGS, thing(name, &json!({"set": words(n), "plain": words(n)})))]
    }),
    form("create with wrong items", 422, |name, n| {
        let wrong: Vec<Value> = (0..n).map(|number| json!({"name": number})).collect();
        vec![post(THINGS, thing(name, &json!({"parts": wrong})))]
    }),
    form("create with unknown fields", 201, |name, n| {
        let unknown: Map<String, Value> = (0..n).map(|number| (format!("u{number}"), json!(1))).collect();
        vec![post(THINGS, thing(name, &Value::Object(unknown)))]
    }),
    form("create with labels", 201, |name, n| {
        let labels: Map<String, Value> = (0..n).map(|number| (format!("l{number}"), json!("x"))).collect();
        vec![post(MAPS, json!({"metadata": {"name": name, "labels": labels, "annotations": labels}}))]
    }),
    form("create with finalizers", 201, |name, n| {
        let finalizers: Vec<Value> = (0..n).map(|number| json!(format!("example.com/f{number}"))).collect();
        vec![post(MAPS, json!({"metadata": {"name": name, "finalizers": finalizers}}))]
    }),
    form("update of all items", 200, |name, n| {
        let path = format!("{MAPS}/{name}");
        vec![post(MAPS, map(name, n, "v")), Ask { method: "PUT", path, ..post("", map(name, n, "w")) }]
    }),
    form("merge patch, map", 200, |name, n| {
        vec![post(MAPS, map(name, n, "v")), patch(MAPS, name, MERGE, map(name, n, "w"))]
    }),
    form("merge patch, all keys removed", 200, |name, n| {
        let nulls: Map<String, Value> = (0..n).map(|number| (format!("k{number}"), Value::Null)).collect();
        vec![post(MAPS, map(name, n, "v")), patch(MAPS, name, MERGE, json!({"data": nulls}))]
    }),
    form("merge patch, list by key", 200, |name, n| {
        let changed = json!({"spec": parts(n, 2)});
        vec![post(THINGS, thing(name, &parts(n, 1))), patch(THINGS, name, MERGE, changed)]
    }),
    form("strategic patch, list by key", 200, |name, n| {
        let change = json!({"imagePullSecrets": secrets(n)});
        vec![
            post(ACCOUNTS, json!({"metadata": {"name": name}})),
            patch(ACCOUNTS, name, STRATEGIC, change.clone()),
            patch(ACCOUNTS, name, STRATEGIC, change),
        ]
    }),
    form("strategic patch, items deleted", 200, |name, n| {
        let delete = |mut item: Value| {
            item["$patch"] = json!("delete");
            item
        };
        let gone: Vec<Value> = secrets(n).into_iter().map(delete).collect();
        vec![
            post(ACCOUNTS, json!({"metadata": {"name": name}, "imagePullSecrets": secrets(n)})),
            patch(ACCOUNTS, name, STRATEGIC, json!({"imagePullSecrets": gone})),
        ]
    }),
    form("strategic patch, all keys removed", 200, |name, n| {
        let nulls: Map<String, Value> = (0..n).map(|number| (format!("k{number}"), Value::Null)).collect();
        vec![post(MAPS, map(name, n, "v")), patch(MAPS, name, STRATEGIC, json!({"data": nulls}))]
    }),
    form("json patch, items added", 200, |name, n| {
        let operations: Vec<Value> = (0..n)
            .map(|number| json!({"op": "add", "path": format!("/data/x{number}"), "value": "v"}))
            .collect();
        vec![post(MAPS, map(name, 1, "v")), patch(MAPS, name, JSON_PATCH, json!(operations))]
    }),
    form("json patch, keys removed", 200, |name, n| {
        let operations: Vec<Value> =
            (0..n).map(|number| json!({"op": "remove", "path": format!("/data/k{number}")})).collect();
        vec![post(MAPS, map(name, n, "v")), patch(MAPS, name, JSON_PATCH, json!(operations))]
    }),
    form("apply, map", 201, |name, n| {
        vec![apply(MAPS, name, "one", typed(map(name, n, "v"), "v1", "ConfigMap"))]
    }),
    form("apply, list by key", 201, |name, n| vec![apply(THINGS, name, "one", thing(name, &parts(n, 1)))]),
    form("apply over the items of another manager", 200, |name, n| {
        vec![
            apply(THINGS, name, "one", thing(name, &parts(n, 1))),
            apply(THINGS, name, "two", thing(name, &parts(n, 1))),
        ]
    }),
    form("apply with all items removed", 200, |name, n| {
        vec![
            apply(THINGS, name, "one", thing(name, &parts(n, 1))),
            apply(THINGS, name, "one", thing(name, &json!({}))),
        ]
    }),
];

fn post(path: &str, body: Value) -> Ask {
    Ask { method: "POST", path: path.to_owned(), media: JSON, body }
}

fn patch(path: &str, name: &str, media: &'static str, body: Value) -> Ask {
    Ask { method: "PATCH", path: format!("{path}/{name}"), media, body }
}

fn apply(path: &str, name: &str, manager: &str, body: Value) -> Ask {
    Ask { path: format!("{path}/{name}?fieldManager={manager}&force=true"), ..patch("", "", APPLY, body) }
}

fn typed(mut object: Value, version: &str, kind: &str) -> Value {
    object["apiVersion"] = json!(version);
    object["kind"] = json!(kind);
    object
}

fn map(name: &str, items: usize, value: &str) -> Value {
    let data: Map<String, Value> = (0..items).map(|number| (format!("k{number}"), json!(value))).collect();
    json!({"metadata": {"name": name}, "data": data})
}

fn thing(name: &str, spec: &Value) -> Value {
    typed(json!({"metadata": {"name": name}, "spec": spec}), "example.com/v1", "Thing")
}

fn parts(items: usize, n: u32) -> Value {
    let part = |number: usize| json!({"name": format!("p{number}"), "n": n});
    json!({"parts": (0..items).map(part).collect::<Vec<_>>()})
}

fn words(items: usize) -> Vec<Value> {
    (0..items).map(|number| json!(format!("w{number}"))).collect()
}

fn secrets(items: usize) -> Vec<Value> {
    (0..items).map(|number| json!({"name": format!("s{number}")})).collect()
}

/// A kind with each sort of list, and with rules on them.
pub(crate) fn crd() -> Value {
    let words =
        |list: &str| json!({"type": "array", "x-kubernetes-list-type": list, "items": {"type": "string"}});
    let parts = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "maxItems": 100_000,
        "items": {"type": "object", "required": ["name"],
            "x-kubernetes-validations": [{"rule": "self.name.size() > 0", "message": "a part has a name"}],
            "properties": {"name": {"type": "string", "maxLength": 20}, "n": {"type": "integer", "default": 1}}},
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "parts": parts, "set": words("set"), "plain": words("atomic"),
                }}},
            }}}],
        },
    })
}
