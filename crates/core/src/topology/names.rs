//! Names of new objects, and names of events.

use capstan_controller::names::random_suffix;
use capstan_topology::names::{Suffixes, suffix_of};
use capstan_topology::rotation::Place;
use serde_json::Value;

/// Reasons of events.
pub(super) mod events {
    /// An object was created.
    pub(in crate::topology) const CREATED: &str = "TopologyCreate";
    /// An object was changed.
    pub(in crate::topology) const UPDATED: &str = "TopologyUpdate";
    /// An object was deleted.
    pub(in crate::topology) const DELETED: &str = "TopologyDelete";
}

/// On objects of dry runs: their validation may ignore that templates cannot be changed.
pub(super) const DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";

/// Random characters. Those of objects of which a Cluster has one are derived from its UID: one that was created right
/// before the process died is found again by its name.
pub(super) struct NameSuffixes<'a> {
    pub(super) uid: &'a str,
}

impl Suffixes for NameSuffixes<'_> {
    fn suffix(&mut self) -> String {
        random_suffix()
    }

    fn lasting(&mut self, what: &str) -> String {
        suffix_of(fnv1a(self.uid.bytes().chain([b'/']).chain(what.bytes())))
    }
}

/// The suffix of the name of a template, derived from its content: one that was created right before the process died is
/// found again.
pub(super) fn of_content(uid: &str, place: &Place, template: &Value) -> u64 {
    let kind = |field: &str| template.get(field).map(Value::to_string).unwrap_or_default();
    let text = format!("{uid}/{place:?}/{}/{}/{}", kind("apiVersion"), kind("kind"), kind("spec"));
    fnv1a(text.bytes())
}

/// FNV-1a with 64 bits: unlike the hasher of the standard library it stays the same.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_which_there_is_one_keeps_its_name() {
        let mut suffixes = NameSuffixes { uid: "5f0c7a0e-2b0f-4b5e-8f57-0d5f3f1f7a11" };
        let plane = suffixes.lasting("control-plane");
        assert_eq!(plane, suffixes.lasting("control-plane"));
        assert_ne!(plane, suffixes.lasting("infrastructure"));
        let mut others = NameSuffixes { uid: "6f0c7a0e-2b0f-4b5e-8f57-0d5f3f1f7a11" };
        assert_ne!(plane, others.lasting("control-plane"));
        assert_eq!(plane.len(), 5);
    }

    #[test]
    fn a_template_is_named_by_its_content() {
        let template = |size: &str, label: &str| serde_json::json!({"kind": "K", "metadata": {"labels": {"a": label}}, "spec": {"size": size}});
        let name = |place: &Place, template: &Value| of_content("u", place, template);
        let (a, b) = (Place::Bootstrap("a".to_owned()), Place::Bootstrap("b".to_owned()));
        assert_eq!(name(&a, &template("s", "x")), name(&a, &template("s", "y")));
        assert_ne!(name(&a, &template("s", "x")), name(&a, &template("l", "x")));
        assert_ne!(name(&a, &template("s", "x")), name(&b, &template("s", "x")));
    }

    #[test]
    fn the_hash_is_the_known_one() {
        assert_eq!(fnv1a(b"".iter().copied()), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a".iter().copied()), 0xaf63_dc4c_8601_ec8c);
    }
}
