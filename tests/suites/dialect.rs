//! Templates give what the real clusterctl makes of them: generated ones, and those it refuses.

#![cfg(test)]

use std::fmt::Write as _;

use capstan_template::Template;
use capstan_tests::clusterctl;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

/// How many templates there are, and how many expressions are in each: a clusterctl takes a while to start.
const TEMPLATES: usize = 100;
const EXPRESSIONS: usize = 50;

const VALUES: [(&str, &str); 6] = [
    ("EMPTY", ""),
    ("WORD", "Harbour"),
    ("PLACE", "/usr/local/bin/k3s"),
    ("NUMBER", "-3"),
    ("VERSION", "v1.36.1+k3s1"),
    ("ACCENT", "éa*b[c]éa"),
];

#[test]
fn whatever_clusterctl_renders_is_rendered_alike() {
    let seed = std::env::var("CAPSTAN_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("CAPSTAN_SEED={seed} makes the same templates");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for _ in 0..TEMPLATES {
        let expressions: Vec<String> =
            (0..EXPRESSIONS).map(|_| expression().new_tree(&mut runner).unwrap().current()).collect();
        let theirs =
            rendered_by_clusterctl(&expressions).unwrap_or_else(|why| panic!("{why}\n{expressions:#?}"));
        for (expression, theirs) in expressions.iter().zip(theirs) {
            let ours = Template::parse(expression).unwrap().render(value).unwrap();
            assert_eq!(ours, theirs, "{expression}");
        }
    }
}

#[test]
fn what_clusterctl_refuses_is_refused() {
    for refused in
        ["${", "${}", "${-x}", "${WORD", "${WORD:=x", "${WORD-x}", "${WORD/a}", "${WORD^x}", "${UNSET}"]
    {
        assert!(rendered_by_clusterctl(&[refused.to_owned()]).is_err(), "clusterctl takes {refused}");
        let ours = Template::parse(refused).ok().and_then(|template| template.render(value).ok());
        assert_eq!(ours, None, "{refused}");
    }
}

fn value(name: &str) -> Option<String> {
    VALUES.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

/// Some text with variables in it.
fn expression() -> impl Strategy<Value = String> {
    let part = prop_oneof![2 => Just(String::new()), 1 => text("[a-c. $]{0,3}[a-c.]"), 1 => Just("$$".to_owned()), 6 => variable()];
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.concat())
}

/// A variable in any form that clusterctl takes, with others inside.
fn variable() -> impl Strategy<Value = String> {
    let name = prop::sample::select(VALUES.map(|(name, _)| name).to_vec());
    let leaf = name.clone().prop_map(|name| format!("${{{name}}}"));
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let name = name.clone();
        let one_of = |operators: &[&'static str]| prop::sample::select(operators.to_vec());
        // clusterctl takes either a text or a variable here, not both.
        let word = |letters: &str| prop_oneof![3 => text(letters), 1 => inner.clone()];
        let default =
            prop::collection::vec(word("[ a-c:=,^#%/*.-]{1,4}"), 1..3).prop_map(|words| words.concat());
        let pattern = word("[a-c/.*?+é0-9]{1,3}");
        // Bytes are counted there, and half a letter is no YAML.
        let plain = prop::sample::select(
            VALUES.map(|(name, _)| name).into_iter().filter(|name| *name != "ACCENT").collect::<Vec<_>>(),
        );
        prop_oneof![
            name.clone().prop_map(|name| format!("${{{name}}}")),
            name.clone().prop_map(|name| format!("${{#{name}}}")),
            (name.clone(), one_of(&["^", "^^", ",", ",,"]))
                .prop_map(|(name, case)| format!("${{{name}{case}}}")),
            (name.clone(), one_of(&["=", ":=", ":-", ":?", ":+"]), default)
                .prop_map(|(name, operator, default)| format!("${{{name}{operator}{default}}}")),
            (plain.clone(), "[0-9]{1,2}").prop_map(|(name, from)| format!("${{{name}:{from}}}")),
            (plain.clone(), "[0-9]{1,2}", "[0-9]{1,2}")
                .prop_map(|(name, from, length)| format!("${{{name}:{from}:{length}}}")),
            (plain, one_of(&["#", "##", "%", "%%"]), pattern)
                .prop_map(|(name, operator, pattern)| format!("${{{name}{operator}{pattern}}}")),
            (
                name,
                one_of(&["/", "//", "/#", "/%"]),
                word(r"[a-c.*éH](\\/|[a-c.*é]){0,2}"),
                word("[a-c.*:]{0,3}")
            )
                .prop_map(|(name, operator, old, new)| format!("${{{name}{operator}{old}/{new}}}")),
        ]
    })
}

fn text(letters: &str) -> BoxedStrategy<String> {
    prop::string::string_regex(letters).unwrap().boxed()
}

/// Each expression as the real clusterctl renders it, as a value in an object.
fn rendered_by_clusterctl(expressions: &[String]) -> Result<Vec<String>, String> {
    let mut template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dialect, namespace: x}\ndata:\n".to_owned();
    for (number, expression) in expressions.iter().enumerate() {
        writeln!(template, "  e{number}: '{expression}'").unwrap();
    }
    let rendered = clusterctl(&["generate", "yaml", "--from", "-"], &VALUES, &template)
        .map_err(|error| error.to_string())?;
    let object: Value = serde_saphyr::from_str(&rendered).map_err(|error| error.to_string())?;
    Ok((0..expressions.len())
        .map(|number| object["data"][format!("e{number}")].as_str().unwrap().to_owned())
        .collect())
}
