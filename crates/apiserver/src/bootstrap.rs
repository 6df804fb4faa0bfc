//! What exists from the start: four namespaces, and the role that may do everything.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    auth::{MASTERS, User},
    object,
    plane::Plane,
    registry::kinds::IMMORTAL,
    request::options::WriteOptions,
    status::Result,
    store::{GroupResource, Key},
    verbs::{Call, create},
};

/// Makes what is missing.
pub(crate) async fn run(plane: &Arc<Plane>) -> Result<()> {
    for name in IMMORTAL {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        make(plane, "", "namespaces", object).await?;
    }
    let rbac = "rbac.authorization.k8s.io";
    let api_version = format!("{rbac}/v1");
    let role = json!({
        "apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": "cluster-admin"},
        "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ],
    });
    make(plane, rbac, "clusterroles", role).await?;
    let binding = json!({
        "apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": "cluster-admin"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": rbac, "kind": "Group", "name": MASTERS}],
    });
    make(plane, rbac, "clusterrolebindings", binding).await
}

async fn make(plane: &Arc<Plane>, group: &str, resource: &str, object: Value) -> Result<()> {
    let key = Key::new(GroupResource::new(group, resource), "", object::name(&object));
    if plane.store.get(&key).is_some() {
        return Ok(());
    }
    let user = User::controller("bootstrap");
    if let Some(call) = Call::internal(plane, &key, &user) {
        create::create(&call, object, Vec::new(), &WriteOptions::default(), false).await?;
    }
    Ok(())
}
