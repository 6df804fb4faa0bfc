//! Patterns and fragments of schemas that several kinds share.

mod kubernetes;

pub(crate) use kubernetes::{IntOrStringSchema, LabelSelectorSchema, QuantitySchema, TimeSchema};

/// A DNS subdomain: lower case labels joined by dots.
pub(crate) const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// A single DNS label.
pub(crate) const DNS_LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// The name of a kind.
pub(crate) const KIND: &str = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";

/// A condition type: an optional DNS subdomain prefix and a qualified name.
pub(crate) const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// A condition reason in CamelCase.
pub(crate) const REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// A label value.
pub(crate) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// A taint key: like a label key.
pub(crate) const TAINT_KEY: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";

/// A range of unhealthy machines, as in `[3-5]`.
pub(crate) const HEALTH_RANGE: &str = r"^\[[0-9]+-[0-9]+\]$";

/// Group and version, as in `example.com/v1`.
pub(crate) const GROUP_VERSION: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[a-z]([-a-z0-9]*[a-z0-9])?$";

/// A maintenance window: `DAYS HH:MM-HH:MM [TIME-ZONE]`.
pub(crate) const MAINTENANCE_WINDOW: &str = r"^(daily|(Mon|Tue|Wed|Thu|Fri|Sat|Sun)([,-](Mon|Tue|Wed|Thu|Fri|Sat|Sun))*) ([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]( [A-Za-z0-9_+/-]+)?$";

/// The value of `x-kubernetes-validations` for pairs of a CEL rule and the message shown when it fails.
pub(crate) fn cel<const N: usize>(rules: [(&str, &str); N]) -> serde_json::Value {
    rules.into_iter().map(|(rule, message)| serde_json::json!({"rule": rule, "message": message})).collect()
}

/// The field keeps the value it was created with.
pub(crate) fn immutable() -> serde_json::Value {
    cel([("self == oldSelf", "cannot be changed; delete the object and create it again")])
}

/// A Kubernetes version as this contract writes them: semantic, with a leading v.
pub(crate) fn kubernetes_version() -> serde_json::Value {
    cel([(
        r"self.matches('^v(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?([+][0-9A-Za-z.-]+)?$')",
        "must be a full version with a leading v, such as v1.36.0",
    )])
}

/// Rules for every kind that makes Machines from a template.
pub(crate) fn machine_template_rules() -> serde_json::Value {
    cel([
        (
            "self.clusterName == self.template.spec.clusterName",
            "clusterName and template.spec.clusterName must be the same",
        ),
        (
            "has(self.template.spec.bootstrap.configRef) || has(self.template.spec.bootstrap.dataSecretName)",
            "template.spec.bootstrap needs a configRef or a dataSecretName",
        ),
    ])
}

/// A CEL rule and its message for an optional field of a struct that keeps the first value it gets.
macro_rules! set_once {
    ($field:literal) => {
        (
            concat!(
                "!has(oldSelf.",
                $field,
                ") || (has(self.",
                $field,
                ") && self.",
                $field,
                " == oldSelf.",
                $field,
                ")"
            ),
            concat!($field, " cannot be changed once it is set; delete the object and create it again"),
        )
    };
}
pub(crate) use set_once;
