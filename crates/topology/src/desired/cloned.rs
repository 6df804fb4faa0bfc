//! Objects and templates that are made from the templates of a class.

use super::Names;
use crate::metadata;
use crate::object::{self, ANNOTATIONS, LABELS, LAST_APPLIED, OWNERS};
use capstan_api::meta::annotations::{CLONED_FROM_GROUP_KIND, CLONED_FROM_NAME};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What an object gets besides the content of its template.
pub(super) struct Cloned<'a> {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) owner: Option<Value>,
    pub(super) cluster: &'a Names<'a>,
}

impl<'a> Cloned<'a> {
    /// Without labels and annotations of its own.
    pub(super) fn plain(name: String, owner: Option<Value>, cluster: &'a Names<'a>) -> Cloned<'a> {
        Cloned { name, labels: BTreeMap::new(), annotations: BTreeMap::new(), owner, cluster }
    }

    /// An object of `spec.template`, of the kind without `Template`.
    pub(super) fn object(self, template: &Value) -> Value {
        let content = object::get(template, &["spec", "template"]).filter(|content| content.is_object());
        let mut made = json!({});
        object::set(&mut made, &["apiVersion"], json!(object::api_version(template)));
        let kind = object::kind(template);
        object::set(&mut made, &["kind"], json!(kind.strip_suffix("Template").unwrap_or(kind)));
        object::set(&mut made, &["metadata"], json!({}));
        let content = content.and_then(Value::as_object).into_iter().flatten();
        for (field, value) in content {
            object::set(&mut made, &[field.as_str()], value.clone());
        }
        self.finish(made, template)
    }

    /// A copy of the template itself.
    pub(super) fn template(self, template: &Value) -> Value {
        let mut made = template.clone();
        object::remove(&mut made, &["status"]);
        self.finish(made, template)
    }

    fn finish(self, mut made: Value, template: &Value) -> Value {
        for field in [
            "resourceVersion",
            "finalizers",
            "uid",
            "selfLink",
            "generation",
            "creationTimestamp",
            "managedFields",
        ] {
            object::remove(&mut made, &["metadata", field]);
        }
        object::remove(&mut made, OWNERS);
        object::set(&mut made, &["metadata", "name"], json!(self.name));
        object::set(&mut made, &["metadata", "namespace"], json!(self.cluster.namespace));
        let mut labels = object::texts(&made, LABELS);
        labels.extend(self.labels);
        metadata::own(&mut labels, self.cluster.name);
        object::set_texts(&mut made, LABELS, &labels);
        let mut annotations = object::texts(&made, ANNOTATIONS);
        annotations.extend(self.annotations);
        annotations.remove(LAST_APPLIED);
        let (api_version, kind) = (object::api_version(template), object::kind(template));
        annotations.insert(CLONED_FROM_NAME.to_string(), object::name(template).to_string());
        annotations.insert(CLONED_FROM_GROUP_KIND.to_string(), object::group_kind(api_version, kind));
        object::set_texts(&mut made, ANNOTATIONS, &annotations);
        object::set_some(&mut made, OWNERS, self.owner.map(|owner| json!([owner])));
        made
    }
}

/// The owner that keeps an object alive until the Cluster refers to it: a Secret of the topology controller. It stays
/// until the controller removes it.
pub(super) fn shim_owner(current: Option<&Value>, cluster: &Names<'_>) -> Option<Value> {
    let owners = object::get(current?, OWNERS)?.as_array()?;
    let shim = format!("{}-shim", cluster.name);
    let found = owners
        .iter()
        .find(|owner| object::text(owner, &["kind"]) == "Secret" && object::text(owner, &["name"]) == shim);
    found.cloned()
}

/// The name of an object that is referred to, or a new one.
pub(super) fn name_of_ref(reference: Option<&Value>) -> Option<String> {
    Some(object::text(reference?, &["name"])).filter(|name| !name.is_empty()).map(ToString::to_string)
}
