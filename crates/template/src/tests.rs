//! Tests of the result of each form, and of the forms that are rejected.

use super::*;
use proptest::prelude::*;

const VALUES: [(&str, &str); 6] = [
    ("NAME", "Harbour"),
    ("EMPTY", ""),
    ("PATH", "/usr/local/bin/k3s"),
    ("VERSION", "v1.36.1+k3s1"),
    ("OTHER", "x"),
    ("COUNT", "3"),
];

fn value(name: &str) -> Option<String> {
    VALUES.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

fn render(template: &str) -> String {
    Template::parse(template).unwrap().render(value).unwrap()
}

#[test]
fn every_form_gives_what_the_dialect_says() {
    for (template, expected) in [
        ("plain text", "plain text"),
        ("${NAME}", "Harbour"),
        ("a${NAME}b${COUNT}c", "aHarbourb3c"),
        ("${ NAME } ${NAME } ${ NAME}", "Harbour Harbour Harbour"),
        ("$NAME $ {NAME} }", "$NAME $ {NAME} }"),
        ("$${NAME}", "${NAME}"),
        ("$$$${NAME}", "$${NAME}"),
        ("$$${NAME}", "$Harbour"),
        // defaults
        ("${NAME:=d} ${NAME:-d} ${NAME=d} ${NAME:+d} ${NAME:?d}", "Harbour Harbour Harbour Harbour Harbour"),
        ("${EMPTY:=d} ${EMPTY:-d} ${EMPTY=d} ${EMPTY:+d} ${EMPTY:?d}", "d d d d d"),
        ("${UNSET:=a b: c}", "a b: c"),
        ("${UNSET:=${NAME}-${COUNT}}", "Harbour-3"),
        ("${UNSET:=${ALSO_UNSET:=deep}}", "deep"),
        ("${UNSET:=$$}", "$$"),
        // length and case
        ("${#NAME} ${#EMPTY}", "7 0"),
        ("${NAME^^} ${NAME,,} ${NAME,} ${OTHER^} ${EMPTY^}", "HARBOUR harbour harbour X "),
        // parts
        ("${NAME:3}", "bour"),
        ("${NAME:3:2}", "bo"),
        ("${NAME:0:99} ${NAME:99} ${NAME:x}", "Harbour  Harbour"),
        ("${NAME:2:-9}", ""),
        // trims
        ("${PATH#*/}", "usr/local/bin/k3s"),
        ("${PATH##*/}", "k3s"),
        ("${PATH%/*}", "/usr/local/bin"),
        ("${PATH%%/*}", ""),
        ("${PATH%%/l*}", "/usr"),
        ("${VERSION#v}", "1.36.1+k3s1"),
        ("${VERSION%+*}", "v1.36.1"),
        ("${VERSION#?[0-9].}", "36.1+k3s1"),
        ("${NAME#nothing} ${NAME%[}", "Harbour Harbour"),
        // replacements
        ("${PATH/\\//:}", ":usr/local/bin/k3s"),
        ("${PATH//\\//:}", ":usr:local:bin:k3s"),
        ("${VERSION/+k3s1/}", "v1.36.1"),
        ("${VERSION/#v/V} ${VERSION/%1/2} ${VERSION/#x/y}", "V1.36.1+k3s1 v1.36.1+k3s2 v1.36.1+k3s1"),
        ("${NAME/r/${OTHER}}", "Haxbour"),
    ] {
        assert_eq!(render(template), expected, "{template}");
    }
}

#[test]
fn a_negative_place_counts_from_the_end_if_it_can_be_written() {
    // `:-` is a default, and a number with a blank before it cannot be read.
    assert_eq!(render("${NAME: -2}"), "Harbour");
    assert_eq!(render("${NAME:${UNSET:=-2}}"), "ur");
}

#[test]
fn what_cannot_be_parsed_is_shown_with_its_line() {
    for (template, problem, line) in [
        ("a\nb ${", Problem::Name, 2),
        ("${}", Problem::Name, 1),
        ("${-x}", Problem::Name, 1),
        ("${NAME", Problem::Brace, 1),
        ("${NAME:=x", Problem::Brace, 1),
        ("${NAME-x}", Problem::Form, 1),
        ("${NAME/a}", Problem::Form, 1),
        ("${NAME^x}", Problem::Form, 1),
    ] {
        let error = Template::parse(template).unwrap_err();
        assert_eq!((error.problem, error.line), (problem, line), "{template}: {error}");
    }
}

#[test]
fn all_missing_variables_are_named_and_nothing_is_rendered() {
    let template = Template::parse("${B} ${A} ${A} ${C:=c} ${NAME} ${EMPTY} ${D:-}").unwrap();
    let missing = template.render(value).unwrap_err();
    assert_eq!(missing.0.iter().collect::<Vec<_>>(), ["A", "B", "D"]);
    assert!(missing.to_string().starts_with("value for variables [A, B, D] is not set"));
}

#[test]
fn variables_are_listed_with_their_first_default() {
    let template = Template::parse("${A:=1} ${A:=2} ${B} ${C:=x${B}} ${ D } $${E}").unwrap();
    let listed: Vec<(String, Option<String>)> = template.variables().into_iter().collect();
    let expected = [("A", Some("1")), ("B", None), ("C", Some("x${B}")), ("D", None)];
    let expected: Vec<_> =
        expected.into_iter().map(|(name, default)| (name.to_owned(), default.map(str::to_owned))).collect();
    assert_eq!(listed, expected);
}

proptest! {
    #[test]
    fn text_without_a_dollar_stays_as_it_is(text in "[^$]*") {
        prop_assert_eq!(Template::parse(&text).unwrap().render(|_| None).unwrap(), text);
    }

    #[test]
    fn a_value_is_put_in_unchanged(before in "[^$]*", content in ".*", after in "[^$]*") {
        let template = Template::parse(&format!("{before}${{V}}{after}")).unwrap();
        let rendered = template.render(|_| Some(content.clone())).unwrap();
        prop_assert_eq!(rendered, format!("{before}{content}{after}"));
    }

    #[test]
    fn nothing_makes_it_panic(text in r"[${}:=/#%^,\\a-c*\[\]0-9 -]*") {
        if let Ok(template) = Template::parse(&text) {
            _ = template.render(|_| Some("a/b*c".to_owned()));
        }
    }
}
