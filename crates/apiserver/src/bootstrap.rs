//! Objects that exist from the start: four namespaces, the role that may do everything, those that let every user
//! discover and review their own rights, the objects of flow control that clients expect, and an APIService for each
//! group.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    call::Call,
    controllers::{api_services, flow_schemas},
    object,
    plane::Plane,
    rbac::RBAC,
    registry::kinds::{UNDELETABLE_NAMESPACES, api_service::API_SERVICES, flow_control},
    request::options::WriteOptions,
    status::Result,
    store::{GroupResource, Key},
    user::{AUTHENTICATED, MASTERS, UNAUTHENTICATED, User},
    verbs::create::{self, NewObject},
};

/// Makes what is missing.
pub(crate) async fn run(plane: &Arc<Plane>) -> Result<()> {
    for name in UNDELETABLE_NAMESPACES {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        make(plane, "", "namespaces", object).await?;
    }
    for (name, rules, groups) in roles() {
        let labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
        let object = |kind: &str, fields: Value| {
            let mut object = fields;
            object["apiVersion"] = format!("{RBAC}/v1").into();
            object["kind"] = kind.into();
            object["metadata"] = json!({"name": name, "labels": labels});
            object
        };
        make(plane, RBAC, "clusterroles", object("ClusterRole", json!({"rules": rules}))).await?;
        let subjects: Vec<Value> =
            groups.iter().map(|group| json!({"apiGroup": RBAC, "kind": "Group", "name": group})).collect();
        let reference = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": name});
        let binding = object("ClusterRoleBinding", json!({"roleRef": reference, "subjects": subjects}));
        make(plane, RBAC, "clusterrolebindings", binding).await?;
    }
    for (resource, kind, specs) in [
        (flow_control::FLOW_SCHEMAS, "FlowSchema", flow_control::mandatory_schemas()),
        (flow_control::PRIORITY_LEVELS, "PriorityLevelConfiguration", flow_control::mandatory_levels()),
    ] {
        for (name, spec) in specs {
            let metadata =
                json!({"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}});
            let api_version = format!("{}/v1", flow_control::GROUP);
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
            make(plane, flow_control::GROUP, resource, object).await?;
        }
    }
    for (name, _) in flow_control::mandatory_schemas() {
        flow_schemas::write_condition(plane, name).await?;
    }
    // Here and not by their controller alone: a server that has opened writes nothing by itself.
    for service in api_services::wanted(&plane.registry()).into_values() {
        make(plane, API_SERVICES.0, API_SERVICES.1, service).await?;
    }
    Ok(())
}

/// Roles and the groups they are bound to, by the names they have everywhere.
fn roles() -> [(&'static str, Value, &'static [&'static str]); 5] {
    let health = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let discovery = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ];
    let monitoring = ["/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/readyz", "/readyz/*"];
    let reviews = [
        ("authorization.k8s.io", vec!["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
        ("authentication.k8s.io", vec!["selfsubjectreviews"]),
    ]
    .map(|(group, resources)| json!({"verbs": ["create"], "apiGroups": [group], "resources": resources}));
    let everything = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]);
    let read = |paths: &[&str]| json!([{"verbs": ["get"], "nonResourceURLs": paths}]);
    [
        ("cluster-admin", everything, &[MASTERS]),
        ("system:discovery", read(&discovery), &[AUTHENTICATED]),
        ("system:basic-user", json!(reviews), &[AUTHENTICATED]),
        ("system:public-info-viewer", read(&health), &[AUTHENTICATED, UNAUTHENTICATED]),
        ("system:monitoring", read(&monitoring), &["system:monitoring"]),
    ]
}

async fn make(plane: &Arc<Plane>, group: &str, resource: &str, object: Value) -> Result<()> {
    let key = Key::new(GroupResource::new(group, resource), "", object::name(&object));
    if plane.store.get(&key).is_some() {
        return Ok(());
    }
    let user = User::controller("bootstrap");
    if let Some(call) = Call::internal(plane, &key, &user) {
        // A policy or webhook that rejects it must not keep the server from starting: it could not be corrected then.
        let call = Call { is_exempt: true, ..call };
        create::create(&call, NewObject::posted(object, Vec::new()), &WriteOptions::default()).await?;
    }
    Ok(())
}
