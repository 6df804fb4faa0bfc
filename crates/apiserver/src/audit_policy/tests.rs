//! Which rule is about which request, and what is wrong with a policy.

use super::*;

const HEAD: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";

fn policy(rules: &str) -> AuditPolicy {
    AuditPolicy::parse(&format!("{HEAD}{rules}")).unwrap()
}

fn of<'a>(verb: &'a str, namespace: &'a str, resource: &'a str, subresource: &'a str) -> Access<'a> {
    Access::Resource { verb, group: "", namespace, resource, subresource, name: "n" }
}

fn level(policy: &AuditPolicy, access: &Access<'_>) -> Level {
    policy.decide(&User::new("jane", ["dev"]), access).level
}

#[test]
fn the_first_rule_about_a_request_counts() {
    let policy = policy(
        "rules:
- {level: None, users: [robot]}
- {level: None, verbs: [watch], userGroups: [dev]}
- {level: Metadata, resources: [{resources: [secrets, configmaps/*, '*/token']}]}
- {level: Request, namespaces: [a], resources: [{group: '*', resources: [pods], resourceNames: ['n']}]}
- {level: Metadata, nonResourceURLs: ['/healthz*', /version]}
- {level: RequestResponse, resources: [{group: ''}]}
",
    );
    for (access, expected) in [
        (of("watch", "a", "pods", ""), Level::None),
        (of("get", "a", "secrets", ""), Level::Metadata),
        (of("get", "a", "secrets", "status"), Level::RequestResponse),
        (of("get", "a", "configmaps", ""), Level::Metadata),
        (of("get", "a", "configmaps", "status"), Level::Metadata),
        (of("create", "a", "serviceaccounts", "token"), Level::Metadata),
        (of("get", "a", "pods", ""), Level::Request),
        (of("get", "b", "pods", ""), Level::RequestResponse),
        (of("get", "a", "pods", "status"), Level::RequestResponse),
        (Access::Path { verb: "get", path: "/healthz/ping" }, Level::Metadata),
        (Access::Path { verb: "get", path: "/version" }, Level::Metadata),
        (Access::Path { verb: "get", path: "/version/x" }, Level::None),
        (Access::Path { verb: "get", path: "/metrics" }, Level::None),
    ] {
        assert_eq!(level(&policy, &access), expected, "{access:?}");
    }
    let other_group = Access::Resource {
        verb: "get",
        group: "apps",
        namespace: "a",
        resource: "deployments",
        subresource: "",
        name: "",
    };
    assert_eq!(level(&policy, &other_group), Level::None, "no rule is about it");
    let other_pod = Access::Resource {
        verb: "get",
        group: "",
        namespace: "a",
        resource: "pods",
        subresource: "",
        name: "m",
    };
    assert_eq!(level(&policy, &other_pod), Level::RequestResponse, "a rule names another pod");
    let robot = User::new("robot", ["dev"]);
    assert_eq!(policy.decide(&robot, &of("get", "a", "secrets", "")).level, Level::None);
    let other_group = User::new("jane", ["ops"]);
    assert_eq!(policy.decide(&other_group, &of("watch", "a", "secrets", "")).level, Level::Metadata);
}

#[test]
fn stages_and_managed_fields_are_those_of_both() {
    let policy = policy(
        "omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: Request, verbs: [get], omitStages: [ResponseStarted], omitManagedFields: false}
- {level: Metadata, verbs: [list]}
",
    );
    let user = User::new("jane", ["dev"]);
    let got = policy.decide(&user, &of("get", "", "nodes", ""));
    assert_eq!(got.omitted, [Stage::ResponseStarted, Stage::RequestReceived]);
    assert!(!got.omit_managed_fields);
    let listed = policy.decide(&user, &of("list", "", "nodes", ""));
    assert!(listed.omit_managed_fields && listed.omitted == [Stage::RequestReceived]);
}

#[test]
fn faults_are_named_with_their_field() {
    let fault = |text: &str| AuditPolicy::parse(text).unwrap_err().to_string();
    for (rules, expected) in [
        ("rules: []", "rules: must be a list of at least one rule"),
        ("rules: [{level: Metadata}]\nlevel: x", "level: unknown field"),
        ("rules: [{}]", "rules[0].level: must be one of None, Metadata, Request, RequestResponse"),
        (
            "rules: [{level: All}]",
            "rules[0].level: must be one of None, Metadata, Request, RequestResponse, not \"All\"",
        ),
        ("rules: [{level: None, user: [a]}]", "rules[0].user: unknown field"),
        ("rules: [{level: None, users: a}]", "rules[0].users: must be a list"),
        ("rules: [{level: None, verbs: [1]}]", "rules[0].verbs[0]: must be a string"),
        (
            "rules: [{level: None, omitStages: [Late]}]",
            "rules[0].omitStages[0]: must be one of RequestReceived, ResponseStarted, ResponseComplete, Panic, not \"Late\"",
        ),
        ("rules: [{level: None}]\nomitManagedFields: 1", "omitManagedFields: must be true or false"),
        ("rules: [{level: None, resources: [pods]}]", "rules[0].resources[0]: must be an object"),
        (
            "rules: [{level: None, resources: [{group: a/v1}]}]",
            "rules[0].resources[0].group: a lowercase RFC 1123 subdomain",
        ),
        (
            "rules: [{level: None, resources: [{resourceNames: [a]}]}]",
            "rules[0].resources[0].resourceNames: needs at least one resource",
        ),
        (
            "rules: [{level: None, nonResourceURLs: [a]}]",
            "rules[0].nonResourceURLs[0]: must begin with a slash",
        ),
        (
            "rules: [{level: None, nonResourceURLs: [/a*b]}]",
            "rules[0].nonResourceURLs[0]: a wildcard must be the last character",
        ),
        (
            "rules: [{level: None, nonResourceURLs: [/a], namespaces: [b]}]",
            "rules[0].nonResourceURLs: a rule is about resources or about non-resource URLs, not about both",
        ),
    ] {
        let found = fault(&format!("{HEAD}{rules}"));
        assert!(found.starts_with(expected), "{rules}: {found}");
    }
    assert_eq!(fault("kind: Policy\nrules: [{level: None}]"), "apiVersion: must be audit.k8s.io/v1");
    assert_eq!(fault("{}").split("; ").count(), 3, "all of them");
    assert!(fault(&format!("{HEAD}rules: [{{level: None}}]\nrules: [{{level: None}}]")).contains("rules"));
    assert!(!fault("[").is_empty());
}

/// The one that users copy.
#[test]
fn the_documented_policy_is_one() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let page = std::fs::read_to_string(page).expect("docs/security.md");
    let start = page.find("apiVersion: audit.k8s.io/v1").expect("a policy");
    let text = &page[start..];
    let policy = AuditPolicy::parse(&text[..text.find("```").expect("its end")]).unwrap();
    assert_eq!(level(&policy, &of("create", "a", "secrets", "")), Level::Metadata);
    assert_eq!(level(&policy, &of("create", "a", "serviceaccounts", "token")), Level::Metadata);
    assert_eq!(level(&policy, &of("create", "a", "pods", "")), Level::Request);
}
