//! Templates: results as in Go, failures with a reason, limits.

use super::*;
use serde_json::json;

fn data() -> Data {
    Data::new(&json!({
        "a": 4, "b": 2.5, "c": 1_000_000, "d": 123_456_789, "e": 0.000_01, "f": [1, null, "x", {"k": 1e21}],
        "truth": true, "null": null, "text": "text", "map": {"x": 1, "y": {"z": "deep"}},
        "version": "v1.30.1+k3s1"
    }))
}

fn rendered(text: &str) -> Result<String, TemplateError> {
    render(text, &data(), Dialect::Values)
}

/// Results of Go 1.26 with sprig 3.3.0.
#[test]
fn templates_render_as_in_go() {
    for (template, expected) in [
        ("{{.a}} {{.b}} {{.c}} {{.d}} {{.e}}", "4 2.5 1e+06 1.23456789e+08 1e-05"),
        ("{{.f}}", "[1 <nil> x map[k:1e+21]]"),
        ("{{.null}} {{.missing}} {{.missing.x}}", "<no value> <no value> <no value>"),
        (r#"{{print .a 1 .c}} {{printf "%v" .c}} {{.c | printf "%v"}}"#, "4 1 1e+06 1e+06 1e+06"),
        (r#"{{.missing | printf "%v"}}"#, "<nil>"),
        ("{{if eq .a 4.0}}y{{end}}", "y"),
        ("{{if and .truth (not .null)}}y{{else}}n{{end}}", "y"),
        ("{{range $i, $v := .f}}{{$i}}={{$v}};{{end}}", "0=1;1=<no value>;2=x;3=map[k:1e+21];"),
        ("{{range $k, $v := .map}}{{$k}},{{end}}{{range .none}}x{{else}}none{{end}}", "x,y,none"),
        ("{{with .map.y}}{{.z}} {{$.a}}{{end}}", "deep 4"),
        ("{{- /* c */ -}} x {{- .a -}} y", " x4y".trim_start()),
        (r#"{{define "t"}}<{{.}}>{{end}}{{template "t" .a}}{{template "t"}}"#, "<4><<no value>>"),
        (r#"{{default "d" .none}} {{default "d" .text}} {{.none | default 7}}"#, "d text 7"),
        (r#"{{ .text | upper | quote }} {{ .text | trunc 2 }} {{ substr 1 3 .text }}"#, r#""TEXT" te ex"#),
        (r#"{{ list 1 "b" .a | join "," }} {{ splitList "," "a,b" | last }}"#, "1,b,4 b"),
        (r#"{{ nindent 2 "a\nb" }}"#, "\n  a\n  b"),
        (
            r#"{{ int .a | add 1 }} {{ sub 5 2 }} {{ div 7 2 }} {{ mod 7 2 }} {{ max 1 "0x10" }}"#,
            "5 3 3 1 16",
        ),
        (
            r#"{{ toJson .map }} {{ toJson "<" }} {{ toRawJson "<" }}"#,
            r#"{"x":1,"y":{"z":"deep"}} "\u003c" "<""#,
        ),
        (r#"{{ (fromJson "{\"q\": [1]}").q }}"#, "[1]"),
        (r#"{{ ternary "a" "b" .truth }} {{ coalesce .null "" "c" }} {{ empty .null }}"#, "a c true"),
        (
            r#"{{ has "x" .f }} {{ hasKey .map "x" }} {{ dig "y" "z" "d" .map }} {{ dig "q" "d" .map }}"#,
            "true true deep d",
        ),
        (r#"{{ b64enc "abc" }} {{ b64dec "YWJj" }} {{ sha256sum "" | trunc 8 }}"#, "YWJj abc e3b0c442"),
        (r#"{{ regexReplaceAll "a(x*)b" "-ab-axxb-" "${1}W" }}"#, "-W-xxW-"),
        (r#"{{ semverCompare ">=1.29.0-0" .version }} {{ semverCompare "~1.29" .version }}"#, "true false"),
        (
            r#"{{ $v := semver .version }}{{ $v.Major }}.{{ $v.Minor }} {{ if ge $v.Minor 30 }}new{{ end }}"#,
            "1.30 new",
        ),
        (r#"{{ seq 3 }} {{ until 3 }} {{ untilStep 3 0 -2 }}"#, "1 2 3 [0 1 2] [3 1]"),
        (r#"{{ kindOf .f }} {{ typeOf .a }} {{ kindIs "map" .map }}"#, "slice float64 true"),
        (
            r#"{{ merge (dict "x" 2) .map | toJson }} {{ mergeOverwrite (dict "x" 2) .map | toJson }}"#,
            r#"{"x":2,"y":{"z":"deep"}} {"x":1,"y":{"z":"deep"}}"#,
        ),
        (r#"{{ split "." "a.b" }}{{ (split "." "a.b")._1 }}"#, "map[_0:a _1:b]b"),
        (r#"{{ .text | replace "t" "" | cat "x" }} {{ trimAll "$" "$5$" }} {{ title "a b" }}"#, "x ex 5 A B"),
    ] {
        assert_eq!(rendered(template).as_deref(), Ok(expected), "{template}");
    }
}

/// Templates whose result differs from that of Go, with the reason.
const DIVERGENCES: &[(&str, &str)] = &[
    (r#"{{ b64dec "!" }}"#, "Go returns the text of the error as the result"),
    (r#"{{ regexMatch "(" "x" }}"#, "Go takes an invalid expression for one that does not match"),
];

/// `tests/data/go-templates.json` has results of `text/template` of Go 1.26 with the hermetic functions of sprig 3.3.0, on
/// the same data; a template without a result fails there.
#[test]
fn results_are_those_of_go() {
    let cases: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../../tests/data/go-templates.json")).expect("JSON");
    let mut faults = Vec::new();
    for case in &cases {
        let template = case["template"].as_str().expect("a template");
        let (expected, found) = (case["output"].as_str(), rendered(template));
        let differs = found.as_deref().ok() != expected;
        if differs != DIVERGENCES.iter().any(|(known, _)| *known == template) {
            faults.push(format!("{template}\n  Go:  {expected:?}\n  own: {found:?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(cases.len() > 80);
}

#[test]
fn templates_fail_with_a_reason() {
    for (template, expected) in [
        ("{{", "template cannot be parsed"),
        ("{{ if }}", "template cannot be parsed"),
        ("{{ nonsense 1 }}", r#"function "nonsense" is not defined"#),
        ("{{ env \"HOME\" }}", "depends on the environment"),
        ("{{ if (now) }}{{ end }}", "depends on the environment"),
        ("{{ set .map \"a\" 1 }}", "it changes its argument"),
        ("{{ genCA \"a\" 1 }}", "keys and passwords do not belong"),
        ("{{ eq .a 4 }}", "incompatible types for comparison"),
        ("{{ .text.x }}", "can't evaluate field x"),
        ("{{ trunc .a \"x\" }}", "must be an int"),
        ("{{ upper .missing }}", "must be a string"),
        ("{{ fail \"no such size\" }}", "no such size"),
        ("{{ div 1 0 }}", "division by zero"),
        ("{{ repeat 100000000 \"x\" }}", "longer than"),
        ("{{ template \"none\" }}", "none"),
        ("{{ define \"a\" }}1{{ end }}{{ define \"a\" }}2{{ end }}", "defined twice"),
        ("{{ semverCompare \"?\" .version }}", "constraint"),
    ] {
        let error = rendered(template).expect_err(template).to_string();
        assert!(error.contains(expected), "{template}: {error}");
    }
}

#[test]
fn templates_have_limits() {
    let steps = Err(TemplateError::TooManySteps);
    assert_eq!(rendered("{{range 1000000}}{{end}}"), steps);
    assert_eq!(rendered(r#"{{define "a"}}{{template "a"}}{{end}}{{template "a"}}"#), steps);
    // Doubles with every template: 2^40 calls without a loop and without output.
    let doubling: String = (0..40)
        .map(|i| {
            format!(
                "{{{{define \"t{i}\"}}}}{{{{template \"t{n}\"}}}}{{{{template \"t{n}\"}}}}{{{{end}}}}",
                n = i + 1
            )
        })
        .collect();
    assert_eq!(
        rendered(&format!("{doubling}{{{{define \"t40\"}}}}{{{{end}}}}{{{{template \"t0\"}}}}")),
        steps
    );
    let long = r#"{{range until 100}}{{repeat 50000 "x"}}{{end}}"#;
    assert_eq!(rendered(long), Err(TemplateError::OutputTooLong));
    assert_eq!(rendered(&"x".repeat(MOST_TEXT + 1)), Err(TemplateError::TooLong));
}

#[test]
fn templates_of_names_have_no_sprig_and_no_missing_keys() {
    let names = |text: &str| render(text, &data(), Dialect::Names);
    assert_eq!(names("{{ .map.y.z }}-{{ .text }}").as_deref(), Ok("deep-text"));
    assert_eq!(names("{{ .text | upper }}"), Err(TemplateError::UnknownFunction("upper".into())));
    assert!(names("{{ .missing }}").is_err());
}

#[test]
fn values_are_yaml() {
    for (template, expected) in [
        ("{{ .a }}", json!(4)),
        ("{{ .c }}", json!(1_000_000)),
        ("\"{{ .c }}\"", json!("1e+06")),
        ("", json!(null)),
        ("yes", json!(true)),
        ("0644", json!(420)),
        ("a: 1\nb: [x, {c: null}]\n", json!({"a": 1, "b": ["x", {"c": null}]})),
        ("{{ toJson .map }}", json!({"x": 1, "y": {"z": "deep"}})),
        ("{{ .truth }}", json!(true)),
    ] {
        assert_eq!(value(template, &data()), Ok(expected), "{template}");
    }
    assert!(matches!(value("{a", &data()), Err(TemplateError::Yaml(_))));
}

#[test]
fn every_function_of_sprig_is_known_or_refused_with_a_reason() {
    for (name, why) in functions::UNSUPPORTED {
        assert!(!functions::is_known(name), "{name} is supported");
        assert!(!why.is_empty());
    }
    for name in functions::NOT_HERMETIC {
        assert!(!functions::is_known(name), "{name} is supported");
    }
}
