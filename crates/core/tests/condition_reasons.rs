//! The reference page of the reasons of conditions that core and the control plane provider set is made from the constants.

#![cfg(test)]

use capstan_api::conditions::{self, ReasonInfo, reason_table};
use capstan_api::{controlplane, runtime};
use capstan_core::{
    clusterclass, clusterresourceset, machinedeployment, machinehealthcheck, machineset, names,
};

const HEAD: &str = "# Condition reasons of core

These are the reasons that Capstan's core gives in the conditions of Clusters, ClusterClasses, Machines, MachineSets, MachineDeployments,
MachinePools, MachineHealthChecks, ClusterResourceSets and ExtensionConfigs, and those of CapstanControlPlanes. Reasons of core are the ones of Cluster API. This page is printed from the
constants of the code. [Condition reasons](waits.md) has the reasons with which Capstan's providers wait, and who must act on them.
`capstan why` shows what a cluster or a machine waits for.
";

/// The parts of the page.
const PARTS: [(&str, &[ReasonInfo]); 10] = [
    ("All kinds", conditions::reasons::ALL),
    ("Cluster", names::cluster::reasons::ALL),
    ("ClusterClass", clusterclass::names::reasons::ALL),
    ("Machine", names::machine::reasons::ALL),
    ("MachineDeployment", machinedeployment::names::reasons::ALL),
    ("Machine: condition OwnerRemediated", machineset::names::remediation::ALL),
    (
        "MachineHealthCheck, and the conditions that it sets on Machines",
        machinehealthcheck::names::reasons::ALL,
    ),
    ("ClusterResourceSet", clusterresourceset::names::reasons::ALL),
    ("CapstanControlPlane", controlplane::reasons::ALL),
    ("ExtensionConfig", runtime::conditions::ALL),
];

fn page() -> String {
    let part = |(kind, reasons): &(&str, &[ReasonInfo])| format!("\n## {kind}\n\n{}", reason_table(reasons));
    HEAD.to_owned() + &PARTS.iter().map(part).collect::<String>()
}

#[test]
fn the_page_is_current() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/core-conditions.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert_eq!(found, page(), "UPDATE_GOLDEN=1 writes {} again", path.display());
}

#[test]
fn every_reason_says_what_it_means() {
    for (kind, reasons) in PARTS {
        for reason in reasons {
            let texts = [Some(reason.meaning.trim()), reason.remedy];
            let is_sentence = |text: &&str| text.ends_with('.') && !text.contains('|');
            assert!(texts.iter().flatten().all(is_sentence), "{kind}: {reason:?}");
        }
    }
}
