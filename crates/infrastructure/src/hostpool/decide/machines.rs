//! Machines of pools that create them: the desired ones, and their progress. Pure.

use capstan_api::infrastructure::{Host, HostPool, NspawnHosts, SshAccess};
use capstan_api::wait::Wait;
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};

use super::Plan;
use crate::provisioner::{LocalMachine, PoolOfMachines};

/// Key of the public key in the Secret with the SSH key pair of a pool.
pub const PUBLIC_KEY: &str = "ssh-publickey";

/// The settings for the provisioner, if the pool creates machines.
pub(crate) fn of_pool(pool: &HostPool) -> Option<(PoolOfMachines, &NspawnHosts)> {
    let nspawn = pool.spec.nspawn.as_ref()?;
    let machines = PoolOfMachines {
        namespace: pool.namespace().unwrap_or_default(),
        name: pool.name_any(),
        root_filesystem: nspawn.root_filesystem.clone(),
        bridge: nspawn.bridge.clone(),
    };
    Some((machines, nspawn))
}

/// The SSH access of a machine that is up.
pub(in crate::hostpool) fn access(nspawn: &NspawnHosts, machine: &LocalMachine) -> SshAccess {
    SshAccess {
        address: machine.address.clone(),
        port: machine.port.into(),
        user: "root".to_owned(),
        sudo: None,
        credentials_ref: nspawn.credentials_ref.clone(),
        host_keys: machine.host_keys.clone(),
        trust_on_first_use: None,
    }
}

/// Machines without a Host that the plan does not contain either. The pool became smaller while they were created, or
/// their Hosts were deleted.
pub(in crate::hostpool) fn orphans(machines: &[String], ours: &[&Host], plan: &Plan) -> Vec<String> {
    let known: BTreeSet<String> = ours
        .iter()
        .map(|host| host.name_any())
        .chain(plan.create.iter().map(ResourceExt::name_any))
        .collect();
    machines.iter().filter(|name| !known.contains(*name)).cloned().collect()
}

/// The hosts of a pool that are kept: neither being deleted, nor deleted by the plan.
pub(in crate::hostpool) fn kept<'h>(ours: &[&'h Host], plan: &Plan) -> Vec<&'h Host> {
    let goes = |host: &Host| {
        host.metadata.deletion_timestamp.is_some()
            || plan.delete.iter().any(|gone| gone.name_any() == host.name_any())
    };
    ours.iter().copied().filter(|host| !goes(host)).collect()
}

/// Sets the SSH access of the machines that are up in the plan. A Host whose machine is not up waits.
pub(in crate::hostpool) fn fill_in(plan: &mut Plan, kept: &[&Host], up: &BTreeMap<String, SshAccess>) {
    plan.create.retain_mut(|host| {
        host.spec.ssh = up.get(&host.name_any()).cloned();
        host.spec.ssh.is_some()
    });
    for host in kept {
        let Some(ssh) = up.get(&host.name_any()).filter(|ssh| host.spec.ssh.as_ref() != Some(*ssh)) else {
            continue;
        };
        match plan.change.iter_mut().find(|(before, _)| before.name_any() == host.name_any()) {
            Some((_, after)) => after.spec.ssh = Some(ssh.clone()),
            None => {
                let mut after = (*host).clone();
                after.spec.ssh = Some(ssh.clone());
                plan.change.push(((*host).clone(), after));
            }
        }
    }
}

/// The progress of the machines of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::hostpool) struct Progress {
    /// Machines that boot.
    pub(in crate::hostpool) starting: Vec<String>,
    /// Machines that cannot be created, started or deleted, with the cause.
    pub(in crate::hostpool) failed: Vec<String>,
    /// The wait that keeps the pool from creating machines, if any.
    pub(in crate::hostpool) refused: Option<Wait>,
}

impl Progress {
    /// Whether a person must act.
    pub(in crate::hostpool) fn needs_a_person(&self) -> bool {
        self.refused.is_some() || !self.failed.is_empty()
    }
}
