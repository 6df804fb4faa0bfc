//! What upstream's webhook fills in, and owner and label of a MachinePool. Pure.

use capstan_api::core::{Cluster, MachinePool};
use capstan_api::meta::labels;
use capstan_controller::{Error, Result, owners};
use kube::ResourceExt as _;

use crate::replicas;

/// A MachinePool is owned by its Cluster and has its label.
pub(in crate::machinepool) fn claim(pool: &mut MachinePool, cluster: &Cluster) {
    if let Some(reference) = owners::plain(cluster) {
        owners::ensure(&mut pool.metadata, &reference);
    }
    let name = pool.spec.cluster_name.clone();
    pool.labels_mut().insert(labels::CLUSTER_NAME.to_owned(), name);
}

/// Fills in the number of machines, if it is unset. A pool that has machines keeps them.
///
/// # Errors
/// If an annotation of the autoscaler is no number.
pub(in crate::machinepool) fn fill_replicas(pool: &mut MachinePool) -> Result<()> {
    if pool.spec.replicas.is_none() {
        let before = pool.status.as_ref().and_then(|status| status.replicas).filter(|number| *number > 0);
        let number = replicas::unsaid(pool.annotations(), before).map_err(|error| {
            let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
            Error::user(format!("MachinePool {namespace}/{name}"), error.to_string())
        })?;
        pool.spec.replicas = Some(number);
    }
    Ok(())
}

pub(in crate::machinepool) fn is_deleting(pool: &MachinePool) -> bool {
    pool.metadata.deletion_timestamp.is_some()
}
