//! Reads the members of etcd.

use capstan_controller::error::chain;
use capstan_controller::etcd::{Access, Etcd};
use capstan_planner::EtcdView;
use capstan_planner::etcd::{counts, hear_of};

use crate::certificates::Keys;
use crate::observe::Observed;
use crate::scope::replicas;

/// Access to etcd.
pub(crate) fn access(seen: &Observed<'_>, keys: &Keys) -> Access {
    let servers = seen.facts.iter().filter(|machine| machine.control_plane);
    Access {
        namespace: seen.scope.namespace.to_owned(),
        cluster: seen.scope.cluster_name(),
        addresses: servers.clone().flat_map(|machine| machine.addresses.clone()).collect(),
        os_images: servers.filter_map(|machine| machine.os_image.clone()).collect(),
        ca: keys.certificates.etcd.certificate.as_bytes().to_vec(),
        ca_key: keys.certificates.etcd.key.as_bytes().to_vec(),
    }
}

/// Reads the members of etcd, if they are relevant.
pub(crate) async fn ask(seen: &mut Observed<'_>, etcd: &dyn Etcd, access: &Access) {
    if !seen.initialized || !counts(&seen.facts, replicas(seen.scope.owner)) {
        return;
    }
    seen.etcd = match etcd.members(access).await {
        Ok(members) => EtcdView::Known(members),
        Err(error) => {
            seen.soon();
            EtcdView::Unknown(chain(&error))
        }
    };
    hear_of(&mut seen.facts, &seen.etcd);
}
