//! Which Node a Machine is judged by. Pure.

use capstan_api::core::Machine;
use capstan_controller::Knowledge;
use capstan_controller::remote::{Ambiguous, Nodes};
use k8s_openapi::api::core::v1::Node;
use std::sync::Arc;

use super::super::names::reasons;
use super::health::NodeSeen;

/// An index of Nodes.
pub trait NodeIndex {
    /// The Node of a name.
    fn by_name(&self, name: &str) -> Option<Arc<Node>>;

    /// The Node that a machine became.
    ///
    /// # Errors
    /// If several Nodes claim to be that machine.
    fn by_provider_id(&self, provider_id: &str) -> Result<Option<Arc<Node>>, Ambiguous>;
}

impl NodeIndex for Nodes {
    fn by_name(&self, name: &str) -> Option<Arc<Node>> {
        Self::by_name(self, name)
    }

    fn by_provider_id(&self, provider_id: &str) -> Result<Option<Arc<Node>>, Ambiguous> {
        Self::by_provider_id(self, provider_id)
    }
}

/// A lookup of a Node in the workload cluster.
#[derive(Clone, Debug)]
pub enum Found {
    /// The lookup failed, and why.
    Unknown(String),
    /// The Node does not exist.
    None,
    /// The Node exists.
    There(Arc<Node>),
}

impl Found {
    /// The lookup as seen by the health check of a Machine.
    pub fn of<'a>(&'a self, machine: &'a Machine) -> NodeSeen<'a> {
        match (self, name(machine)) {
            (Self::Unknown(why), _) => NodeSeen::Unknown(why),
            (Self::There(node), _) => NodeSeen::There(node),
            (Self::None, Some(name)) => NodeSeen::Gone(name),
            (Self::None, None) => NodeSeen::None,
        }
    }
}

/// The Node that a Machine refers to.
pub fn name(machine: &Machine) -> Option<&str> {
    machine.status.as_ref()?.node_ref.as_ref().map(|node| node.name.as_str())
}

/// Looks up the Node of a Machine in the cache; `None` is a cluster without an API server. A Machine whose status was
/// lost, as after a move, may have a Node that it does not refer to yet.
pub fn find<I: NodeIndex>(nodes: Option<&Knowledge<I>>, machine: &Machine) -> Found {
    let nodes = match nodes {
        Some(Knowledge::Known(nodes)) => nodes,
        Some(Knowledge::Unknown(why)) => return Found::Unknown(why.clone()),
        None if name(machine).is_none() => return Found::None,
        None => {
            let why = "the Cluster does not say that its control plane is initialized";
            return Found::Unknown(why.to_owned());
        }
    };
    if let Some(name) = name(machine) {
        return nodes.by_name(name).map_or(Found::None, Found::There);
    }
    match machine.spec.provider_id.as_deref().map(|id| nodes.by_provider_id(id)) {
        Some(Ok(Some(node))) => Found::There(node),
        Some(Err(ambiguous)) => Found::Unknown(ambiguous.to_string()),
        Some(Ok(None)) | None => Found::None,
    }
}

/// The result of a live read.
pub fn read(node: Knowledge<Option<Node>>) -> Found {
    match node {
        Knowledge::Unknown(why) => Found::Unknown(why),
        Knowledge::Known(None) => Found::None,
        Knowledge::Known(Some(node)) => Found::There(Arc::new(node)),
    }
}

/// Whether a finding is about the Node, and not about a condition of the Machine.
pub fn is_about_node(reason: &str) -> bool {
    [reasons::UNHEALTHY_NODE, reasons::NODE_DELETED, reasons::NODE_STARTUP_TIMEOUT].contains(&reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machineset::fixtures::machine;
    use std::collections::BTreeMap;

    /// Nodes by name, each with a provider ID.
    struct Index(BTreeMap<String, String>);

    impl Index {
        fn node(name: &str) -> Arc<Node> {
            let mut node = Node::default();
            node.metadata.name = Some(name.to_owned());
            Arc::new(node)
        }
    }

    impl NodeIndex for Index {
        fn by_name(&self, name: &str) -> Option<Arc<Node>> {
            self.0.contains_key(name).then(|| Self::node(name))
        }

        fn by_provider_id(&self, provider_id: &str) -> Result<Option<Arc<Node>>, Ambiguous> {
            Ok(self.0.iter().find(|(_, id)| *id == provider_id).map(|(name, _)| Self::node(name)))
        }
    }

    #[test]
    fn what_is_not_known_is_not_gone() {
        let known = Knowledge::Known(Index([("n".to_owned(), "host:///n".to_owned())].into()));
        let unknown: Knowledge<Index> = Knowledge::unknown("the Nodes have not been listed yet");
        let with_node = machine("n").with_node().done();
        let gone = machine("x").with_node().done();
        let new = machine("n").done();
        let after_move = machine("n").change(|m| m.spec.provider_id = Some("host:///n".to_owned())).done();
        let found =
            |nodes: Option<&Knowledge<Index>>, machine: &Machine| match find(nodes, machine).of(machine) {
                NodeSeen::Unknown(_) => "unknown",
                NodeSeen::None => "none",
                NodeSeen::Gone(_) => "gone",
                NodeSeen::There(_) => "there",
            };
        for (nodes, machine, expected) in [
            (Some(&known), &with_node, "there"),
            (Some(&known), &gone, "gone"),
            (Some(&known), &new, "none"),
            (Some(&known), &after_move, "there"),
            (Some(&unknown), &with_node, "unknown"),
            (Some(&unknown), &new, "unknown"),
            (None, &new, "none"),
            (None, &with_node, "unknown"),
        ] {
            assert_eq!(found(nodes, machine), expected, "{machine:?}");
        }
    }
}
