//! MutatingAdmissionPolicies, generated: what kube-apiserver makes of objects by them is what the embedded plane must make of
//! them. Each policy is about the objects that carry its label.

use std::time::Duration;

use anyhow::ensure;
use capstan_testkit::eventually;
use capstan_tests::Answer;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::kinds::WIDGETS;
use crate::play::{Planes, Request};
use crate::same;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const MAPS: &str = "/api/v1/namespaces/tried/configmaps";
/// Policies of one round.
const MOST: usize = 40;
/// Objects that each policy is tried on.
const OBJECTS: usize = 4;
/// The kinds that policies are about.
const KINDS: [MutatedKind; 2] = [
    MutatedKind { group: "trial.capstan.dev", resource: "widgets", path: WIDGETS, is_custom: true },
    MutatedKind { group: "", resource: "configmaps", path: MAPS, is_custom: false },
];
/// A real plane learns of policies and of schemas by polling.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
struct MutatedKind {
    group: &'static str,
    resource: &'static str,
    path: &'static str,
    is_custom: bool,
}

impl MutatedKind {
    fn object(self, name: &str, label: &str, fields: &Value) -> Value {
        let mut object = match self.is_custom {
            true => json!({"apiVersion": "trial.capstan.dev/v1", "kind": "Widget", "spec": fields["spec"]}),
            false => json!({"apiVersion": "v1", "kind": "ConfigMap", "data": fields["data"]}),
        };
        object["metadata"] = json!({"name": name, "labels": {"tried": label}});
        object
    }
}

/// Makes policies on both planes, and tries objects on them. Gives what the planes answer differently.
pub(crate) async fn differences(planes: &Planes, runner: &mut TestRunner) -> Vec<String> {
    let mut found = wrong_policies(planes).await;
    for kind in KINDS {
        let old = kind.object("mutated", "none", &drawn(&fields(), runner));
        let made = planes.both(&Request::new("POST", kind.path.to_owned(), JSON, old)).await;
        assert_eq!(made.clone().map(|made| made.code), [201, 201], "{made:?}");
    }
    let mut tried = Vec::new();
    for number in 0..MOST {
        let (kind, name) = (KINDS[number % KINDS.len()], format!("p{number}"));
        let policy = policy(&name, kind, &drawn(&spec(kind), runner));
        let request = Request::new("POST", POLICIES.to_owned(), JSON, policy.clone());
        let [real, embedded] = planes.both(&request).await;
        match [real.code, embedded.code] {
            [201, 201] => {
                found.extend(unexpected_difference(&request, &real, &embedded));
                bind(planes, &name).await;
                tried.push((kind, name, policy));
            }
            // It knows the types of more expressions.
            [422, _] => clean(planes, &name).await,
            _ => found.push(format!("  {request}\n    real {real:?}\n    embedded {embedded:?}\n")),
        }
    }
    assert!(tried.len() > MOST / 2, "only {} policies are left", tried.len());
    for kind in KINDS {
        wait(planes, kind).await;
    }
    for (kind, name, policy) in &tried {
        let mut differs = None;
        for number in 0..OBJECTS {
            let fields = drawn(&fields(), runner);
            let body = kind.object(&format!("{name}-{number}"), name, &fields);
            let made = Request::new("POST", format!("{}?dryRun=All", kind.path), JSON, body);
            let mut body = kind.object("mutated", name, &fields);
            body["metadata"].as_object_mut().unwrap().remove("name");
            let changed = Request::new("PATCH", format!("{}/mutated?dryRun=All", kind.path), MERGE, body);
            for request in [made, changed] {
                let [real, embedded] = planes.both(&request).await;
                if !(kind.is_custom && is_unreadable_metadata(&embedded)) {
                    differs = differs.or_else(|| unexpected_difference(&request, &real, &embedded));
                }
            }
        }
        found.extend(differs.map(|differs| format!("  {}\n{differs}", policy["spec"])));
    }
    found
}

fn drawn<S: Strategy>(strategy: &S, runner: &mut TestRunner) -> S::Value {
    strategy.new_tree(runner).unwrap().current()
}

fn policy(name: &str, kind: MutatedKind, spec: &Value) -> Value {
    let mut policy = json!({"metadata": {"name": name}, "spec": spec});
    policy["spec"]["matchConstraints"] = json!({
        "objectSelector": {"matchLabels": {"tried": name}},
        "resourceRules": [{
            "apiGroups": [kind.group], "apiVersions": ["v1"], "operations": ["*"], "resources": [kind.resource],
        }],
    });
    policy
}

async fn bind(planes: &Planes, name: &str) {
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    let made = planes.both(&Request::new("POST", BINDINGS.to_owned(), JSON, binding)).await;
    assert_eq!(made.clone().map(|made| made.code), [201, 201], "{made:?}");
}

async fn clean(planes: &Planes, name: &str) {
    planes.both(&Request::new("DELETE", format!("{POLICIES}/{name}"), JSON, Value::Null)).await;
}

/// Waits until both planes have seen the last policy, and know the schema of a kind.
async fn wait(planes: &Planes, kind: MutatedKind) {
    let name = format!("last-{}", kind.resource);
    let expression = "Object{metadata: Object.metadata{annotations: {'last': 'seen'}}}";
    let spec = json!({
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    });
    let made = Request::new("POST", POLICIES.to_owned(), JSON, policy(&name, kind, &spec));
    assert_eq!(planes.both(&made).await.map(|made| made.code), [201, 201]);
    bind(planes, &name).await;
    let object = kind.object("last", &name, &json!({"spec": {}, "data": {}}));
    for plane in planes.each() {
        eventually(DEADLINE, "policies to be heeded", async || {
            let made = plane.ask("POST", &format!("{}?dryRun=All", kind.path), &object).await?;
            ensure!(made.body["metadata"]["annotations"]["last"] == "seen", "{made:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

/// Whether metadata of a custom resource has become unreadable. A real plane drops it.
fn is_unreadable_metadata(embedded: &Answer) -> bool {
    let message = embedded.body["message"].as_str().unwrap_or_default();
    embedded.code == 500 && message.contains("Go struct field ObjectMeta.metadata.")
}

/// Whether a list is too long. Only a real plane says what is wrong with its items then.
fn is_too_long(answer: &Answer) -> bool {
    let causes = answer.body["details"]["causes"].as_array();
    causes.is_some_and(|causes| causes.iter().any(|cause| cause["reason"] == "FieldValueTooMany"))
}

/// What two answers say differently, if it is not only the order of chance.
fn unexpected_difference(request: &Request, real: &Answer, embedded: &Answer) -> Option<String> {
    if is_too_long(real) && is_too_long(embedded) {
        return None;
    }
    let [real, embedded] = [real, embedded].map(|answer| {
        let mut answer = answer.clone();
        reword(&mut answer.body["message"]);
        if let Some(causes) = answer.body["details"]["causes"].as_array_mut() {
            causes.iter_mut().for_each(|cause| reword(&mut cause["message"]));
        }
        answer
    });
    same::difference(&real, &embedded, &[]).map(|what| format!("  at {request}\n{what}"))
}

/// Puts what a real plane tells in the order of chance in one order, and leaves out the words of evaluators.
fn reword(message: &mut Value) {
    let Some(text) = message.as_str() else { return };
    let sorted = |text: &str, separator: &str| {
        let mut parts: Vec<&str> = text.split(separator).map(str::trim).collect();
        parts.sort_unstable();
        parts.join(separator)
    };
    let unknown = ": field not declared in schema";
    let worded = if let Some((before, paths)) = text.split_once("maps or structs: ") {
        format!("{before}maps or structs: {}", sorted(paths, ", "))
    } else if let Some((before, wrong)) = text.split_once(" object to typed object: ") {
        // A field that is not known ends the search at once, wherever it is.
        let got = |line: &str| line.split_once(", got ").map_or(line, |(before, _)| before).to_owned();
        let lines = sorted(wrong, "\n").lines().map(got).collect::<Vec<_>>().join("\n");
        let wrong = if wrong.contains(unknown) { unknown.to_owned() } else { lines };
        format!("{before} object to typed object: {wrong}")
    } else if let Some((before, mismatches)) = text.split_once("type mismatch: ") {
        format!("{before}type mismatch: {}", sorted(mismatches, "\n"))
    } else if let Some((before, _)) = text.split_once("resulted in error: ") {
        // Each evaluator has its own words.
        format!("{before}resulted in error")
    } else if text.starts_with("json: cannot unmarshal ") {
        "json: cannot unmarshal".to_owned()
    } else {
        text.to_owned()
    };
    *message = worded.into();
}

/// Policies and bindings that are wrong in one way or another: both planes reject them, for the same fields.
async fn wrong_policies(planes: &Planes) -> Vec<String> {
    let apply = |expression: &str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let patch = |expression: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    let good = json!({"reinvocationPolicy": "Never", "mutations": [apply("Object{}")]});
    let rules = |operation: &str| {
        let rule =
            json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["x"]});
        json!({"matchConstraints": {"resourceRules": [rule]}})
    };
    let mutations = |mutation: Value| json!({"mutations": [mutation]});
    let wrong = [
        json!({}),
        json!({"mutations": []}),
        json!({"reinvocationPolicy": null}),
        json!({"reinvocationPolicy": "Often"}),
        json!({"failurePolicy": "Perhaps"}),
        rules("DELETE"),
        rules("CONNECT"),
        json!({"matchConstraints": {"resourceRules": []}}),
        json!({"paramKind": {"kind": "x"}}),
        json!({"variables": [{"name": "a b", "expression": "1"}]}),
        json!({"variables": [{"name": "a", "expression": "Object{}"}]}),
        json!({"variables": [{"name": "a", "expression": "jsonpatch.escapeKey('a')"}]}),
        json!({"matchConditions": [{"name": "a", "expression": "Object{} == object"}]}),
        json!({"matchConditions": [{"name": "a", "expression": "'x'"}]}),
        mutations(json!({})),
        mutations(json!({"patchType": "Other"})),
        mutations(json!({"patchType": "JSONPatch"})),
        mutations(json!({"patchType": "ApplyConfiguration"})),
        mutations(
            json!({"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{}]"}, "applyConfiguration": {}}),
        ),
        mutations(
            json!({"patchType": "ApplyConfiguration", "jsonPatch": {}, "applyConfiguration": {"expression": "Object{}"}}),
        ),
        mutations(apply("")),
        mutations(apply(" ")),
        mutations(apply("object")),
        mutations(apply("'a'")),
        mutations(apply("Object.spec{}")),
        mutations(apply("[Object{}]")),
        mutations(apply("true ? Object{} : Object.a{}")),
        mutations(apply("Other{}")),
        mutations(apply("Object{a: nope}")),
        mutations(apply("Object{a: JSONPatch{op: 1}}")),
        mutations(apply("Object{a: JSONPatch{nope: 'x'}}")),
        mutations(apply("Object{a: variables.nope}")),
        mutations(apply("Object{a: params.x}")),
        mutations(apply("Object{a: Object{}.b, c: has(Object{}.d), e: Object.x{} == Object.x{}}")),
        mutations(patch("[]")),
        mutations(patch("Object{}")),
        mutations(patch("JSONPatch{op: 'add'}")),
        mutations(patch("[1]")),
        mutations(patch("[JSONPatch{}] + []")),
        mutations(patch("true ? [JSONPatch{}] : []")),
        mutations(patch(
            "[1].map(x, JSONPatch{op: 'add', path: '/' + jsonpatch.escapeKey('a/b'), value: x})",
        )),
        mutations(patch("[1].map(x, Object{})")),
        mutations(patch("[JSONPatch{op: 'add', path: 'a', value: Object.x{y: [1, 2]}}]")),
    ];
    let kind = KINDS[1];
    let policies = wrong.iter().map(|over| {
        let mut spec = good.clone();
        json_patch::merge(&mut spec, over);
        let mut policy = policy("wrong", kind, &spec);
        json_patch::merge(&mut policy["spec"], over);
        (POLICIES, policy)
    });
    let bindings = [
        json!({"policyName": ""}),
        json!({"policyName": "No_Name"}),
        json!({"policyName": "a", "paramRef": {"name": "x"}}),
        json!({"policyName": "a", "paramRef": {"parameterNotFoundAction": "Deny"}}),
        json!({"policyName": "a", "paramRef": {"name": "x", "selector": {}, "parameterNotFoundAction": "Allow"}}),
        json!({"policyName": "a", "matchResources": rules("DELETE")["matchConstraints"]}),
        json!({"policyName": "a", "validationActions": ["Deny"]}),
        json!({"policyName": "a"}),
    ];
    let bindings = bindings.map(|spec| (BINDINGS, json!({"metadata": {"name": "wrong"}, "spec": spec})));
    let mut found = Vec::new();
    for (path, body) in policies.chain(bindings) {
        let request = Request::new("POST", format!("{path}?dryRun=All"), JSON, body);
        let [real, embedded] = planes.both(&request).await.map(|mut answer| {
            if let Some(causes) = answer.body["details"]["causes"].as_array_mut() {
                causes.iter_mut().for_each(|cause| without_place(&mut cause["message"]));
            }
            answer
        });
        if let Some(difference) = same::difference(&real, &embedded, &[]) {
            found.push(format!("  {request}\n{difference}"));
        }
    }
    found
}

/// What does not compile is told with the place in the expression by the real plane only, and in the words of its checker.
fn without_place(message: &mut Value) {
    if let Some((before, _)) = message.as_str().and_then(|text| text.split_once("compilation failed: ")) {
        *message = format!("{before}compilation failed").into();
    }
}

/// Fields of objects.
fn fields() -> impl Strategy<Value = Value> {
    let field = |name: &'static str, values: Vec<Value>| {
        prop::option::weighted(0.6, prop::sample::select(values)).prop_map(move |value| (name, value))
    };
    let spec = vec![
        field("size", vec![json!(0), json!(2), json!(4)]),
        field("title", vec![json!("a"), json!("harbour"), json!("")]),
        field("ratio", vec![json!(0.5), json!(2)]),
        field("tags", vec![json!([]), json!(["a"]), json!(["b", "c"])]),
        field(
            "parts",
            vec![
                json!([{"name": "one"}]),
                json!([{"name": "one", "count": 2}, {"name": "two", "protocol": "UDP"}]),
            ],
        ),
        field("steps", vec![json!(["x", "y"])]),
        field("limits", vec![json!({"cpu": 1}), json!({"cpu": "2", "memory": "1Gi"})]),
        field("nested", vec![json!({"a": "x"}), json!({"b": {"c": 1}}), json!({})]),
        field("whole", vec![json!({"a": "x"})]),
    ];
    let data = vec![
        field("title", vec![json!("a"), json!("harbour"), json!("")]),
        field("size", vec![json!("1"), json!("10")]),
    ];
    let set = |fields: Vec<(&'static str, Option<Value>)>| {
        let set = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(set.collect())
    };
    (spec, data).prop_map(move |(spec, data)| json!({"spec": set(spec), "data": set(data)}))
}

/// The spec of a policy for a kind, without its constraints.
fn spec(kind: MutatedKind) -> BoxedStrategy<Value> {
    let mutations = prop::collection::vec(prop_oneof![3 => apply(kind), 2 => patch(kind)], 1..3);
    let conditions = prop::option::weighted(
        0.2,
        one_of(&[
            "request.operation == 'CREATE'",
            "object.metadata.name.endsWith('1')",
            "!has(oldObject.metadata)",
            "oldObject == null || object.spec.size > 1",
        ]),
    );
    let policies = one_of(&["Never", "Never", "IfNeeded"]);
    let failures = one_of(&["Fail", "Fail", "Fail", "Ignore"]);
    let variables = prop::option::weighted(0.5, (integer(kind), text(kind)));
    (mutations, conditions, policies, failures, variables)
        .prop_map(|(mutations, condition, reinvocation, failure, variables)| {
            let mut spec =
                json!({"mutations": mutations, "reinvocationPolicy": reinvocation, "failurePolicy": failure});
            if let Some(condition) = condition {
                spec["matchConditions"] = json!([{"name": "c", "expression": condition}]);
            }
            // They are always there: expressions may refer to them.
            let (number, text) = variables.unwrap_or(("7".to_owned(), "'seven'".to_owned()));
            spec["variables"] =
                json!([{"name": "number", "expression": number}, {"name": "text", "expression": text}]);
            spec
        })
        .boxed()
}

fn one_of(words: &'static [&'static str]) -> BoxedStrategy<String> {
    prop::sample::select(words).prop_map(str::to_owned).boxed()
}

/// Puts generated parts in place of `<>`, one after the other.
fn form(form: &'static str, parts: Vec<BoxedStrategy<String>>) -> BoxedStrategy<String> {
    parts
        .prop_map(move |parts| {
            let mut pieces = form.split("<>");
            let mut text = pieces.next().unwrap_or_default().to_owned();
            for (part, piece) in parts.iter().zip(pieces) {
                text.push_str(part);
                text.push_str(piece);
            }
            text
        })
        .boxed()
}

fn either(strategies: Vec<BoxedStrategy<String>>) -> BoxedStrategy<String> {
    prop::strategy::Union::new(strategies).boxed()
}

fn integer(kind: MutatedKind) -> BoxedStrategy<String> {
    let leaves: &[&str] = match kind.is_custom {
        true => &["0", "3", "-1", "object.spec.size", "size(object.spec.tags)", "oldObject.spec.size"],
        false => &["0", "3", "int(object.data.size)", "size(object.data)", "size(object.data.title)"],
    };
    let leaf = one_of(leaves);
    either(vec![leaf.clone(), leaf.clone(), form("(<> + <>)", vec![leaf.clone(), leaf])])
}

fn text(kind: MutatedKind) -> BoxedStrategy<String> {
    let leaves: &[&str] = match kind.is_custom {
        true => &[
            "'a'",
            "'Ä'",
            "object.spec.title",
            "object.metadata.name",
            "object.spec.tags[0]",
            "string(object.spec.size)",
        ],
        false => {
            &["'a'", "object.data.title", "object.metadata.name", "object.data.size", "request.operation"]
        }
    };
    let leaf = one_of(leaves);
    either(vec![
        leaf.clone(),
        leaf.clone(),
        form("(<> + '-' + <>)", vec![leaf.clone(), leaf.clone()]),
        form("<>.lowerAscii()", vec![leaf]),
    ])
}

fn either_integer(kind: MutatedKind) -> BoxedStrategy<String> {
    either(vec![integer(kind), one_of(&["variables.number"])])
}

fn either_text(kind: MutatedKind) -> BoxedStrategy<String> {
    either(vec![text(kind), one_of(&["variables.text"])])
}

/// A mutation that merges.
fn apply(kind: MutatedKind) -> BoxedStrategy<Value> {
    let (number, word) = (|| either_integer(kind), || either_text(kind));
    let metadata = either(vec![
        form("metadata: Object.metadata{labels: {'x': <>}}", vec![word()]),
        form("metadata: Object.metadata{annotations: {'x': <>, 'y': 'z'}}", vec![word()]),
        one_of(&[
            "metadata: Object.metadata{?generateName: object.?nope}",
            "metadata: Object.meta{labels: {'x': 'y'}}",
            "metadata: Object.metadata{nope: 1}",
            "metadata: Object.metadata{finalizers: ['trial.capstan.dev/wait']}",
            "metadata: Object.metadata{labels: object.metadata.labels}",
        ]),
    ]);
    let part = if kind.is_custom {
        let spec = either(vec![
            form("size: <>", vec![number()]),
            form("title: <>", vec![word()]),
            form("size: <>, title: <>", vec![number(), word()]),
            form("tags: [<>, 'b']", vec![word()]),
            form("tags: (object.spec.tags + ['z']).map(t, t + <>)", vec![word()]),
            form("parts: [Object.spec.parts{name: <>, count: <>}]", vec![word(), number()]),
            form(
                "parts: [Object.spec.parts{name: 'two', protocol: 'UDP', count: <>}, Object.spec.parts{name: 'three'}]",
                vec![number()],
            ),
            form(
                "parts: object.spec.parts.map(p, Object.spec.parts{name: p.name, protocol: p.protocol, count: <>})",
                vec![number()],
            ),
            form("limits: {'cpu': <>}", vec![number()]),
            form("nested: Object.spec.nested{a: <>, b: Object.spec.nested.b{c: <>}}", vec![word(), number()]),
            form(
                "nested: Object.spec.nested{?a: object.spec.?title, b: Object.spec.nested.b{?c: object.spec.?size}}",
                vec![],
            ),
            form("free: Object.spec.free{any: <>}", vec![word()]),
            form("port: <>", vec![number()]),
            one_of(&[
                "ratio: 1.5",
                "ratio: object.spec.ratio * 2.0",
                "steps: ['x']",
                "whole: Object.spec.whole{a: 'y'}",
                "whole: Object.spec.whole{a: 'y'}, steps: ['z']",
                "unknown: 1",
                "size: 'x'",
                "title: 1",
                "tags: ['a', 'a']",
                "nested: Object.spec.nest{a: 'x'}",
                "nested: {'a': 'x'}",
                "maybe: 'm'",
                "mode: 'Fast'",
                "mode: object.spec.mode",
                "parts: [Object.spec.parts{count: 1}]",
            ]),
        ]);
        form("spec: Object.spec{<>}", vec![spec])
    } else {
        either(vec![
            form("data: {'title': <>}", vec![word()]),
            form("data: {'new': <>, 'size': string(<>)}", vec![word(), number()]),
            one_of(&[
                "immutable: true",
                "immutable: 'x'",
                "data: {'title': 1}",
                "data: Object.data{title: 'x'}",
                "data: {'not ok': 'x'}",
                "unknown: 1",
                "binaryData: {'b': 'AAEC'}",
                "binaryData: {'b': '?'}",
                "data: object.data",
            ]),
        ])
    };
    let object = either(vec![
        form("Object{<>}", vec![part.clone()]),
        form("Object{<>}", vec![metadata.clone()]),
        form("Object{<>, <>}", vec![part.clone(), metadata]),
        form("(<>) > 1 ? Object{<>} : Object{}", vec![number(), part]),
    ]);
    object
        .prop_map(|expression| {
            json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
        })
        .boxed()
}

/// A mutation that patches.
fn patch(kind: MutatedKind) -> BoxedStrategy<Value> {
    let (number, word) = (|| either_integer(kind), || either_text(kind));
    let paths: &[&str] = match kind.is_custom {
        true => &[
            "'/spec/size'",
            "'/spec/title'",
            "'/spec/tags'",
            "'/spec/tags/0'",
            "'/spec/tags/-'",
            "'/spec/parts/0/count'",
            "'/spec/nested/a'",
            "'/spec/nested'",
            "'/spec/unknown'",
            "'/metadata/labels/x'",
            "'/metadata/labels/' + jsonpatch.escapeKey('a.b/c')",
            "'/metadata/annotations/x'",
            "'/unknown'",
        ],
        false => &[
            "'/data/title'",
            "'/data/size'",
            "'/data/' + jsonpatch.escapeKey(object.metadata.name)",
            "'/data'",
            "'/immutable'",
            "'/metadata/labels/x'",
            "'/metadata/annotations'",
            "'/unknown'",
        ],
    };
    let path = || one_of(paths);
    let value = || {
        let values: &[&str] = match kind.is_custom {
            true => &[
                "true",
                "['a', 'b']",
                "{'a': 'x'}",
                "Object.spec.nested{a: 'x'}",
                "1.0",
                "object.spec.nested",
                "Object.x{y: Object.z{}}",
            ],
            false => &["true", "{'a': 'x'}", "object.data", "Object{title: 'x'}", "1.0"],
        };
        either(vec![number(), word(), word(), one_of(values)])
    };
    let step = || {
        either(vec![
            form("JSONPatch{op: 'add', path: <>, value: <>}", vec![path(), value()]),
            form("JSONPatch{op: 'replace', path: <>, value: <>}", vec![path(), value()]),
            form("JSONPatch{op: 'test', path: <>, value: <>}", vec![path(), value()]),
            form("JSONPatch{op: 'remove', path: <>}", vec![path()]),
            form("JSONPatch{op: 'copy', from: <>, path: <>}", vec![path(), path()]),
            form("JSONPatch{op: 'move', from: <>, path: <>}", vec![path(), path()]),
            form("JSONPatch{op: 'dance', path: <>}", vec![path()]),
        ])
    };
    let steps = either(vec![
        form("[<>]", vec![step()]),
        form("[<>, <>]", vec![step(), step()]),
        form("(<>) > 1 ? [<>] : []", vec![number(), step()]),
        form(
            "[1, 2].map(n, JSONPatch{op: 'add', path: '/metadata/labels/l' + string(n), value: <>})",
            vec![word()],
        ),
    ]);
    steps
        .prop_map(|expression| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}))
        .boxed()
}
