//! Users with few rights: both planes must allow and refuse the same requests, with the same words.

use capstan_testkit::eventually;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::generate;
use crate::kinds::{KINDS, NAMESPACE, TrialKind};
use crate::play::{DEADLINE, Planes, Request};

/// A user, and the verbs it has on the trial's kinds and on the subresources of these.
#[derive(Clone, Copy, Debug)]
struct TrialUser {
    name: &'static str,
    verbs: &'static [&'static str],
    subresource_verbs: &'static [&'static str],
}

/// Each lacks another right. Several rights are checked in the middle of a request: to create by update or by apply, to delete
/// what an update frees, to grant with a Role.
const USERS: &[TrialUser] = &[
    TrialUser { name: "reader", verbs: &["get", "list", "watch"], subresource_verbs: &["get"] },
    TrialUser { name: "editor", verbs: &["get", "list", "update", "patch"], subresource_verbs: &["get"] },
    TrialUser { name: "maker", verbs: &["create", "patch"], subresource_verbs: &[] },
    TrialUser { name: "remover", verbs: &["get", "delete"], subresource_verbs: &[] },
    TrialUser { name: "status-writer", verbs: &[], subresource_verbs: &["get", "update", "patch"] },
    TrialUser { name: "all-verbs", verbs: &["*"], subresource_verbs: &["*"] },
    TrialUser { name: "without-rights", verbs: &[], subresource_verbs: &[] },
];
/// Used when a request needs no particular right.
const LEAST: &str = "without-rights";

/// Gives the users their rights on both planes, and waits until these are in force.
pub(crate) async fn introduce(planes: &Planes) {
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}");
    for user in USERS {
        let role = json!({"metadata": {"name": user.name}, "rules": rules(user)});
        let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user.name});
        let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user.name});
        let binding = json!({"metadata": {"name": user.name}, "roleRef": role_ref, "subjects": [subject]});
        for plane in planes.each() {
            for (kind, object) in [("roles", &role), ("rolebindings", &binding)] {
                let made = plane.ask("POST", &format!("{rbac}/{kind}"), object).await.unwrap();
                assert_eq!(made.code, 201, "{made:?}");
            }
        }
    }
    // kube-apiserver reads rights from a cache. The users were created in order, so the last one that has rights tells.
    let review = json!({"spec": {"resourceAttributes": {"namespace": NAMESPACE, "verb": "delete", "resource": "secrets"}}});
    for plane in planes.each() {
        eventually(DEADLINE, "rights of users to be in force", async || {
            let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
            let review = plane.ask_as("POST", path, &review, &[("impersonate-user", "all-verbs")]).await?;
            anyhow::ensure!(review.body["status"]["allowed"] == true, "{review:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

fn rules(user: &TrialUser) -> Value {
    let mut rules = Vec::new();
    for kind in KINDS {
        let group = kind.api_version.split_once('/').map_or("", |(group, _)| group);
        let resource = kind.path.rsplit('/').next().unwrap();
        let mut add = |resource: String, verbs: &[&str]| {
            if !verbs.is_empty() {
                rules.push(json!({"apiGroups": [group], "resources": [resource], "verbs": verbs}));
            }
        };
        add(resource.to_owned(), user.verbs);
        for part in kind.subresources {
            add(format!("{resource}/{part}"), user.subresource_verbs);
        }
    }
    json!(rules)
}

/// Requests about one object. An administrator sends the first one, as a rule, so that there is something to be refused.
pub(crate) fn sequence(kind: &TrialKind) -> impl Strategy<Value = Vec<Request>> + use<> {
    let name = prop::sample::select(USERS).prop_map(|user| user.name);
    let name = prop_oneof![9 => name, 1 => Just(LEAST)];
    let users = prop::collection::vec(name, 8);
    (generate::sequence(kind), users, prop::bool::weighted(0.7)).prop_map(|(requests, users, is_prepared)| {
        let by = |(at, (request, user)): (usize, (Request, &'static str))| Request {
            user: (at > 0 || !is_prepared).then_some(user),
            ..request
        };
        requests.into_iter().zip(users).enumerate().map(by).collect()
    })
}
