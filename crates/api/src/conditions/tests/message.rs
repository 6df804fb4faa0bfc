//! How messages are joined and cut.

use crate::conditions::message::{nest, plural};

#[test]
fn messages_are_nested_below_their_label_only_if_they_are_lists() {
    let cases = [
        ("", " "),
        ("plain", " plain"),
        ("emphasis *here*", " emphasis *here*"),
        ("ends in a star *", " ends in a star *"),
        ("* one", "\n  * one"),
        ("* one\n* two", "\n  * one\n  * two"),
        ("* one\n  * deeper\n* two", "\n  * one\n    * deeper\n  * two"),
        ("intro\n* one\n* two", "\n  * intro\n    * one\n    * two"),
        ("one\ntwo", "\n  * one\n  * two"),
        ("one\n", "\n  * one\n  * "),
        ("5 * 3 is too much", "\n  5 * 3 is too much"),
        ("tab *\tcounts", "\n  tab *\tcounts"),
        ("vertical tab *\x0bdoes not", " vertical tab *\x0bdoes not"),
    ];
    for (message, expected) in cases {
        assert_eq!(nest(message), expected, "{message:?}");
    }
}

#[test]
fn kinds_have_plurals() {
    let cases = [
        ("Machine", "Machines"),
        ("MachineDeployment", "MachineDeployments"),
        ("MachinePool", "MachinePools"),
        ("MachineSet", "MachineSets"),
        ("KubeadmControlPlane", "KubeadmControlPlanes"),
        ("ClusterClass", "ClusterClasses"),
        ("IPAddress", "IPAddresses"),
        ("NodePolicy", "NodePolicies"),
        ("Gateway", "Gateways"),
        ("Proxmox", "Proxmoxes"),
        ("Status", "Statuses"),
        ("Patch", "Patches"),
        ("Mesh", "Meshes"),
        ("Kubernetes", "Kubernetes"),
        ("DNS", "DNSes"),
    ];
    for (kind, expected) in cases {
        assert_eq!(plural(kind), expected);
    }
}
