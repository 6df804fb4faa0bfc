//! What some ServiceAccounts may change in an object that a role lets them update: RBAC grants the right to a whole object.

use serde_json::Value;

use crate::{
    object,
    status::{ApiError, Result},
    store::GroupResource,
    user::User,
};

/// Restricts updates of a resource by some ServiceAccounts, whatever their roles allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restriction {
    /// How the names of the ServiceAccounts end.
    pub account_suffix: &'static str,
    /// API group of the resource.
    pub api_group: &'static str,
    /// The resource, in plural.
    pub resource: &'static str,
    /// Top-level fields that they may change.
    pub fields: &'static [&'static str],
    /// The most bytes that the object may have afterwards, as JSON.
    pub bytes: usize,
}

/// Metadata that the server itself changes with an update.
const SERVERS_OWN: [&str; 3] = ["resourceVersion", "generation", "managedFields"];

/// Rejects an update of the main resource that changes more than its user may.
pub(crate) fn check(
    restrictions: &[Restriction],
    user: &User,
    resource: &GroupResource,
    new: &Value,
    old: &Value,
) -> Result<()> {
    let applies = |restriction: &&Restriction| {
        restriction.api_group == resource.group()
            && restriction.resource == resource.resource()
            && user.is_account(restriction.account_suffix)
    };
    for restriction in restrictions.iter().filter(applies) {
        if let Some(why) = violation(restriction, new, old) {
            return Err(ApiError::forbidden(resource, object::name(new), &why));
        }
    }
    Ok(())
}

fn violation(restriction: &Restriction, new: &Value, old: &Value) -> Option<String> {
    let Restriction { account_suffix, resource, fields, bytes, .. } = restriction;
    let (Value::Object(new_fields), Value::Object(old_fields)) = (new, old) else { return None };
    let mut names: Vec<&String> = new_fields.keys().chain(old_fields.keys()).collect();
    names.retain(|name| !fields.contains(&name.as_str()));
    let changed = names.into_iter().find(|name| {
        let (new, old) = (new_fields.get(*name), old_fields.get(*name));
        if *name == "metadata" { !is_same_metadata(new, old) } else { new != old }
    });
    if let Some(changed) = changed {
        let fields = fields.join(", ");
        return Some(format!(
            "ServiceAccounts with names in {account_suffix} may change only {fields} of {resource}, not {changed}"
        ));
    }
    let length = new.to_string().len();
    (length > *bytes).then(|| {
        format!("ServiceAccounts with names in {account_suffix} may write {resource} of at most {bytes} bytes, and this one has {length}")
    })
}

fn is_same_metadata(new: Option<&Value>, old: Option<&Value>) -> bool {
    let own = |metadata: Option<&Value>| {
        let mut metadata = metadata.and_then(Value::as_object).cloned().unwrap_or_default();
        metadata.retain(|name, _| !SERVERS_OWN.contains(&name.as_str()));
        metadata
    };
    own(new) == own(old)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_named_fields_and_only_so_long() {
        let restriction = Restriction {
            account_suffix: ".g",
            api_group: "coordination.k8s.io",
            resource: "leases",
            fields: &["spec"],
            bytes: 300,
        };
        let old =
            json!({"kind": "Lease", "metadata": {"name": "l", "resourceVersion": "1"}, "spec": {"a": 1}});
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut new = old.clone();
            change(&mut new);
            violation(&restriction, &new, &old)
        };
        assert_eq!(changed(&|_| {}), None);
        assert_eq!(changed(&|new| new["spec"] = json!({"b": 2})), None);
        assert_eq!(
            changed(&|new| {
                new["metadata"]["resourceVersion"] = json!("2");
                new["metadata"]["managedFields"] = json!([{"manager": "agent"}]);
            }),
            None
        );
        for (field, value) in [
            ("finalizers", json!(["x/y"])),
            ("ownerReferences", json!([{"uid": "u"}])),
            ("labels", json!({"a": "b"})),
            ("annotations", json!({"a": "b"})),
        ] {
            let why = changed(&|new| new["metadata"][field] = value.clone()).expect(field);
            assert!(why.contains("only spec of leases, not metadata"), "{why}");
        }
        assert!(changed(&|new| new["more"] = json!(1)).is_some());
        let why = changed(&|new| new["spec"] = json!("x".repeat(400))).expect("too long");
        assert!(why.contains("at most 300 bytes"), "{why}");
    }
}
