//! The row of ComponentStatuses, which are read-only: nothing is stored.

use super::{BuiltIn, CellOf::Computed, ROW};
use crate::{Virtual, kinds::cells};

/// The rows.
pub(super) const TABLE: &[BuiltIn] = &[BuiltIn {
    resource: "componentstatuses",
    kind: "ComponentStatus",
    schema: "io.k8s.api.core.v1.ComponentStatus",
    short_names: &["cs"],
    namespaced: false,
    virtual_kind: Some(Virtual::ComponentStatus),
    deprecated: Some("v1 ComponentStatus is deprecated in v1.19+"),
    columns: &[
        ("Status", "string", Computed(|it, _| cells::component(it, "status"))),
        ("Message", "string", Computed(|it, _| cells::component(it, "message"))),
        ("Error", "string", Computed(|it, _| cells::component(it, "error"))),
    ],
    ..ROW
}];
