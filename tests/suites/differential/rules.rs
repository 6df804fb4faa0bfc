//! Rules in CEL, generated: what kube-apiserver makes of them and of the objects they are for is what the embedded plane must
//! make of them, word by word.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::kinds::NAMESPACE;
use crate::play::{DEFINITIONS, Planes, Request};

const JSON: &str = "application/json";
/// Rules of one definition, all of which are tried on each object.
const RULES: usize = 40;
/// Objects that are there before the rules, and are changed under them.
const OBJECTS: usize = 12;
const DEPTH: u32 = 3;
/// A text that a rule refuses, by which one knows that the rules are heeded.
const REFUSED: &str = "refused";

/// Makes a kind on both planes, objects of it, and then generated rules; and tries other objects on them, in the places of those
/// and in new ones. Gives what the planes judge differently.
pub(crate) async fn differences(planes: &Planes, runner: &mut TestRunner, number: usize) -> Vec<String> {
    let mut rules = drawn(&prop::collection::vec(boolean(DEPTH), RULES), runner);
    rules.sort();
    rules.dedup();
    let kind = format!("Ruled{number}");
    let plural = kind.to_lowercase() + "s";
    let path = format!("/apis/rules.capstan.dev/v1/namespaces/{NAMESPACE}/{plural}");
    planes.define(&definition(&kind, &plural, &[]), &path).await;
    let (spec, object) = (
        spec(),
        |name: String, spec: &Value| json!({"apiVersion": "rules.capstan.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}),
    );
    for place in 0..OBJECTS {
        let body = object(format!("x{place}"), &drawn(&spec, runner));
        let made = planes.both(&Request::new("POST", path.clone(), JSON, body)).await;
        assert_eq!(made.clone().map(|made| made.code), [201, 201], "{made:?}");
    }
    let ruled = |rules: &[String]| {
        let body = json!({"spec": {"versions": definition(&kind, &plural, rules)["spec"]["versions"]}});
        let path = format!("{DEFINITIONS}/{plural}.rules.capstan.dev");
        Request::new("PATCH", path, "application/merge-patch+json", body)
    };
    let [mut real, mut embedded] = planes.both(&ruled(&rules)).await;
    while real.code == 422 && !rules.is_empty() {
        // It judges types and costs beforehand, which the embedded plane does when a rule runs.
        let refused = refused(&real.body);
        let mut index = 0;
        rules.retain(|_| (!refused.contains(&index), index += 1).0);
        [real, embedded] = planes.both(&ruled(&rules)).await;
    }
    if [real.code, embedded.code] != [200, 200] {
        return one_sided("the definition", &real.body, &embedded.body);
    }
    assert!(rules.len() > RULES / 4, "only {} rules are left", rules.len());
    let refused = object("refused".to_owned(), &json!({"text": REFUSED}));
    planes.refuses(&format!("{path}?dryRun=All"), &refused).await;
    let mut found = Vec::new();
    for place in 0..OBJECTS {
        let spec = drawn(&spec, runner);
        let body = object(format!("x{place}"), &spec);
        let changed = Request::new("PUT", format!("{path}/x{place}?dryRun=All"), JSON, body);
        let body = object(format!("new{place}"), &spec);
        let made = Request::new("POST", format!("{path}?dryRun=All"), JSON, body);
        for request in [changed, made] {
            let mut differs = Vec::new();
            // Twice, if need be: a real plane may still answer by the definition that was there before.
            for _ in 0..2 {
                let [real, embedded] = planes.both(&request).await;
                differs = one_sided(&request.to_string(), &real.body, &embedded.body);
                if differs.is_empty() {
                    break;
                }
            }
            found.extend(differs);
        }
    }
    found
}

fn drawn<S: Strategy>(strategy: &S, runner: &mut TestRunner) -> S::Value {
    strategy.new_tree(runner).unwrap().current()
}

/// Which rules a definition was refused for.
fn refused(body: &Value) -> BTreeSet<usize> {
    let causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
    let index = |cause: &Value| {
        let (_, rest) = cause["field"].as_str()?.split_once("x-kubernetes-validations[")?;
        rest.split_once(']')?.0.parse().ok()
    };
    causes.iter().filter_map(index).collect()
}

/// What only one of the planes complains about.
fn one_sided(about: &str, real: &Value, embedded: &Value) -> Vec<String> {
    let [real, embedded] = [real, embedded].map(|body| {
        let causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
        let mut causes: BTreeSet<String> =
            causes.iter().map(|cause| same_stumble(&cause.to_string())).collect();
        if causes.is_empty() && body["kind"] == "Status" {
            causes.insert(body["message"].to_string());
        }
        causes
    });
    let side = |name: &str, only: Vec<&String>| match only.as_slice() {
        [] => None,
        only => Some(format!(
            "  {about}\n    only {name}:\n{}",
            only.iter().map(|cause| format!("      {cause}\n")).collect::<String>()
        )),
    };
    [
        side("the real one", real.difference(&embedded).collect()),
        side("the embedded one", embedded.difference(&real).collect()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A text without what a rule stumbles over: where there are two such things, either may be told, and each evaluator has its
/// own words. Numbers that have no order (`0.0 / 0.0 < 1.0`) are to ours an operation that does not exist.
fn same_stumble(cause: &str) -> String {
    let parts = [" evaluating rule: ", "macro signature for rule: "];
    match parts.into_iter().find_map(|part| cause.split_once(part)) {
        Some((_, rule)) => format!("stumbles: {rule}"),
        None => cause.to_owned(),
    }
}

fn definition(kind: &str, plural: &str, rules: &[String]) -> Value {
    let text = json!({"type": "string", "maxLength": 12});
    let list =
        |kind: &str| json!({"type": "array", "maxItems": 5, "x-kubernetes-list-type": kind, "items": text});
    let probe = json!({"rule": format!("!has(self.text) || self.text != '{REFUSED}'")});
    let rules = rules.iter().map(|rule| json!({"rule": rule}));
    let rules: Vec<Value> = rules.chain([probe]).collect();
    let spec = json!({
        "type": "object", "x-kubernetes-validations": rules,
        "properties": {
            "int": {"type": "integer"}, "other": {"type": "integer", "format": "int64"}, "number": {"type": "number"},
            "flag": {"type": "boolean"}, "text": text, "word": text, "nil": {"type": "string", "maxLength": 5, "nullable": true},
            "list": list("atomic"), "set": list("set"),
            "numbers": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
            "dict": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer"}},
            "parts": {
                "type": "array", "maxItems": 4, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object", "required": ["name"],
                    "properties": {"name": text, "count": {"type": "integer"}},
                },
            },
            "when": {"type": "string", "format": "date-time"}, "long": {"type": "string", "format": "duration"},
            "port": {"x-kubernetes-int-or-string": true},
        },
    });
    json!({
        "metadata": {"name": format!("{plural}.rules.capstan.dev")},
        "spec": {
            "group": "rules.capstan.dev", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

/// Values for some of the fields.
fn spec() -> impl Strategy<Value = Value> {
    let field = |name: &'static str, values: Vec<Value>| {
        prop::option::weighted(0.7, prop::sample::select(values)).prop_map(move |value| (name, value))
    };
    let lists = || {
        vec![json!([]), json!(["a"]), json!(["b", "a"]), json!(["harbour", "", "Ä"]), json!(["a", "b", "c"])]
    };
    let texts = || {
        vec![
            json!(""),
            json!("a"),
            json!("harbour"),
            json!("A-b_C"),
            json!("10"),
            json!("Änd"),
            json!("a,b,c"),
        ]
    };
    let fields: Vec<BoxedStrategy<(&str, Option<Value>)>> = vec![
        field("int", vec![json!(0), json!(1), json!(-3), json!(10)]).boxed(),
        field("other", vec![json!(0), json!(2), json!(9_223_372_036_854_775_807_i64)]).boxed(),
        field("number", vec![json!(0), json!(1.5), json!(-2.25), json!(10)]).boxed(),
        field("flag", vec![json!(true), json!(false)]).boxed(),
        field("text", texts()).boxed(),
        field("word", texts()).boxed(),
        field("nil", vec![json!(null), json!("x")]).boxed(),
        field("list", lists()).boxed(),
        field("set", lists()).boxed(),
        field("numbers", vec![json!([]), json!([1]), json!([3, 1, 2]), json!([0, -1])]).boxed(),
        field("dict", vec![json!({}), json!({"a": 1}), json!({"a": 2, "b": 0}), json!({"harbour": 7})])
            .boxed(),
        field(
            "parts",
            vec![
                json!([]),
                json!([{"name": "a"}]),
                json!([{"name": "b", "count": 2}, {"name": "a", "count": 1}]),
            ],
        )
        .boxed(),
        field("when", vec![json!("2026-01-01T00:00:00Z"), json!("2025-06-15T12:30:01+02:00")]).boxed(),
        field("long", vec![json!("1h"), json!("90s"), json!("1m30.5s")]).boxed(),
        field("port", vec![json!(80), json!("http"), json!("80%")]).boxed(),
    ];
    fields.prop_map(|fields| {
        let set = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(set.collect())
    })
}

fn one_of(words: &'static [&'static str]) -> BoxedStrategy<String> {
    prop::sample::select(words).prop_map(str::to_owned).boxed()
}

/// A choice between leaves, or between them and what is built from smaller parts.
fn grown(
    depth: u32,
    leaves: BoxedStrategy<String>,
    built: impl FnOnce(u32) -> Vec<BoxedStrategy<String>>,
) -> BoxedStrategy<String> {
    if depth == 0 {
        return leaves;
    }
    let built = built(depth - 1).into_iter().map(|strategy| (1, strategy));
    prop::strategy::Union::new_weighted([(3, leaves)].into_iter().chain(built).collect::<Vec<_>>()).boxed()
}

/// Puts generated parts in place of `{}`, one after the other.
fn form(form: &'static str, parts: Vec<BoxedStrategy<String>>) -> BoxedStrategy<String> {
    parts
        .prop_map(move |parts| {
            let mut text = String::new();
            let mut pieces = form.split("{}");
            text.push_str(pieces.next().unwrap_or_default());
            for (part, piece) in parts.iter().zip(pieces) {
                text.push_str(part);
                text.push_str(piece);
            }
            text
        })
        .boxed()
}

/// One of several forms over the same parts.
fn forms(
    forms: &'static [&'static str],
    parts: impl Fn() -> Vec<BoxedStrategy<String>>,
) -> BoxedStrategy<String> {
    prop::strategy::Union::new(forms.iter().map(|it| form(it, parts())).collect::<Vec<_>>()).boxed()
}

fn boolean(depth: u32) -> BoxedStrategy<String> {
    let leaves = one_of(&[
        "true",
        "false",
        "self.flag",
        "has(self.text)",
        "has(self.parts)",
        "has(self.nil)",
        "!has(self.flag)",
        "self.nil == null",
        "self.set == oldSelf.set",
        "self.parts == oldSelf.parts",
        "(self.parts + oldSelf.parts) == self.parts",
        "oldSelf.parts + self.parts != oldSelf.parts",
        "self.list == oldSelf.list",
        "self == oldSelf",
        "self.dict == oldSelf.dict",
        "type(self.port) == int",
        "type(self.port) == string && self.port == '80%'",
        "self.port == 80",
        "self.when > timestamp('2025-12-31T00:00:00Z')",
        "self.long > duration('1m')",
        "self.when.getFullYear() == 2026",
        "self.when - timestamp('2025-01-01T00:00:00Z') > self.long",
        "has(self.text) && has(oldSelf.text) ? self.text == oldSelf.text : true",
        "self.parts.all(p, p.name != 'b' || p.count > 1)",
        "self.parts.exists_one(p, has(p.count) && p.count == 1)",
        "self.parts.map(p, p.name).isSorted()",
        "'a' in self.dict",
        "self.dict['a'] > 1",
        "self.dict.all(k, self.dict[k] > 0)",
        "quantity('1Gi').isGreaterThan(quantity('900Mi'))",
        "isQuantity(self.text)",
        "isIP(self.text)",
        "isURL(self.text)",
        "format.dns1123Label().validate(self.text).hasValue()",
        "!format.dns1123Label().validate(self.word).hasValue()",
    ]);
    grown(depth, leaves, |depth| {
        let pair = |part: fn(u32) -> BoxedStrategy<String>| move || vec![part(depth), part(depth)];
        vec![
            forms(&["{} && {}", "{} || {}", "({}) == ({})", "({}) != ({})"], pair(boolean)),
            form("!({})", vec![boolean(depth)]),
            form("({}) ? ({}) : ({})", vec![boolean(depth), boolean(depth), boolean(depth)]),
            forms(&["{} == {}", "{} < {}", "{} >= {}", "{} != {}", "{} in [{}, 1]"], pair(integer)),
            forms(
                &[
                    "{} == {}",
                    "{} < {}",
                    "{}.startsWith({})",
                    "{}.endsWith({})",
                    "{}.contains({})",
                    "{} in [{}]",
                ],
                pair(text),
            ),
            forms(&["{} == {}", "{} <= {}", "{} > {}"], pair(double)),
            forms(&["{} == {}", "{} != {}"], pair(texts)),
            form("{}.matches('^[a-z]+$')", vec![text(depth)]),
            form("{} in {}", vec![text(depth), texts(depth)]),
            forms(&["{}.all(x, x != {})", "{}.exists(x, x == {})", "{}.exists_one(x, x < {})"], move || {
                vec![texts(depth), text(depth)]
            }),
            form("{}.isSorted()", vec![texts(depth)]),
            form("self.numbers.all(n, n < {})", vec![integer(depth)]),
        ]
    })
}

fn integer(depth: u32) -> BoxedStrategy<String> {
    let leaves = one_of(&[
        "0",
        "1",
        "-3",
        "7",
        "self.int",
        "self.other",
        "oldSelf.int",
        "size(self.list)",
        "self.dict.size()",
        "self.numbers.sum()",
        "self.numbers.min()",
        "self.numbers.max()",
        "self.numbers[0]",
        "self.dict['a']",
        "self.text.size()",
        "size(self.parts)",
        "self.parts.filter(p, has(p.count)).map(p, p.count).sum()",
    ]);
    grown(depth, leaves, |depth| {
        let pair = move || vec![integer(depth), integer(depth)];
        vec![
            forms(&["({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} % {})"], pair),
            form("-({})", vec![integer(depth)]),
            form("size({})", vec![text(depth)]),
            form("size({})", vec![texts(depth)]),
            forms(&["{}.indexOf({})", "{}.lastIndexOf({})"], move || vec![text(depth), text(depth)]),
            forms(&["{}.indexOf({})", "{}.lastIndexOf({})"], move || vec![texts(depth), text(depth)]),
            form("int({})", vec![one_of(&["self.text", "self.word", "'7'"])]),
            form("int({})", vec![double(depth)]),
            form("(({}) ? {} : {})", vec![boolean(depth), integer(depth), integer(depth)]),
        ]
    })
}

fn double(depth: u32) -> BoxedStrategy<String> {
    let leaves = one_of(&["0.0", "1.5", "-2.25", "self.number", "oldSelf.number"]);
    grown(depth, leaves, |depth| {
        vec![
            forms(&["({} + {})", "({} - {})", "({} * {})", "({} / {})"], move || {
                vec![double(depth), double(depth)]
            }),
            form("double({})", vec![integer(depth)]),
            form("double({})", vec![one_of(&["self.text", "self.word", "'1.5'"])]),
        ]
    })
}

fn text(depth: u32) -> BoxedStrategy<String> {
    let leaves = one_of(&[
        "''",
        "'a'",
        "'harbour'",
        "'Änd'",
        "self.text",
        "self.word",
        "oldSelf.text",
        "self.list[0]",
        "self.nil",
    ]);
    grown(depth, leaves, |depth| {
        vec![
            form("({} + {})", vec![text(depth), text(depth)]),
            forms(
                &["{}.lowerAscii()", "{}.upperAscii()", "{}.trim()", "{}.find('[a-z]+')", "string({})"],
                move || vec![text(depth)],
            ),
            form("string({})", vec![integer(depth)]),
            forms(&["{}.charAt({})", "{}.substring({})"], move || vec![text(depth), integer(depth)]),
            form("{}.substring({}, {})", vec![text(depth), integer(depth), integer(depth)]),
            form("{}.replace({}, {})", vec![text(depth), text(depth), text(depth)]),
            form("{}.join({})", vec![texts(depth), text(depth)]),
            form("(({}) ? {} : {})", vec![boolean(depth), text(depth), text(depth)]),
            form("'%s and %d'.format([{}, {}])", vec![text(depth), integer(depth)]),
        ]
    })
}

fn texts(depth: u32) -> BoxedStrategy<String> {
    let leaves = one_of(&[
        "self.list",
        "self.set",
        "oldSelf.list",
        "oldSelf.set",
        "['a', 'b']",
        "[]",
        "self.parts.map(p, p.name)",
        "(self.parts + oldSelf.parts).map(p, p.name)",
    ]);
    grown(depth, leaves, |depth| {
        vec![
            form("({} + {})", vec![texts(depth), texts(depth)]),
            form("[{}, {}]", vec![text(depth), text(depth)]),
            // Not by nothing: of no text that leaves nothing on the one plane, and no text on the other.
            form("{}.split({} + ',')", vec![text(depth), text(depth)]),
            form("{}.findAll('[a-z]')", vec![text(depth)]),
            forms(&["{}.map(x, x + {})", "{}.filter(x, x != {})"], move || vec![texts(depth), text(depth)]),
        ]
    })
}
