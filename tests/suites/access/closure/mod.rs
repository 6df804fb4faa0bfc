//! What each credential that Capstan hands out or runs with is worth, in the hands of somebody else: computed from the answers
//! of the API server, with everything that its rights lead to. The documentation has the table.

mod questions;
mod reach;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, ensure};
use capstan_api::access::{self, GroupAccess};
use capstan_testkit::eventually;
use capstan_tests::{installed_access, right_of_clusters};
use serde_json::{Value, json};

use crate::DEADLINE;
use crate::script::{NAMESPACE, Script, account, binding, core, rbac, role};
use reach::{Right, Scope};

const MACHINE: &str = "web-0";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Before and after the table in the documentation.
const MARKS: [&str; 2] =
    ["<!-- what credentials reach: begin -->\n", "<!-- what credentials reach: end -->\n"];

/// Somebody, and a right of each of their bindings, which tells that the API server knows all of theirs.
struct Identity {
    name: String,
    user: String,
    groups: Vec<String>,
    home: Option<Scope>,
    signs: Vec<Value>,
}

impl Identity {
    fn account(name: &str, scope: Scope, account: &str, signs: Vec<Value>) -> Self {
        let namespace = scope.namespace();
        Self {
            name: name.to_owned(),
            user: format!("system:serviceaccount:{namespace}:{account}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            home: Some(scope),
            signs,
        }
    }

    async fn may(&self, script: &Script, what: &Value) -> bool {
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": self.user, "groups": self.groups, "resourceAttributes": what},
        });
        script.make(REVIEWS, body).await["status"]["allowed"] == true
    }
}

pub(crate) async fn is_as_documented(script: &mut Script) {
    for scope in [Scope::Managers, Scope::Other] {
        script.make("/api/v1/namespaces", json!({"metadata": {"name": scope.namespace()}})).await;
    }
    let mut identities = managers(script).await;
    identities.extend(machine(script).await);
    let mut rights = BTreeMap::new();
    for identity in &identities {
        known(script, identity).await.unwrap();
        let mut held = BTreeSet::new();
        // Denials count at once: nothing is asked again.
        for question in questions::questions(MACHINE) {
            for what in &question.any_of {
                if identity.may(script, what).await {
                    held.insert(question.right);
                }
            }
        }
        script.note(&identity.name, &format!("{held:?}"));
        rights.insert(identity.name.clone(), held);
    }
    let home =
        identities.iter().filter_map(|identity| Some((identity.name.clone(), identity.home?))).collect();
    let table = reach::table(&rights, &home);
    let [documented, page] = documented();
    assert_eq!(table, documented, "{page} must have this table:\n{table}");
    assert!(rights["a machine, enrolled"].contains(&Right::ReadOwnPlan), "{rights:?}");
}

/// Waits until the API server has seen the bindings of somebody: real ones learn of them a little later.
async fn known(script: &Script, identity: &Identity) -> Result<()> {
    eventually(DEADLINE, &format!("rights of {} to be known", identity.name), async || {
        for what in &identity.signs {
            ensure!(identity.may(script, what).await, "not yet: {what}");
        }
        Ok(())
    })
    .await
}

/// A right, as a SubjectAccessReview asks for it.
fn right(verb: &str, group: &str, resource: &str, namespace: Option<&str>, name: Option<&str>) -> Value {
    json!({"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name})
}

/// A right of each binding of a manager.
fn signs_of_manager(group: &GroupAccess) -> Vec<Value> {
    let home = Some(Scope::Managers.namespace());
    let (verb, of, resource) = right_of_clusters(group);
    vec![
        right("create", "authentication.k8s.io", "tokenreviews", None, None),
        right("create", "coordination.k8s.io", "leases", home, None),
        right(&verb, &of, &resource, Some(NAMESPACE), None),
    ]
}

/// The service account of each group of controllers, with its rights.
async fn managers(script: &Script) -> Vec<Identity> {
    let mut identities = Vec::new();
    for group in access::access() {
        let home = Scope::Managers.namespace();
        let clusters = capstan_tests::let_in(&group, home, NAMESPACE);
        for object in installed_access(&group, home).into_iter().chain([clusters]) {
            script.make(&path_of(&object), object).await;
        }
        let name = format!("manager of group {}", group.controllers);
        let account = format!("capstan-{}", group.controllers);
        identities.push(Identity::account(&name, Scope::Managers, &account, signs_of_manager(&group)));
    }
    identities
}

/// A machine before and after it has enrolled.
async fn machine(script: &Script) -> [Identity; 2] {
    let accounts = ["enrol", "agent"].map(|name| format!("web-0-config.{name}.machine.capstan.dev"));
    let rules = [access::enrolling_machine(MACHINE), access::machine(MACHINE, "web-0-plan", "web-0-agent")];
    for (name, rules) in accounts.iter().zip(rules) {
        script.make(&core("serviceaccounts"), json!({"metadata": {"name": name}})).await;
        script.make(&rbac("roles"), role(name, json!(rules))).await;
        script.make(&rbac("rolebindings"), binding(name, "Role", name, account(name))).await;
    }
    let report = right("get", "agent.capstan.dev", "machinereports", Some(NAMESPACE), Some(MACHINE));
    let of =
        |name: &str, account: &str| Identity::account(name, Scope::Clusters, account, vec![report.clone()]);
    let [enrolling, enrolled] = &accounts;
    [of("a machine, not enrolled (bootstrap data)", enrolling), of("a machine, enrolled", enrolled)]
}

fn path_of(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = format!("{}s", text("/kind").to_lowercase());
    let root = match text("/apiVersion") {
        "v1" => "/api/v1".to_owned(),
        version => format!("/apis/{version}"),
    };
    match text("/metadata/namespace") {
        "" => format!("{root}/{kind}"),
        namespace => format!("{root}/namespaces/{namespace}/{kind}"),
    }
}

/// The table of the documentation, and where it is.
fn documented() -> [String; 2] {
    let page = "docs/security.md";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let [begin, end] = MARKS;
    let table = text.split_once(begin).and_then(|(_, rest)| rest.split_once(end));
    [table.map(|(table, _)| table.trim_start().to_owned()).unwrap_or_default(), page.to_owned()]
}
